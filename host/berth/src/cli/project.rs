//! `berth project`: Projects, through `/core/v1` (OPS-020 to OPS-023).

use super::client::{self, Target};
use super::show;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

/// What to do with Projects.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a Project. It has no key yet: `berth key create` makes one.
    Create {
        /// A label of 1 to 128 characters; labels may repeat.
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Give a Project another name.
    Rename {
        /// The Project, by id or name.
        project: String,
        /// A label of 1 to 128 characters.
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Archive a Project for good: all of its keys are revoked, what it holds stays readable for administrators.
    Archive {
        /// The Project, by id or name.
        project: String,
        #[command(flatten)]
        target: Target,
    },
    /// Show every Project.
    List {
        #[command(flatten)]
        target: Target,
    },
}

/// Runs the command.
///
/// # Errors
/// The Core cannot be reached or refuses.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create { name, target } => {
            let body = json!({"name": name});
            let core = target.core()?;
            let project = core.send(Method::POST, "/projects", Some(&body)).await?;
            told(&project, &target);
        }
        Command::Rename {
            project,
            name,
            target,
        } => {
            let core = target.core()?;
            let id = client::project(&core, Some(&project)).await?;
            let path = format!("/projects/{id}");
            let body = json!({"name": name});
            let renamed = core.send(Method::POST, &path, Some(&body)).await?;
            told(&renamed, &target);
        }
        Command::Archive { project, target } => {
            let core = target.core()?;
            let id = client::project(&core, Some(&project)).await?;
            let path = format!("/projects/{id}/archive");
            let archived = core.send(Method::POST, &path, None).await?;
            told(&archived, &target);
        }
        Command::List { target } => {
            let projects = target.core()?.list("/projects").await?;
            if target.json {
                show::json(&json!(projects));
            } else {
                let rows: Vec<_> = projects
                    .iter()
                    .map(|project| {
                        vec![
                            show::text(&project["id"]),
                            show::text(&project["name"]),
                            show::text(&project["active_key_count"]),
                            show::time(&project["created_at"]),
                        ]
                    })
                    .collect();
                show::table(&["id", "name", "keys", "created"], &rows);
            }
        }
    }
    Ok(())
}

/// The Project that was changed.
fn told(project: &Value, target: &Target) {
    if target.json {
        show::json(project);
    } else {
        say!("{}", show::text(&project["id"]));
    }
}
