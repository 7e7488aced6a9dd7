//! `berth plugin list` and `berth plugin inspect`.

use super::super::{local, show};
use super::{Place, settings};
use clap::Args;
use plugin_host::contract::manifest::Manifest;
use plugin_host::load::PluginFile;
use plugin_host::{Plugin, Plugins, Transport};
use serde_json::{Map, Value, json};
use std::path::Path;

/// How to show them.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    local: local::LocalOptions,
    /// Load native plugins too. They run with all rights of this program.
    #[arg(long)]
    allow_native_plugins: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which one to show.
#[derive(Debug, Args)]
pub struct Inspection {
    /// Plugin id, or a plugin file.
    plugin: String,
    #[command(flatten)]
    place: Place,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Shows all of them.
///
/// # Errors
/// A built-in plugin has a broken manifest.
pub(super) async fn run(options: Options) -> anyhow::Result<()> {
    let settings = settings(&options.local.data_dir, options.allow_native_plugins);
    let plugins = tokio::task::spawn_blocking(move || Plugins::open(&settings)).await??;
    let mut rows = rows(&plugins);
    // LOC-003
    for provider in plugins.providers() {
        let id = provider.manifest.id.clone();
        let health = options.local.ask(provider).await?;
        let told: Map<String, Value> = health
            .facts
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        if let Some(row) = rows.iter_mut().find(|row| row["id"] == id) {
            row["here"] = json!({"ready": health.ready, "code": health.code, "facts": told});
        }
    }
    if options.json {
        show::json(&json!(rows));
        return Ok(());
    }
    let columns = ["kind", "id", "version", "transport", "permissions", "state"];
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut cells = columns.map(|column| show::text(&row[column])).to_vec();
            cells.push(here(&row["here"]));
            cells
        })
        .collect();
    let titles: Vec<_> = columns.into_iter().chain(["on this machine"]).collect();
    show::table(&titles, &cells);
    for refused in plugins.refused() {
        say!("{refused}");
    }
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

fn rows(plugins: &Plugins) -> Vec<Value> {
    let loaded = plugins.all().map(|plugin| row(plugin));
    let refused = plugins.refused().iter().map(|refused| {
        json!({
            "kind": null, "id": null, "version": null, "transport": null, "permissions": null,
            "state": "refused", "file": refused.path, "reason": refused.reason.to_string(),
        })
    });
    loaded.chain(refused).collect()
}

fn row(plugin: &Plugin) -> Value {
    let quarantine = plugin.health.quarantine();
    json!({
        "kind": plugin.manifest.kind,
        "id": plugin.manifest.id,
        "version": plugin.manifest.version,
        "transport": plugin.transport.name(),
        "permissions": permissions(&plugin.manifest),
        "state": if quarantine.is_some() { "quarantined" } else { "ready" },
        "reason": quarantine,
        "digest": plugin.digest,
        "file": plugin.path,
    })
}

fn permissions(manifest: &Manifest) -> String {
    let names: Vec<String> = manifest
        .permissions
        .keys()
        .map(|capability| show::text(&json!(capability)))
        .collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Shows one of them.
///
/// # Errors
/// There is none of that id, or the file is refused.
pub(super) fn inspect(options: &Inspection) -> anyhow::Result<()> {
    let path = Path::new(&options.plugin);
    let shown = if path.is_file() {
        let file = PluginFile::read(path)?;
        facts(
            &file.manifest,
            file.transport,
            Some(&file.digest),
            Some(path),
        )
    } else {
        let plugins = Plugins::open(&options.place.settings())?;
        let plugin = plugins.get(&options.plugin).ok_or_else(|| {
            let known: Vec<&str> = plugins
                .all()
                .map(|plugin| plugin.manifest.id.as_str())
                .collect();
            anyhow::anyhow!(
                "there is no plugin and no file `{}`; there are {}",
                options.plugin,
                known.join(", ")
            )
        })?;
        facts(
            &plugin.manifest,
            plugin.transport,
            plugin.digest.as_deref(),
            plugin.path.as_deref(),
        )
    };
    if options.json {
        show::json(&shown);
        return Ok(());
    }
    for (name, value) in shown.as_object().into_iter().flatten() {
        match value {
            Value::Object(entries) if name == "permissions" => {
                say!("permissions");
                for (capability, reason) in entries {
                    say!("  {capability:<10}  {}", show::text(reason));
                }
            }
            other => say!("{name:<12}  {}", show::text(other)),
        }
    }
    Ok(())
}

fn facts(
    manifest: &Manifest,
    transport: Transport,
    digest: Option<&str>,
    path: Option<&Path>,
) -> Value {
    json!({
        "id": manifest.id,
        "name": manifest.name,
        "version": manifest.version,
        "kind": manifest.kind,
        "contract": manifest.contract,
        "licence": manifest.license,
        "transport": transport.name(),
        "digest": digest,
        "file": path,
        "permissions": manifest.permissions,
        "settings": manifest.settings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A crate that nobody names is not linked: this list is what `built_in` promises.
    #[test]
    fn the_built_in_plugins_are_linked() {
        let plugins = Plugins::built_in().unwrap();
        let ids: Vec<String> = rows(&plugins)
            .iter()
            .map(|plugin| show::text(&plugin["id"]))
            .collect();
        assert_eq!(ids, ["harness-codex", "local", "mcp-bindings"]);
    }

    #[test]
    fn a_refused_file_is_shown_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("broken.wasm"), "no plugin").unwrap();
        let settings = plugin_host::Settings {
            folder: Some(folder.path().to_owned()),
            allow_native: false,
        };
        let rows = rows(&Plugins::open(&settings).unwrap());
        let refused = rows.last().unwrap();
        assert_eq!(refused["state"], "refused");
        let reason = show::text(&refused["reason"]);
        assert!(reason.contains("berth plugin build"), "{reason}");
    }
}
