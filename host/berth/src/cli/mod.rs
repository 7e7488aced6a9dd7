//! The command line: one sub-command per file.

use crate::demo::model_server;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Berth, a self-hosted Agents API.
#[derive(Debug, Parser)]
#[command(name = "berth", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A model that follows a script, for the demo and tests.
    #[command(hide = true)]
    ScriptedModel(model_server::Arguments),
}

/// Parses, runs, and turns an error into a sentence and exit status 1.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("berth: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berth: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::ScriptedModel(arguments) => model_server::run(arguments).await,
    }
}
