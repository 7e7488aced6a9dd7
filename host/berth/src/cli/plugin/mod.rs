//! `berth plugin`: write, build, judge, install and look at plugins.

mod build;
mod check;
mod install;
mod list;
mod new;
mod reload;
mod trust;

use super::client::Target;
use crate::data_dir::{self, PLUGINS};
use clap::{Args, Subcommand};
use plugin_host::Plugins;
use std::path::{Path, PathBuf};

/// What to do with plugins.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a folder with a plugin that builds and has its own test.
    New(new::Options),
    /// Build the plugin in a folder: a component, or with `--native` a library.
    Build(build::Options),
    /// Judge a plugin file: manifest, contract, imports, permissions, then the conformance suite of its kind.
    Check(check::Options),
    /// Show what a plugin file asks for and install it.
    Install(install::Options),
    /// Remove an installed plugin.
    Remove(install::Removal),
    /// Make the running Core and its daemons take what the plugin folder holds now, for everything new.
    Reload(Target),
    /// The keys whose signatures of plugin files are believed.
    #[command(subcommand)]
    Trust(trust::Command),
    /// Show each plugin: kind, id, version, how it is called, permissions, and why a file was refused.
    List(list::Options),
    /// Show everything that is known about one plugin, by id or by file.
    Inspect(list::Inspection),
}

/// The Core's folder.
#[derive(Debug, Args)]
pub struct Place {
    /// Data folder of the Core. The Core may be running.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    data_dir: PathBuf,
    /// Load native plugins too. They run with all rights of this program.
    #[arg(long)]
    allow_native_plugins: bool,
    /// Refuse what no trusted key signed, as a Core with this switch does.
    #[arg(long)]
    require_signed_plugins: bool,
}

impl Place {
    fn settings(&self) -> plugin_host::Settings {
        settings(
            &self.data_dir,
            self.allow_native_plugins,
            self.require_signed_plugins,
        )
    }
}

fn settings(data_dir: &Path, allow_native: bool, require_signed: bool) -> plugin_host::Settings {
    plugin_host::Settings {
        folder: Some(data_dir.join(PLUGINS)),
        allow_native,
        require_signed,
    }
}

/// The plugins of a data folder; native ones are not loaded.
///
/// # Errors
/// A built-in plugin is broken.
pub fn loaded(data_dir: &Path) -> anyhow::Result<Plugins> {
    Ok(Plugins::open(&settings(data_dir, false, false))?)
}

/// Runs the command.
///
/// # Errors
/// The sentence says what is wrong and what to do.
pub async fn run(command: Command) -> anyhow::Result<()> {
    let work: Box<dyn FnOnce() -> anyhow::Result<()> + Send> = match command {
        Command::List(options) => return list::run(options).await,
        Command::Reload(target) => return reload::run(&target).await,
        Command::New(options) => Box::new(move || new::run(&options)),
        Command::Build(options) => Box::new(move || build::run(&options)),
        Command::Trust(command) => Box::new(move || trust::run(&command)),
        Command::Check(options) => Box::new(move || check::run(&options)),
        Command::Install(options) => {
            let folder = options.data_dir().to_owned();
            tokio::task::spawn_blocking(move || install::run(&options)).await??;
            return reload::offer(&folder).await;
        }
        Command::Remove(options) => {
            let folder = options.data_dir().to_owned();
            tokio::task::spawn_blocking(move || install::remove(&options)).await??;
            return reload::offer(&folder).await;
        }
        Command::Inspect(options) => Box::new(move || list::inspect(&options)),
    };
    // All of it reads files, compiles or waits for another program.
    tokio::task::spawn_blocking(work).await?
}
