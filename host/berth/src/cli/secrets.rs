//! `berth secrets`: the key that seals what is stored.

use crate::data_dir::{self, Lock, Secrets, rotation};
use anyhow::{Context, bail};
use berth_core::{Rotated, RotationSettings};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

use super::database;
use super::serve::drain_on_signal;

/// What to do with the service key.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a new service key and move every stored secret, File, Skill and Artifact to it. The Core must be stopped; what is
    /// interrupted is continued by the same command or by the next `berth serve`.
    Rotate(Rotate),
}

/// Which Core.
#[derive(Debug, Args)]
pub struct Rotate {
    /// Data folder of the Core.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    data_dir: PathBuf,
    /// As for `berth serve`.
    #[arg(long, value_name = "URL")]
    database_url: Option<url::Url>,
    /// As for `berth serve`.
    #[arg(long, value_name = "FILE", requires = "database_url")]
    database_password_file: Option<PathBuf>,
    /// Only put the new key in its place: the next `berth serve` moves everything while it serves.
    #[arg(long)]
    in_background: bool,
    /// Every other Core of this PostgreSQL database is stopped and gets the new `credential.key` before it starts again.
    #[arg(long)]
    other_cores_stopped: bool,
}

/// Runs the command.
///
/// # Errors
/// The Core runs, or something stored cannot be moved; the former key is kept then.
pub async fn run(command: Command) -> anyhow::Result<()> {
    let Command::Rotate(options) = command;
    berth_core::crash::arm_from_environment().map_err(anyhow::Error::msg)?;
    database::check(options.database_url.as_ref())?;
    if options.database_url.is_some() && !options.other_cores_stopped {
        bail!(
            "a Core that still has the former key would store what nobody opens later: stop every Core of this database, \
             then say so with --other-cores-stopped"
        );
    }
    if !options.data_dir.join(data_dir::INSTALLATION).exists() {
        bail!("{} is no data folder of a Core", options.data_dir.display());
    }
    let folder = data_dir::open(&options.data_dir)?;
    let _lock = Lock::take(&folder)?;
    let holds_database = options.database_url.is_none();
    // Before anything changes: what is wrong with the folder is said first.
    Secrets::open(&folder, holds_database)?;
    rotation::begin(&folder)?;
    if options.in_background {
        say!(
            "the new service key is in its place; the next `berth serve` moves everything to it while it serves"
        );
        return Ok(());
    }
    let secrets = Secrets::open(&folder, holds_database)?;
    let former_key = secrets
        .former_key
        .context("the former service key is gone")?;
    let stop = CancellationToken::new();
    drain_on_signal(stop.clone())?;
    let settings = RotationSettings {
        database: database::of(
            options.database_url,
            options.database_password_file.as_deref(),
        )?,
        data_dir: folder.clone(),
        key: secrets.credential_key,
        former_key,
        installation: secrets.installation,
        owner: secrets.owner,
    };
    let Rotated { values, blobs } = Box::pin(berth_core::rotate(settings, stop)).await?;
    rotation::complete(&folder).context("the former service key could not be removed")?;
    say!(
        "moved {values} secrets and {blobs} files to the new service key; back the folder up again: an older copy needs the former key"
    );
    Ok(())
}
