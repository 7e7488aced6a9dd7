//! `berth harness`: the harness programs of this machine (HAR-001 to HAR-005).

use super::client::{Core, Target};
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
        target: Target,
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
        Command::List { target } => list(&target).await,
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

/// One line of the list.
struct Row {
    id: String,
    version: String,
    available: bool,
    /// Why it cannot run, and what to do.
    reason: String,
}

async fn list(target: &Target) -> anyhow::Result<()> {
    let rows = match target.elsewhere.core()? {
        Some(core) => there(&core).await?,
        None => here(&target.data_dir).await?,
    };
    if target.json {
        let rows = rows.iter().map(|row| json!({"id": row.id, "version": row.version, "available": row.available, "reason": row.reason}));
        show::json(&json!(rows.collect::<Vec<_>>()));
        return Ok(());
    }
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| match row.available {
            true => vec![row.id, row.version, "available".to_owned()],
            false => vec![row.id, row.version, row.reason],
        })
        .collect();
    show::table(&["harness", "version", "state"], &rows);
    Ok(())
}

/// What the programs of this machine are found to be.
async fn here(data_dir: &Path) -> anyhow::Result<Vec<Row>> {
    // Programs are started in a folder of their own, so their path must not depend on ours.
    let folder = std::path::absolute(data_dir)?.join(HARNESSES);
    let linked = super::plugin::loaded(data_dir)?.harnesses()?;
    let spawner = Spawner::new(std::env::current_exe().context("cannot find our own program")?);
    let catalogue = Catalogue::discover(&linked, &folder, Placement::Hosted, &spawner).await;
    let row = |harness: &Harness| {
        let offers = catalogue.offers();
        let offer = offers
            .iter()
            .find(|offer| offer.id == harness.declaration.id);
        Row {
            id: harness.declaration.id.to_string(),
            version: offer.map_or_else(String::new, |offer| offer.version.clone()),
            available: offer.is_some_and(|offer| offer.available),
            reason: match offer {
                Some(offer) => offer.reason.clone().unwrap_or_default(),
                None => format!(
                    "not installed; run `berth harness install {} --data-dir {}`",
                    harness.install.id,
                    data_dir.display()
                ),
            },
        }
    };
    Ok(linked.iter().map(row).collect())
}

/// What the Runtimes that are connected to a Core found, one line for each answer among them.
async fn there(core: &Core) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let answer = core.get("/harnesses").await?;
    for harness in answer["data"].as_array().into_iter().flatten() {
        let id = show::text(&harness["id"]);
        let before = rows.len();
        for alike in harness["runtimes"].as_array().into_iter().flatten() {
            rows.push(Row {
                id: id.clone(),
                version: alike["version"].as_str().unwrap_or_default().to_owned(),
                available: alike["available"] == true,
                reason: alike["reason"].as_str().unwrap_or_default().to_owned(),
            });
        }
        if rows.len() == before {
            rows.push(Row {
                id,
                version: String::new(),
                available: false,
                reason: "no Runtime that offers it is connected".to_owned(),
            });
        }
    }
    Ok(rows)
}
