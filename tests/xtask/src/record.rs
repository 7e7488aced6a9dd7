//! `cargo xtask record`: what the pinned Codex says about its own protocol, kept so that a new version shows its differences before it is adopted.

use crate::shell::{cargo, must, program, root, target};
use crate::tools::{self, CODEX};
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// What to record.
#[derive(Args)]
pub struct Options {
    /// Only the scenarios whose name contains this; without it, the protocol schema too.
    scenario: Option<String>,
}

/// Writes the fixtures of the Codex adapter again: the schema of the protocol as the pinned Codex prints it, and one transcript for each
/// scenario, with the scripted model behind it.
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
    if options.scenario.is_none() {
        write_schema(&codex)?;
    }
    must(cargo().args(["build", "--package", "berth"]))?;
    must(
        cargo()
            .args([
                "test",
                "--package",
                "berth-plugin-harness-codex",
                "--test",
                "record",
                "--features",
                "record",
                "--",
            ])
            .args(&options.scenario)
            .env("CODEX_PROGRAM", &codex)
            .env("BERTH_PROGRAM", target().join("debug/berth")),
    )
}

fn write_schema(codex: &Path) -> Result<()> {
    let out = target().join("codex-schema");
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
    let fixtures = root().join(format!(
        "plugins/harness-codex/tests/fixtures/codex-{CODEX}"
    ));
    std::fs::create_dir_all(&fixtures)?;
    for name in ["ServerRequest.json", "ServerNotification.json"] {
        let schema: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(out.join(name))?)?;
        std::fs::write(fixtures.join(name), format!("{schema}\n"))?;
    }
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
