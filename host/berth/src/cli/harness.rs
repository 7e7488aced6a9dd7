//! `berth harness`: the harness programs of this machine (HAR-001 to HAR-005).

use super::show;
use crate::data_dir::{self, HARNESSES};
use crate::install::{self, Installed};
use anyhow::Context;
use clap::{Args, Subcommand};
use domain::run::Placement;
use machine::process::Spawner;
use plugin_host::Harness;
use runtime::harness::Catalogue;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to do with harness programs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install a harness program through npm, the exact version that this Berth was proven with.
    Install {
        /// Harness id, such as `codex`.
        id: String,
        /// Another version of the range that the plugin accepts.
        #[arg(long)]
        version: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Show each harness: its version, and whether it can run here or why not.
    List {
        #[command(flatten)]
        place: Place,
    },
}

/// Where the programs are.
#[derive(Debug, Args)]
pub struct Place {
    /// Data folder of the Core. The Core may be running.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    data_dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The installation failed, or there is no such harness.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Install { id, version, place } => {
            let folder = data_dir::open(&place.data_dir)?.join(HARNESSES);
            std::fs::create_dir_all(&folder)?;
            let harness = find(&id, &place.data_dir)?;
            let installed = install::install(&harness.install, version.as_deref(), &folder).await?;
            let (path, new) = match &installed {
                Installed::New(path) => (path, true),
                Installed::Already(path) => (path, false),
            };
            if place.json {
                show::json(&json!({"id": id, "path": path, "installed": new}));
            } else if new {
                say!("{id} is installed in {}", path.display());
            } else {
                say!("{id} was already installed in {}", path.display());
            }
            Ok(())
        }
        Command::List { place } => list(&place).await,
    }
}

/// The harness of this id.
///
/// # Errors
/// There is none; the sentence names those that there are.
pub fn find(id: &str, data_dir: &Path) -> anyhow::Result<Harness> {
    let mut all = super::plugin::loaded(data_dir)?.harnesses()?;
    match all.iter().position(|harness| harness.install.id == id) {
        Some(at) => Ok(all.swap_remove(at)),
        None => {
            let known: Vec<&str> = all
                .iter()
                .map(|harness| harness.install.id.as_str())
                .collect();
            anyhow::bail!(
                "there is no harness `{id}`; this Berth has {}",
                known.join(", ")
            )
        }
    }
}

async fn list(place: &Place) -> anyhow::Result<()> {
    // Programs are started in a folder of their own, so their path must not depend on ours.
    let folder = std::path::absolute(&place.data_dir)?.join(HARNESSES);
    let linked = super::plugin::loaded(&place.data_dir)?.harnesses()?;
    let spawner = Spawner::new(std::env::current_exe().context("cannot find our own program")?);
    let catalogue = Catalogue::discover(&linked, &folder, Placement::Hosted, &spawner).await;
    let rows: Vec<(String, String, bool, String)> = linked
        .iter()
        .map(|harness| {
            let id = harness.declaration.id.to_string();
            match catalogue
                .offers()
                .iter()
                .find(|offer| offer.id == harness.declaration.id)
            {
                Some(offer) if offer.available => (id, offer.version.clone(), true, String::new()),
                Some(offer) => (
                    id,
                    offer.version.clone(),
                    false,
                    offer.reason.clone().unwrap_or_default(),
                ),
                None => {
                    let mend = format!(
                        "not installed; run `berth harness install {} --data-dir {}`",
                        harness.install.id,
                        place.data_dir.display()
                    );
                    (id, String::new(), false, mend)
                }
            }
        })
        .collect();
    if place.json {
        show::json(&json!(rows.iter().map(|(id, version, available, reason)| json!({"id": id, "version": version, "available": available, "reason": reason})).collect::<Vec<_>>()));
    } else {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(id, version, available, reason)| {
                vec![
                    id,
                    version,
                    if available {
                        "available".to_owned()
                    } else {
                        reason
                    },
                ]
            })
            .collect();
        show::table(&["harness", "version", "state"], &rows);
    }
    Ok(())
}
