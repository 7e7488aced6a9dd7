//! `berth plugin list`: what is linked into this program, and what it is allowed to do.

use super::show;
use anyhow::Context;
use clap::{Args, Subcommand};
use plugin_host::contract::manifest::Manifest;
use plugin_host::contract::registry;
use serde_json::{Value, json};

/// What to do with plugins.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show each plugin: kind, id, version, transport, permissions; for a sandbox provider what it can do on this machine.
    List(List),
}

/// How to show them.
#[derive(Debug, Args)]
pub struct List {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A built-in plugin has a broken manifest.
pub async fn run(Command::List(list): Command) -> anyhow::Result<()> {
    let plugins = all()?;
    if list.json {
        show::json(&json!(plugins));
        return Ok(());
    }
    let rows: Vec<_> = plugins
        .iter()
        .map(|plugin| {
            ["kind", "id", "version", "transport", "permissions"]
                .map(|member| show::text(&plugin[member]))
                .to_vec()
        })
        .collect();
    show::table(
        &["kind", "id", "version", "transport", "permissions"],
        &rows,
    );
    Ok(())
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
