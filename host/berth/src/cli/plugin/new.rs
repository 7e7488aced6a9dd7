//! `berth plugin new`: a folder with a small complete plugin, its test and its README.

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use plugin_host::contract;
use std::path::{Path, PathBuf};

/// What to make.
#[derive(Debug, Args)]
pub struct Options {
    /// Name of the plugin and of the folder: `[a-z0-9-]`, a letter first.
    name: String,
    /// What it is.
    #[arg(long)]
    kind: Kind,
    /// Language it is written in. JavaScript for a harness adapter or an MCP resolver.
    #[arg(long, default_value = "rust")]
    lang: Language,
    /// Rust: folder of Berth's `plugin-api` sources, to build against instead of the published crates.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Language {
    /// Small and fast; every kind.
    Rust,
    /// The component carries its engine: 13 MB.
    Js,
}

/// Where a file goes, and its text before it is filled in.
type Template = (&'static str, &'static str);

impl Kind {
    fn manifest(self) -> &'static str {
        match self {
            Self::Harness => include_str!("templates/harness/plugin.toml.txt"),
            Self::Sandbox => include_str!("templates/sandbox/plugin.toml.txt"),
            Self::Mcp => include_str!("templates/mcp/plugin.toml.txt"),
        }
    }

    /// Files of a template.
    ///
    /// # Errors
    /// Plugins of this kind cannot be written in this language.
    fn files(self, language: Language) -> anyhow::Result<Vec<Template>> {
        let mut files = vec![("plugin.toml", self.manifest())];
        match language {
            Language::Rust => files.extend(self.rust()),
            Language::Js => files.extend(self.javascript()?),
        }
        Ok(files)
    }

    fn rust(self) -> [Template; 4] {
        let (code, test) = match self {
            Self::Harness => (
                include_str!("templates/harness/lib.rs.txt"),
                include_str!("templates/harness/test.rs.txt"),
            ),
            Self::Sandbox => (
                include_str!("templates/sandbox/lib.rs.txt"),
                include_str!("templates/sandbox/test.rs.txt"),
            ),
            Self::Mcp => (
                include_str!("templates/mcp/lib.rs.txt"),
                include_str!("templates/mcp/test.rs.txt"),
            ),
        };
        [
            ("Cargo.toml", include_str!("templates/Cargo.toml.txt")),
            ("README.md", include_str!("templates/README.md.txt")),
            ("src/lib.rs", code),
            ("tests/conformance.rs", test),
        ]
    }

    fn javascript(self) -> anyhow::Result<Vec<Template>> {
        let own: &[Template] = match self {
            Self::Harness => &[
                (
                    "src/plugin.js",
                    include_str!("templates/harness/plugin.js.txt"),
                ),
                (
                    "src/declare.js",
                    include_str!("templates/harness/declare.js.txt"),
                ),
                (
                    "test/plugin.test.js",
                    include_str!("templates/harness/test.js.txt"),
                ),
            ],
            Self::Mcp => &[
                ("src/plugin.js", include_str!("templates/mcp/plugin.js.txt")),
                (
                    "test/plugin.test.js",
                    include_str!("templates/mcp/test.js.txt"),
                ),
            ],
            // Its component imports the whole world, used or not, and what was not granted is not linked.
            Self::Sandbox => bail!(
                "a sandbox provider cannot be written in JavaScript: its compiler imports every capability of the contract, \
                 so that the plugin would need grants that it never uses; leave --lang out for Rust"
            ),
        };
        let mut files = vec![
            (
                ".gitignore",
                include_str!("templates/javascript/gitignore.txt"),
            ),
            (
                "README.md",
                include_str!("templates/javascript/README.md.txt"),
            ),
            (
                "build.mjs",
                include_str!("templates/javascript/build.mjs.txt"),
            ),
            (
                "package.json",
                include_str!("templates/javascript/package.json.txt"),
            ),
        ];
        files.extend(own);
        Ok(files)
    }

    /// World of the contract that a plugin of this kind is linked into.
    fn world(self) -> &'static str {
        match self {
            Self::Harness => "harness-adapter-plugin",
            Self::Sandbox => "sandbox-provider-plugin",
            Self::Mcp => "mcp-resolver-plugin",
        }
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
    // All of it before the first file is written.
    let files = options.kind.files(options.lang)?;
    let mut filled = files
        .into_iter()
        .map(|(path, text)| Ok((PathBuf::from(path), filled(text, options)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if options.lang == Language::Js {
        let wit = contract::WIT.iter();
        filled.extend(wit.map(|(name, text)| (Path::new("wit").join(name), (*text).to_owned())));
    }
    for (path, text) in filled {
        let target = folder.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        std::fs::write(&target, text)
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
    let abilities = serde_json::to_string_pretty(contract::catalogue::ABILITIES)?;
    Ok(text
        .replace("{{name}}", &options.name)
        .replace("{{id}}", &options.name.replace('-', "_"))
        .replace("{{crate}}", &options.name.replace('-', "_"))
        .replace("{{kind}}", options.kind.name())
        .replace("{{grant}}", options.kind.grant())
        .replace("{{world}}", options.kind.world())
        .replace("{{contract}}", contract::VERSION)
        .replace("{{abilities}}", &abilities)
        .replace("{{sdk}}", &crate_of("sdk")?)
        .replace("{{kit}}", &crate_of("kit")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_filled_whole_and_its_manifest_holds() {
        for kind in [Kind::Harness, Kind::Sandbox, Kind::Mcp] {
            for lang in [Language::Rust, Language::Js] {
                let options = Options {
                    name: "my-plugin".to_owned(),
                    kind,
                    lang,
                    sdk: None,
                };
                let files = match kind.files(lang) {
                    Ok(files) => files,
                    Err(refused) => {
                        assert_eq!((kind, lang), (Kind::Sandbox, Language::Js));
                        assert!(refused.to_string().contains("leave --lang out"));
                        continue;
                    }
                };
                for (path, text) in files {
                    let text = filled(text, &options).unwrap();
                    assert!(!text.contains("{{"), "{path}: {text}");
                    if path == "plugin.toml" {
                        plugin_host::load::judged(&text).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn the_example_of_the_page_is_the_template() {
        let page = include_str!("../../../../../plugin-api/docs/javascript.md");
        let code = include_str!("templates/mcp/plugin.js.txt");
        assert!(page.ends_with(&format!("```js\n{code}```\n")));
    }
}
