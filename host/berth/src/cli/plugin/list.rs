//! `berth plugin list` and `berth plugin inspect`.

use super::super::client::{Core, Elsewhere, Target};
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
    #[command(flatten)]
    elsewhere: Elsewhere,
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
    if let Some(core) = options.elsewhere.core()? {
        return there(&core, options.json).await;
    }
    let settings = settings(&options.local.data_dir, options.allow_native_plugins, false);
    let plugins = tokio::task::spawn_blocking(move || Plugins::open(&settings)).await??;
    let mut rows = rows(&plugins);
    if let Some(running) = running(&options.local.data_dir).await {
        rows.iter_mut().for_each(|row| compare(row, &running));
    }
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
    tell(&rows, options.json);
    Ok(())
}

/// What a Core that runs elsewhere has loaded and refused. Only that Core can look at its machine, and tells of it whether the
/// chosen provider is ready.
async fn there(core: &Core, as_json: bool) -> anyhow::Result<()> {
    let loaded = core.get("/plugins").await?;
    let selection = core.get("/sandbox-provider").await?;
    let list = |name: &str| loaded[name].as_array().cloned().unwrap_or_default();
    let mut rows = list("data");
    for row in &mut rows {
        let permissions = row["permissions"].as_array().into_iter().flatten();
        row["permissions"] = json!(listed(permissions.map(show::text).collect()));
        if row["reason"].is_null() {
            row["reason"] = in_runtimes(row);
        }
        if row["id"] == selection["provider"] && selection["ready"] == false {
            row["state"] = json!("not ready");
            row["reason"] = selection["problem"].clone();
        }
    }
    rows.extend(list("refused").into_iter().map(|mut row| {
        row["state"] = json!("refused");
        row
    }));
    tell(&rows, as_json);
    Ok(())
}

fn tell(rows: &[Value], as_json: bool) {
    if as_json {
        return show::json(&json!(rows));
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
    for row in rows {
        let about = if row["state"] == "refused" {
            &row["file"]
        } else {
            &row["id"]
        };
        if let Some(reason) = row["reason"].as_str() {
            say!("{}: {reason}", show::text(about));
        }
    }
}

/// What the Core that runs on this folder has loaded; none if none answers.
async fn running(data_dir: &Path) -> Option<Value> {
    let core = Target::of(data_dir).core().ok()?;
    core.get("/plugins").await.ok()
}

/// What the running Core and its daemons say about a plugin of the folder.
fn compare(row: &mut Value, running: &Value) {
    if row["state"] == "refused" {
        return;
    }
    let same = |list: &str, key: &str| {
        running[list]
            .as_array()
            .into_iter()
            .flatten()
            .find(|known| known[key] == row[key])
            .cloned()
    };
    let refused = same("refused", "file").filter(|_| row["file"].is_string());
    if let Some(refused) = refused {
        row["state"] = json!("refused by the running Core");
        row["reason"] = refused["reason"].clone();
        return;
    }
    match same("data", "id") {
        Some(plugin) if plugin["digest"] == row["digest"] => {
            row["state"] = plugin["state"].clone();
            row["reason"] = match &plugin["reason"] {
                Value::Null => in_runtimes(&plugin),
                reason => reason.clone(),
            };
            row["runtimes"] = plugin["runtimes"].clone();
        }
        Some(plugin) => {
            let version = show::text(&plugin["version"]);
            row["state"] = json!("not loaded");
            row["reason"] = json!(format!(
                "the running Core has version {version} of another file; `berth plugin reload` makes it take this one"
            ));
        }
        None => {
            row["state"] = json!("not loaded");
            row["reason"] =
                json!("the running Core does not have it; `berth plugin reload` makes it take it");
        }
    }
}

fn in_runtimes(plugin: &Value) -> Value {
    let count = |key: &str| {
        let groups = plugin["runtimes"].as_array().into_iter().flatten();
        groups.filter_map(|group| group[key].as_u64()).sum::<u64>()
    };
    match count("quarantined") {
        0 => Value::Null,
        some => json!(format!(
            "{some} of {} connected Runtimes had too many faults of it and do not call it any more; their logs say which, `berth plugin reload` lets them try again",
            count("connected")
        )),
    }
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
        "signed_by": plugin.signed_by,
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
    listed(names)
}

fn listed(names: Vec<String>) -> String {
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
            file.signer(&options.place.settings())?.as_deref(),
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
            plugin.signed_by.as_deref(),
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
    signed_by: Option<&str>,
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
        "signed-by": signed_by,
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
    fn the_running_core_has_the_last_word() {
        let row = json!({"id": "a", "digest": "1", "state": "ready", "reason": null});
        let compared = |running: Value| {
            let mut row = row.clone();
            compare(&mut row, &json!({"data": running, "refused": []}));
            (show::text(&row["state"]), show::text(&row["reason"]))
        };
        let of = |digest, reason: Value, quarantined| {
            json!([{
                "id": "a", "version": "2.0.0", "digest": digest, "reason": reason,
                "state": if quarantined > 0 || !reason.is_null() { "quarantined" } else { "ready" },
                "runtimes": [{"connected": 3, "quarantined": quarantined}],
            }])
        };
        assert_eq!(compared(of("1", Value::Null, 0)).0, "ready");
        let (state, reason) = compared(of("1", json!("5 faults"), 0));
        assert_eq!(
            (state.as_str(), reason.as_str()),
            ("quarantined", "5 faults")
        );
        let (state, reason) = compared(of("1", Value::Null, 2));
        assert!(
            state == "quarantined" && reason.starts_with("2 of 3 "),
            "{reason}"
        );
        for other in [of("2", Value::Null, 0), json!([])] {
            let (state, reason) = compared(other);
            assert!(state == "not loaded" && reason.contains("berth plugin reload"));
        }
    }

    #[test]
    fn a_refused_file_is_shown_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("broken.wasm"), "no plugin").unwrap();
        let settings = plugin_host::Settings {
            folder: Some(folder.path().to_owned()),
            ..plugin_host::Settings::default()
        };
        let rows = rows(&Plugins::open(&settings).unwrap());
        let refused = rows.last().unwrap();
        assert_eq!(refused["state"], "refused");
        let reason = show::text(&refused["reason"]);
        assert!(reason.contains("berth plugin build"), "{reason}");
    }
}
