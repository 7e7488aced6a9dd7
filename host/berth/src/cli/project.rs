//! `berth project`: Projects, through `/core/v1` (OPS-020 to OPS-023).

use super::client::Target;
use super::show;
use clap::Subcommand;
use reqwest::Method;
use serde_json::json;

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
            let project = target
                .core()?
                .send(Method::POST, "/projects", Some(&json!({"name": name})))
                .await?;
            if target.json {
                show::json(&project);
            } else {
                say!("{}", show::text(&project["id"]));
            }
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
