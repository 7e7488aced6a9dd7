//! `berth plugin new`: a folder with a small complete plugin, its test and its README.

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// What to make.
#[derive(Debug, Args)]
pub struct Options {
    /// Name of the plugin and of the folder: `[a-z0-9-]`, a letter first.
    name: String,
    /// What it is.
    #[arg(long)]
    kind: Kind,
    /// Folder of Berth's `plugin-api` sources, to build against instead of the published crates.
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Teaches Berth an agent program.
    Harness,
    /// Makes the machines of hosted Environments.
    Sandbox,
    /// Resolves MCP servers.
    Mcp,
}

impl Kind {
    /// Files of a template: where each goes, and its text.
    fn files(self) -> [(&'static str, &'static str); 5] {
        let (manifest, code, test) = match self {
            Self::Harness => (
                include_str!("templates/harness/plugin.toml.txt"),
                include_str!("templates/harness/lib.rs.txt"),
                include_str!("templates/harness/test.rs.txt"),
            ),
            Self::Sandbox => (
                include_str!("templates/sandbox/plugin.toml.txt"),
                include_str!("templates/sandbox/lib.rs.txt"),
                include_str!("templates/sandbox/test.rs.txt"),
            ),
            Self::Mcp => (
                include_str!("templates/mcp/plugin.toml.txt"),
                include_str!("templates/mcp/lib.rs.txt"),
                include_str!("templates/mcp/test.rs.txt"),
            ),
        };
        [
            ("Cargo.toml", include_str!("templates/Cargo.toml.txt")),
            ("README.md", include_str!("templates/README.md.txt")),
            ("plugin.toml", manifest),
            ("src/lib.rs", code),
            ("tests/conformance.rs", test),
        ]
    }

    /// What `install` must be told for the template as it is.
    fn grant(self) -> &'static str {
        match self {
            Self::Sandbox => " --grant machine",
            Self::Harness | Self::Mcp => "",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Harness => "harness",
            Self::Sandbox => "sandbox provider",
            Self::Mcp => "MCP resolver",
        }
    }
}

/// Makes the folder; never writes into one that is there.
///
/// # Errors
/// The name is no name, the folder is there, or it cannot be written.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let name = options.name.as_str();
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ensure!(
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.len() <= 32
            && name.bytes().all(valid),
        "`{name}` is no plugin name; use at most 32 of a-z, 0-9 and -, a letter first"
    );
    let folder = Path::new(name);
    if folder.exists() {
        bail!("{name} is there already; choose another name or remove it");
    }
    for (path, text) in options.kind.files() {
        let target = folder.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        std::fs::write(&target, filled(text, options)?)
            .with_context(|| format!("cannot write {}", target.display()))?;
    }
    say!("made {name}; its README.md says how to test, build and install it");
    Ok(())
}

fn filled(text: &str, options: &Options) -> anyhow::Result<String> {
    let crate_of = |folder: &str| -> anyhow::Result<String> {
        let Some(sources) = &options.sdk else {
            return Ok(format!("version = \"{}\"", env!("CARGO_PKG_VERSION")));
        };
        let path = sources
            .join(folder)
            .canonicalize()
            .with_context(|| format!("{} holds no {folder}", sources.display()))?;
        // TOML escapes as JSON does.
        Ok(format!(
            "path = {}",
            serde_json::Value::from(path.to_string_lossy())
        ))
    };
    Ok(text
        .replace("{{name}}", &options.name)
        .replace("{{id}}", &options.name.replace('-', "_"))
        .replace("{{crate}}", &options.name.replace('-', "_"))
        .replace("{{kind}}", options.kind.name())
        .replace("{{grant}}", options.kind.grant())
        .replace("{{sdk}}", &crate_of("sdk")?)
        .replace("{{kit}}", &crate_of("kit")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_filled_whole_and_its_manifest_holds() {
        for kind in [Kind::Harness, Kind::Sandbox, Kind::Mcp] {
            let options = Options {
                name: "my-plugin".to_owned(),
                kind,
                sdk: None,
            };
            for (path, text) in kind.files() {
                let text = filled(text, &options).unwrap();
                assert!(!text.contains("{{"), "{path}: {text}");
                if path == "plugin.toml" {
                    plugin_host::load::judged(&text).unwrap();
                }
            }
        }
    }
}
