//! The task runner of this workspace, reached as `cargo xtask`.
//!
//! It exists so that a fresh machine with Rust, Node and Python needs one command to test everything: what is missing is installed into
//! `target/test-tools` (and PostgreSQL through apt when we are root), the rest runs in one fixed order, and one closing line says how it went.
//! `.ci/run` calls `cargo xtask test` and nothing else.

mod bench;
mod contract;
mod plugins;
mod postgres;
mod record;
mod report;
mod rules;
mod shell;
mod test;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tests, benchmarks and generators of the Berth workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Formatting, lints, licences, every Rust test on both databases, and the black-box suites with the official SDK and real Codex.
    Test(test::Options),
    /// Figures of the release build, each beside its ceiling measured in the same run.
    Bench(bench::Options),
    /// Where a rule id (`SC-6.3`) is implemented and tested; without an id, how many places name each rule.
    Rules(rules::Options),
    /// Records the Codex adapter's fixtures again from the pinned program: protocol schema and transcripts.
    Record(record::Options),
    /// Builds the plugins that the transport tests load, as components and as native libraries, with the `berth` that was
    /// built before (`cargo build`).
    Plugins {
        /// Only the plugin of this folder, such as `tests/javascript`.
        folder: Option<String>,
    },
    /// Writes the plugin contract's Rust types from its WIT.
    Contract {
        /// Only compare; fails when a checked-in file is stale.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Rules(options) => rules::run(&options),
        Task::Record(options) => record::run(&options),
        Task::Plugins { folder } => plugins::build(folder.as_deref()),
        Task::Contract { check } => contract::run(&shell::root(), check),
    }
}
