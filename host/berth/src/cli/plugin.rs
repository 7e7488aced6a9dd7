//! `berth plugin list`: what is linked into this program, and what it is allowed to do.

use super::{local, show};
use anyhow::Context;
use clap::{Args, Subcommand};
use plugin_host::contract::manifest::Manifest;
use plugin_host::contract::registry;
use plugin_host::providers::providers;
use serde_json::{Map, Value, json};

/// What to do with plugins.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show each plugin: kind, id, version, transport, permissions; for a sandbox provider what it can do on this machine.
    List(List),
}

/// How to show them.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    local: local::LocalOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A built-in plugin has a broken manifest.
pub async fn run(Command::List(list): Command) -> anyhow::Result<()> {
    let mut plugins = all()?;
    // LOC-003
    for provider in providers()? {
        let id = provider.manifest.id.clone();
        let health = list.local.ask(provider).await?;
        let told: Map<String, Value> = health
            .facts
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let shown = plugins.iter_mut().find(|plugin| plugin["id"] == id);
        if let Some(plugin) = shown {
            plugin["here"] = json!({"ready": health.ready, "code": health.code, "facts": told});
        }
    }
    if list.json {
        show::json(&json!(plugins));
        return Ok(());
    }
    let rows: Vec<_> = plugins
        .iter()
        .map(|plugin| {
            let mut row = ["kind", "id", "version", "transport", "permissions"]
                .map(|member| show::text(&plugin[member]))
                .to_vec();
            row.push(here(&plugin["here"]));
            row
        })
        .collect();
    show::table(
        &[
            "kind",
            "id",
            "version",
            "transport",
            "permissions",
            "on this machine",
        ],
        &rows,
    );
    Ok(())
}

/// What a provider can do on this machine, in one cell.
fn here(health: &Value) -> String {
    let Some(facts) = health["facts"].as_object() else {
        return show::text(&Value::Null);
    };
    let facts = facts
        .iter()
        .map(|(name, value)| format!("{name}: {}", show::text(value)));
    facts.collect::<Vec<_>>().join(", ")
}

fn all() -> anyhow::Result<Vec<Value>> {
    let manifests = registry::harnesses()
        .map(|plugin| plugin.manifest)
        .chain(registry::sandboxes().map(|plugin| plugin.manifest))
        .chain(registry::resolvers().map(|plugin| plugin.manifest));
    let mut plugins = Vec::new();
    for text in manifests {
        let manifest: Manifest =
            toml::from_str(text).context("a built-in plugin has a broken manifest")?;
        let permissions: Vec<String> = manifest
            .permissions
            .keys()
            .map(|capability| show::text(&json!(capability)))
            .collect();
        plugins.push(json!({
            "kind": manifest.kind, "id": manifest.id, "version": manifest.version, "transport": "built in",
            "permissions": if permissions.is_empty() { "none".to_owned() } else { permissions.join(", ") },
        }));
    }
    plugins.sort_by_key(|plugin| plugin["id"].to_string());
    Ok(plugins)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A crate that nobody names is not linked: this list is what `built_in` promises.
    #[test]
    fn the_built_in_plugins_are_linked() {
        let ids: Vec<String> = all()
            .unwrap()
            .iter()
            .map(|plugin| show::text(&plugin["id"]))
            .collect();
        assert_eq!(ids, ["harness-codex", "local", "mcp-bindings"]);
    }
}
