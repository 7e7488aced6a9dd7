//! `cargo xtask bench`: the figures of the release build, each beside its ceiling measured in the same run.

use crate::shell::{cargo, must};
use anyhow::Result;
use clap::Args;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Only rows whose name contains this text.
    filter: Option<String>,
}

/// Builds the release program and the load client, then measures.
pub fn run(options: &Options) -> Result<()> {
    must(cargo().args(["build", "--release", "-p", "berth"]))?;
    must(
        cargo()
            .args(["run", "--release", "-p", "berth-bench", "--"])
            .args(&options.filter),
    )
}
