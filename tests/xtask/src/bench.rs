//! `cargo xtask bench`: the figures of the release build. Not part of `cargo xtask test`: a release build alone takes ten minutes, and a
//! figure of a busy machine says little.

use crate::plugins;
use crate::shell::{cargo, must, program, target};
use crate::tools;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Rows (`read`, `list`, `missing`, `create`, `turn`, `delta`, `machine`, `idle`, `plugin`); all when left out.
    rows: Vec<String>,
    /// Make data folders here: the disk that is measured (`/var/tmp` when left out; `/tmp` may be memory).
    #[arg(long, value_name = "FOLDER")]
    disk: Option<PathBuf>,
    /// Also write the lines into this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Builds the release programs, then measures.
pub fn run(options: &Options) -> Result<()> {
    tools::strace()?;
    // Together, so that what they share is compiled once; the other two add no feature to the program.
    let programs = ["berth", "berth-scripted", "berth-bench"];
    must(
        cargo()
            .args(["build", "--release"])
            .args(programs.map(|name| format!("--package={name}"))),
    )?;
    let built = target().join("release");
    let plugins = target().join("bench-plugins");
    plugins::build_released("plugins/harness-codex", &built.join("berth"), &plugins)?;
    let mut bench = program(built.join("berth-bench"));
    bench.arg("rows").args(&options.rows);
    bench.arg("--berth").arg(built.join("berth"));
    bench.arg("--scripted").arg(built.join("berth-scripted"));
    bench.arg("--plugins").arg(&plugins);
    if let Some(folder) = &options.disk {
        bench.arg("--disk").arg(std::path::absolute(folder)?);
    }
    if let Some(file) = &options.json {
        bench.arg("--json").arg(std::path::absolute(file)?);
    }
    must(&mut bench)
}
