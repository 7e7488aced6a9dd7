//! `berth plugin reload`: the running Core takes what the plugin folder holds now.

use super::super::client::Target;
use super::super::show;
use anyhow::Context;
use reqwest::Method;
use serde_json::Value;
use std::path::Path;

/// Tells the Core, and says what it has then.
///
/// # Errors
/// No Core answers, or it keeps what it has; the sentence says why.
pub(super) async fn run(target: &Target) -> anyhow::Result<()> {
    let core = target.core()?;
    let loaded = core.send(Method::POST, "/plugins/reload", None).await?;
    if target.json {
        show::json(&loaded);
        return Ok(());
    }
    for plugin in loaded["data"].as_array().into_iter().flatten() {
        say!(
            "{} {} ({})",
            show::text(&plugin["id"]),
            show::text(&plugin["version"]),
            show::text(&plugin["transport"])
        );
    }
    for refused in loaded["refused"].as_array().into_iter().flatten() {
        say!(
            "{}: {}",
            show::text(&refused["file"]),
            show::text(&refused["reason"])
        );
    }
    say!("new Sessions use these; daemons follow within seconds");
    Ok(())
}

/// The same after the folder has changed, if a Core runs on it.
///
/// # Errors
/// The Core keeps what it has; the folder is changed all the same.
pub(super) async fn offer(data_dir: &Path) -> anyhow::Result<()> {
    let core = match Target::of(data_dir).core() {
        Ok(core) if core.get("/plugins").await.is_ok() => core,
        _ => return Ok(()),
    };
    let loaded: anyhow::Result<Value> = core.send(Method::POST, "/plugins/reload", None).await;
    loaded
        .context("the plugin folder is changed, and the running Core goes on with what it had")?;
    say!("the running Core has loaded its plugins again; daemons follow within seconds");
    Ok(())
}
