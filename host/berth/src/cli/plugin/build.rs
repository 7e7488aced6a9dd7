//! `berth plugin build`: the author's own compiler, then the packing that turns its output into a plugin.

use anyhow::{Context, bail, ensure};
use clap::Args;
use plugin_host::load::{judged, section};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wit_component::ComponentEncoder;

/// Rust's target for components: no system interface at all.
const TARGET: &str = "wasm32-unknown-unknown";

/// What to build.
#[derive(Debug, Args)]
pub struct Options {
    /// Folder with `plugin.toml` and `Cargo.toml` or `package.json`.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Build a native library instead of a component.
    #[arg(long)]
    native: bool,
    /// Cargo profile.
    #[arg(long, default_value = "release", value_name = "NAME")]
    profile: String,
    /// Where to put the plugin file; the plugin's own folder when left out.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Builds it and says where it is.
///
/// # Errors
/// The manifest is wrong, or the compiler or the packing fails.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let toml = options.folder.join("plugin.toml");
    let text = std::fs::read_to_string(&toml)
        .with_context(|| format!("cannot read {}; is this a plugin's folder?", toml.display()))?;
    let manifest = judged(&text).with_context(|| toml.display().to_string())?;
    let out = options.out.as_ref().unwrap_or(&options.folder);
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let target = if options.folder.join("Cargo.toml").is_file() {
        let made = cargo(options)?;
        if options.native {
            let target = out.join(format!("lib{}.so", manifest.id.replace('-', "_")));
            std::fs::copy(&made, &target)
                .with_context(|| format!("cannot write {}", target.display()))?;
            target
        } else {
            let target = out.join(format!("{}.wasm", manifest.id));
            std::fs::write(&target, packed(&std::fs::read(&made)?, &text)?)?;
            target
        }
    } else if options.folder.join("package.json").is_file() && !options.native {
        npm(&options.folder)?;
        let made = options.folder.join("build/plugin.wasm");
        let bytes = std::fs::read(&made)
            .with_context(|| format!("`npm run build` did not make {}", made.display()))?;
        let target = out.join(format!("{}.wasm", manifest.id));
        std::fs::write(&target, packed(&bytes, &text)?)?;
        target
    } else {
        bail!(
            "{} has no Cargo.toml{}",
            options.folder.display(),
            if options.native {
                ""
            } else {
                " and no package.json"
            }
        );
    };
    say!("built {}", target.display());
    Ok(())
}

/// A component with its manifest: of a core module, or of a component that another tool made.
fn packed(bytes: &[u8], manifest: &str) -> anyhow::Result<Vec<u8>> {
    let component = match section::format(bytes) {
        section::Format::Component => bytes.to_vec(),
        section::Format::CoreModule => ComponentEncoder::default()
            .validate(true)
            .module(bytes)
            .and_then(|encoder| encoder.encode())
            .context("the module is no plugin; register it with a macro of the SDK")?,
        _ => bail!("the compiler did not make a WASM module"),
    };
    Ok(section::with_manifest(&component, manifest))
}

/// Runs cargo and finds what it made.
fn cargo(options: &Options) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(&options.folder)
        .args(["rustc", "--lib", "--crate-type", "cdylib"])
        .args(["--profile", &options.profile])
        .args(["--message-format", "json-render-diagnostics"]);
    if options.native {
        command.args(["--features", "native"]);
    } else {
        command.args(["--target", TARGET]);
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo; install Rust from https://rustup.rs")?;
    ensure!(
        output.status.success(),
        "cargo failed{}",
        if options.native {
            String::new()
        } else {
            format!("; if the target is missing, run `rustup target add {TARGET}`")
        }
    );
    library(
        &output.stdout,
        if options.native {
            &["so", "dylib"]
        } else {
            &["wasm"]
        },
    )
    .context("cargo made no library")
}

/// The last library among cargo's messages: the package itself, after all that it uses.
fn library(messages: &[u8], endings: &[&str]) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(messages);
    let artifacts = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact");
    let mut files = artifacts.filter_map(|message| {
        let names = message["filenames"].as_array()?.clone();
        let fits = |name: &&Value| {
            let ending = name.as_str().and_then(|name| Path::new(name).extension());
            ending.is_some_and(|ending| endings.iter().any(|known| ending == *known))
        };
        let found = names.iter().find(fits)?;
        // A compiler plugin is a library too, and no plugin of ours.
        let own = message["target"]["crate_types"]
            .as_array()
            .is_some_and(|types| types.iter().any(|kind| kind == "cdylib"));
        own.then(|| PathBuf::from(found.as_str().unwrap_or_default()))
    });
    files.next_back()
}

fn npm(folder: &Path) -> anyhow::Result<()> {
    for step in [
        &["install", "--no-audit", "--no-fund"][..],
        &["run", "build"],
    ] {
        if step[0] == "install" && folder.join("node_modules").is_dir() {
            continue;
        }
        let status = Command::new("npm")
            .current_dir(folder)
            .args(step)
            .stdin(Stdio::null())
            .status()
            .context("cannot start npm; install Node 20 or newer")?;
        ensure!(status.success(), "`npm {}` failed", step.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_own_library_is_found() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"crate_types":["proc-macro"]},"filenames":["/t/libderive.so"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"crate_types":["cdylib"]},"filenames":["/t/mine.wasm"]}"#,
            "\n",
            "not json\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let found = library(messages.as_bytes(), &["wasm"]);
        assert_eq!(found.as_deref(), Some(Path::new("/t/mine.wasm")));
        assert_eq!(library(messages.as_bytes(), &["so"]), None);
    }

    #[test]
    fn what_is_no_module_is_not_packed() {
        assert!(packed(b"#!/bin/sh", "").is_err());
    }
}
