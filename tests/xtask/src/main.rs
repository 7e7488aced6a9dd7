//! Task runner: everything a contributor does besides plain cargo.

mod contract;

use std::path::Path;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Writes the plugin contract's Rust types from its WIT.
    Contract {
        /// Only compare; fails when a checked-in file is stale.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match Arguments::parse().task {
        Task::Contract { check } => contract::run(&root, check),
    }
}
