//! The command line: one sub-command per file.
//!
//! Every flag can also be given by its variable (`--data-dir` is `BERTH_DATA_DIR`) or by a key of the file that `--config` names; [`layers`]
//! does that once for all of them, in the order flag, variable, file.

mod advice;
mod check_config;
mod client;
mod daemon;
mod database;
mod doctor;
mod expose;
mod harness;
mod key;
mod layers;
mod local;
mod log;
mod model;
mod plugin;
mod project;
mod provider;
mod secrets;
mod serve;
mod session;
mod show;
mod shown;
mod summary;
#[cfg(feature = "crash-points")]
mod test_database;

use crate::demo;
use clap::{FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

pub use client::Target;
pub use harness::find as find_harness;
pub use serve::{
    Options as ServeOptions, Running, drain_on_signal, origin, sandboxes, start as start_core,
};
pub use session::why;

/// Berth, a self-hosted Agents API.
#[derive(Debug, Parser)]
#[command(name = "berth", version)]
struct Arguments {
    /// File with settings: a table for each sub-command, a key for each of its flags.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the Core: the API, the scheduler and the gateway.
    Serve(serve::Options),
    /// Judge the settings of `berth serve`, from flags, variables and file, without starting anything.
    CheckConfig(serve::Options),
    /// Show the main job in one command: install Codex, start a server, run a Session, stream its events.
    Demo(demo::Options),
    /// Projects of a running Core.
    #[command(subcommand)]
    Project(project::Command),
    /// API keys of a Project.
    #[command(subcommand)]
    Key(key::Command),
    /// Harness programs on this machine.
    #[command(subcommand)]
    Harness(harness::Command),
    /// The model that a harness uses where an Agent or Session names none.
    #[command(subcommand)]
    Model(model::Command),
    /// The key that seals what a Core stores.
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Sessions, as an operator sees them: states and causes, never content.
    #[command(subcommand)]
    Session(session::Command),
    /// What Projects hold and use: Sessions by state, tokens as far as they were measured.
    Summary(summary::Options),
    /// Plugins that this program has.
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// The deployment's one sandbox provider.
    #[command(subcommand)]
    Provider(provider::Command),
    /// The Runtime: runs harnesses beside a workspace. Started by a provider or by Core, with a bootstrap file.
    Daemon(daemon::Options),
    /// Say what is missing on this machine and how to mend it.
    Doctor(doctor::Options),
    /// A model that follows a script, for the demo and tests.
    #[command(hide = true)]
    ScriptedModel(demo::model_server::Arguments),
    /// What must hold over the database of a Core.
    #[cfg(feature = "crash-points")]
    #[command(hide = true)]
    TestDatabase(test_database::Options),
}

/// Parses, runs, and turns an error into a sentence and exit status 1.
pub fn main() -> ExitCode {
    let arguments = match layers::matches::<Arguments>(std::env::args_os()) {
        Ok(matches) => match Arguments::from_arg_matches(&matches) {
            Ok(arguments) => arguments,
            Err(error) => error.exit(),
        },
        Err(layers::Refused::Usage(error)) => error.exit(),
        Err(layers::Refused::File(error)) => {
            tell!("berth: {}", sentence(&error));
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tell!("berth: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(run(arguments.command));
    // Nothing may keep the program from ending: a blocking read of a terminal, for example.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("berth: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(options) => serve::run(options).await,
        Command::CheckConfig(options) => check_config::run(options),
        Command::Demo(options) => Box::pin(demo::run(options)).await,
        Command::Project(command) => project::run(command).await,
        Command::Key(command) => key::run(command).await,
        Command::Harness(command) => harness::run(command).await,
        Command::Model(command) => model::run(command).await,
        Command::Secrets(command) => secrets::run(command).await,
        Command::Session(command) => session::run(command).await,
        Command::Summary(options) => summary::run(options).await,
        Command::Plugin(command) => plugin::run(command).await,
        Command::Provider(command) => provider::run(command).await,
        Command::Daemon(options) => daemon::run(options).await,
        Command::Doctor(options) => doctor::run(options).await,
        Command::ScriptedModel(arguments) => demo::model_server::run(arguments).await,
        #[cfg(feature = "crash-points")]
        Command::TestDatabase(options) => test_database::run(options).await,
    }
}

/// An error with its causes; what an error says of its own cause is not said again.
fn sentence(error: &anyhow::Error) -> String {
    let mut all = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if all.is_empty() {
            all = cause;
        } else if !all.contains(&cause) {
            all = format!("{all}: {cause}");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let plain = Err::<(), _>(anyhow!("the disk is full")).context("it cannot be written");
        let wrapped = plain.context("nothing works: it cannot be written");
        let text = sentence(&wrapped.unwrap_err());
        assert_eq!(
            text,
            "nothing works: it cannot be written: the disk is full"
        );
    }
}
