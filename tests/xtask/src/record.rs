//! `cargo xtask record`: what the pinned Codex says about its own protocol, kept so that a new version shows its differences before it is adopted.

use crate::shell::{must, program, root};
use crate::tools::{self, CODEX};
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// Where to write.
#[derive(Args)]
pub struct Options {
    /// Folder for the generated schema (default `target/codex-schema`, which is not checked in).
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Writes the JSON schema of the app-server protocol of the pinned Codex.
pub fn run(options: &Options) -> Result<()> {
    let tools = tools::install()?;
    let codex = find(
        &tools
            .harnesses
            .join("codex")
            .join(CODEX)
            .join("node_modules"),
        "bin/codex",
    )
    .context("the npm package holds no native `codex` for this machine")?;
    let out = options
        .out
        .clone()
        .unwrap_or_else(|| root().join("target/codex-schema"));
    std::fs::create_dir_all(&out)?;
    must(
        program(codex)
            .args([
                "app-server",
                "generate-json-schema",
                "--experimental",
                "--out",
            ])
            .arg(&out),
    )?;
    println!(
        "the protocol schema of Codex {CODEX} is in {}",
        out.display()
    );
    Ok(())
}

/// The first file below `folder` whose path ends with `end` and which lies in a `vendor` folder (the wrapper script does not).
fn find(folder: &Path, end: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with(end)
                && path.components().any(|part| part.as_os_str() == "vendor")
            {
                return Some(path);
            }
        }
    }
    None
}
