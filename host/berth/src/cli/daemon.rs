//! `berth daemon`: the Runtime. Hosted ones are started by their provider, never by hand.

use super::log::Logging;
use anyhow::Context;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How to run it.
#[derive(Debug, Args)]
pub struct Options {
    /// The bootstrap file. Its folder is the daemon's private state.
    #[arg(long, value_name = "FILE")]
    bootstrap: PathBuf,
    /// Folder of the installed harnesses.
    #[arg(long, value_name = "FOLDER")]
    harness_dir: PathBuf,
    /// Folder of the plugin files; none when empty or left out.
    #[arg(long, value_name = "FOLDER")]
    plugin_dir: Option<OsString>,
    /// Load native plugins too: trusted code, with all rights of this process.
    #[arg(long)]
    allow_native_plugins: bool,
    /// Load only plugin files that a trusted key signed.
    #[arg(long)]
    require_signed_plugins: bool,
    /// Folder of the Sessions' private homes [default: the account's home, else `home` beside the state folder].
    #[arg(long, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// Turns that an engine host runs at the same time; a hosted daemon runs one.
    #[arg(long, value_name = "N", default_value_t = 20)]
    engine_runs: u32,
    #[command(flatten)]
    logging: Logging,
}

/// Runs the daemon until SIGTERM or Ctrl-C, then ends its Executors.
///
/// # Errors
/// It cannot start; nothing was dialled then.
pub async fn run(options: Options) -> anyhow::Result<()> {
    options.logging.start()?;
    if let Err(error) = machine::process::raise_open_files() {
        tracing::warn!(%error, "the limit of open files is not raised");
    }
    let stop = CancellationToken::new();
    stop_on_signal(stop.clone())?;
    let settings = runtime::daemon::Settings {
        bootstrap: options.bootstrap,
        harness_dir: options.harness_dir,
        plugins: plugin_host::Settings {
            folder: options
                .plugin_dir
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from),
            allow_native: options.allow_native_plugins,
            require_signed: options.require_signed_plugins,
        },
        home: options
            .home
            .or_else(|| std::env::var_os("HOME").map(PathBuf::from)),
        own_program: std::env::current_exe().context("this program's own path is unknown")?,
        build: env!("CARGO_PKG_VERSION").to_owned(),
        engine_runs: options.engine_runs,
    };
    Box::pin(runtime::daemon::run(settings, stop)).await?;
    Ok(())
}

fn stop_on_signal(stop: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}
