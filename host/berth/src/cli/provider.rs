//! `berth provider`: the deployment's one sandbox provider (SP-2.1 to SP-2.3).

use super::client::Target;
use super::show;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const PATH: &str = "/sandbox-provider";

/// What to do with the selection.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Choose the provider that makes the machines of hosted Environments. It is asked first whether it can.
    Set(Set),
    /// Show the provider, its settings and the generation of the selection.
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Choose none: hosted Environments are refused.
    Clear {
        #[command(flatten)]
        target: Target,
    },
}

/// The complete selection.
#[derive(Debug, Args)]
pub struct Set {
    /// Plugin id, such as `local`; `berth plugin list` shows them.
    id: String,
    /// TOML file with the provider's settings, `key = value`; all others are as its manifest says.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// The Core cannot be reached or refuses, or the settings cannot be read.
pub async fn run(command: Command) -> anyhow::Result<()> {
    let (target, chosen) = match command {
        Command::Show { target } => {
            let selection = target.core()?.get(PATH).await?;
            tell(&target, &selection);
            return Ok(());
        }
        Command::Set(set) => {
            let settings = set.settings.as_deref().map(settings).transpose()?;
            let chosen = json!({"provider": set.id, "settings": settings.unwrap_or_default()});
            (set.target, chosen)
        }
        Command::Clear { target } => (target, json!({"provider": null})),
    };
    let core = target.core()?;
    let mut chosen = chosen;
    // What this command saw; a change in between is refused (SP-2.2).
    chosen["expected_generation"] = core.get(PATH).await?["generation"].clone();
    let selection = core.send(Method::PUT, PATH, Some(&chosen)).await?;
    tell(&target, &selection);
    Ok(())
}

fn tell(target: &Target, selection: &Value) {
    if target.json {
        show::json(selection);
        return;
    }
    let generation = &selection["generation"];
    match selection["provider"].as_str() {
        None => say!("no provider (generation {generation}); hosted Environments are refused"),
        Some(id) => {
            let state = if selection["ready"] == true {
                "ready".to_owned()
            } else {
                let problem = selection["problem"].as_str().unwrap_or("it was not asked");
                format!(
                    "not ready ({problem}); hosted Environments are refused until it is, `berth doctor` says what is missing"
                )
            };
            say!("{id} (generation {generation}), {state}");
        }
    }
    for (key, value) in selection["settings"].as_object().into_iter().flatten() {
        say!("  {key} = {}", show::text(value));
    }
}

/// The settings of a file; all values travel as text.
fn settings(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let table: toml::Table =
        toml::from_str(&text).with_context(|| format!("{} is no TOML", path.display()))?;
    let mut settings = Map::new();
    for (key, value) in table {
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Boolean(truth) => truth.to_string(),
            toml::Value::Integer(number) => number.to_string(),
            _ => bail!(
                "`{key}` in {} must be a text, a whole number, true or false",
                path.display()
            ),
        };
        settings.insert(key, Value::from(value));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_travel_as_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "region = \"eu\"\nfast = true\nsize = 3\n").unwrap();
        let read = Value::from(settings(file.path()).unwrap());
        assert_eq!(read, json!({"region": "eu", "fast": "true", "size": "3"}));
        for wrong in ["size = 1.5", "[table]\na = 1", "no toml"] {
            std::fs::write(file.path(), wrong).unwrap();
            assert!(settings(file.path()).is_err(), "{wrong}");
        }
    }
}
