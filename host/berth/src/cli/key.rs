//! `berth key`: API keys of a Project (OPS-024 to OPS-026).

use super::client::{self, Target, unless_found};
use super::show;
use clap::Subcommand;
use reqwest::Method;
use serde_json::json;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Issue a key. Its text is shown once: only a digest is kept (OPS-033).
    Create {
        /// The Project it belongs to, by id or name.
        #[arg(long, value_name = "ID")]
        project: String,
        /// A label of 1 to 80 characters.
        #[arg(long, default_value = "key")]
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Revoke a key at once. What it was used for stays (OPS-034).
    Revoke {
        /// The key's id, as `berth key list` shows it.
        key_id: String,
        /// The Project it belongs to, by id or name.
        #[arg(long, value_name = "ID")]
        project: String,
        #[command(flatten)]
        target: Target,
    },
    /// Show the keys of a Project, without their text.
    List {
        /// The Project, by id or name.
        #[arg(long, value_name = "ID")]
        project: String,
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
        Command::Create {
            project,
            name,
            target,
        } => {
            let core = target.core()?;
            let project = client::project(&core, Some(&project)).await?;
            let key = core
                .send(
                    Method::POST,
                    &format!("/projects/{project}/keys"),
                    Some(&json!({"name": name})),
                )
                .await?;
            if target.json {
                show::json(&key);
            } else {
                tell!(
                    "key {} of Project {project}; it is shown this once:",
                    show::text(&key["id"])
                );
                say!("{}", show::text(&key["key"]));
            }
        }
        Command::Revoke {
            key_id,
            project,
            target,
        } => {
            let core = target.core()?;
            let project = client::project(&core, Some(&project)).await?;
            let answer = core
                .send(
                    Method::DELETE,
                    &format!("/projects/{project}/keys/{key_id}"),
                    None,
                )
                .await
                .map_err(|error| {
                    let what = format!("key {key_id} in Project {project}");
                    unless_found(error, &what, "`berth key list`")
                })?;
            if target.json {
                show::json(&answer);
            } else {
                say!("key {key_id} is revoked");
            }
        }
        Command::List { project, target } => {
            let core = target.core()?;
            let project = client::project(&core, Some(&project)).await?;
            let keys = core.list(&format!("/projects/{project}/keys")).await?;
            if target.json {
                show::json(&json!(keys));
            } else {
                let rows: Vec<_> = keys
                    .iter()
                    .map(|key| {
                        vec![
                            show::text(&key["id"]),
                            show::text(&key["name"]),
                            show::text(&key["prefix"]),
                            show::time(&key["created_at"]),
                            show::time(&key["revoked_at"]),
                        ]
                    })
                    .collect();
                show::table(&["id", "name", "prefix", "created", "revoked"], &rows);
            }
        }
    }
    Ok(())
}
