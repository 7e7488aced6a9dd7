//! `berth plugin trust`: the keys whose signatures of plugin files are believed.

use super::super::show;
use crate::data_dir;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use plugin_host::load::Trust;
use plugin_host::load::folder::prepare;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to do with the keys.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Trust a public key of Ed25519. From then on, a signature that no trusted key made is refused.
    Add {
        /// What to call it: 1 to 64 of a-z, 0-9 and -.
        name: String,
        /// The key in PEM form, as `openssl pkey -in KEY -pubout` writes it.
        #[arg(value_name = "FILE")]
        key: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Show the trusted keys.
    List {
        #[command(flatten)]
        place: Place,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Trust a key no more.
    Remove {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

/// The Core's folder.
#[derive(Debug, Args)]
pub struct Place {
    /// Data folder of the Core. The Core may be running; `berth plugin reload` makes it look again.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    data_dir: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The key is none, the name is in use or not there, or the folder cannot be used.
pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Add { name, key, place } => {
            let pem =
                std::fs::read(key).with_context(|| format!("cannot read {}", key.display()))?;
            let folder = data_dir::open(&place.data_dir)?.join(data_dir::PLUGINS);
            prepare(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let mut trust = Trust::read(&folder)?;
            let added = trust.add(name, &pem);
            added.with_context(|| format!("{} is not trusted", key.display()))?;
            trust.write(&folder)?;
            say!("plugins that `{name}` signed are trusted");
        }
        Command::List { place, json } => list(&place.data_dir, *json)?,
        Command::Remove { name, place } => {
            let folder = place.data_dir.join(data_dir::PLUGINS);
            let mut trust = Trust::read(&folder)?;
            if !trust.remove(name) {
                bail!("no trusted key is called `{name}`; `berth plugin trust list` shows all");
            }
            trust.write(&folder)?;
            say!("`{name}` is trusted no more");
        }
    }
    Ok(())
}

fn list(data_dir: &Path, json: bool) -> anyhow::Result<()> {
    let trust = Trust::read(&data_dir.join(data_dir::PLUGINS))?;
    if json {
        let keys: serde_json::Map<_, _> = trust
            .keys()
            .map(|(name, key)| (name.to_owned(), json!(key)))
            .collect();
        show::json(&json!(keys));
        return Ok(());
    }
    let rows: Vec<_> = trust
        .keys()
        .map(|(name, key)| vec![name.to_owned(), key.to_owned()])
        .collect();
    show::table(&["name", "ed25519 public key"], &rows);
    Ok(())
}
