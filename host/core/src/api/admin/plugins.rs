//! The plugins of this Core, how they behave here and in the connected Runtimes, and their reload.

use std::collections::BTreeMap;

use domain::run::HarnessOffer;
use plugin_host::Plugin;
use plugin_host::contract::manifest::{Capability, Kind};
use serde::Serialize;

use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::peer::Peers;

#[derive(Serialize)]
struct PluginsJson<'a> {
    object: &'static str,
    data: Vec<PluginJson<'a>>,
    /// Files that are no plugins of this Core, and why.
    refused: Vec<RefusedJson>,
}

#[derive(Serialize)]
struct PluginJson<'a> {
    id: &'a str,
    name: &'a str,
    kind: Kind,
    version: &'a str,
    contract: &'a str,
    transport: &'static str,
    digest: Option<&'a str>,
    /// The operator's name for the key that signed it.
    signed_by: Option<&'a str>,
    file: Option<String>,
    permissions: Vec<Capability>,
    state: &'static str,
    /// Why it is in quarantine in this process.
    reason: Option<String>,
    /// Faults in this process since it was loaded.
    faults: u64,
    /// Connected Runtimes by the version of it that they offer; only for an adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    runtimes: Option<Vec<RuntimesJson>>,
}

/// Runtimes that offer one version of an adapter.
#[derive(Serialize)]
struct RuntimesJson {
    version: String,
    digest: Option<String>,
    connected: u64,
    /// So many of them do not call it any more.
    quarantined: u64,
}

#[derive(Serialize)]
struct RefusedJson {
    file: String,
    reason: String,
}

/// `GET /core/v1/plugins`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let plugins = call.core.plugins.current();
    let peers = call.core.gateway.connected();
    let offers: Vec<HarnessOffer> = peers.iter().flat_map(|peer| peer.offers()).collect();
    let refused = plugins.refused().iter().map(|refused| RefusedJson {
        file: refused.path.display().to_string(),
        reason: refused.reason.to_string(),
    });
    Reply::ok(&PluginsJson {
        object: "core.plugins",
        data: plugins.all().map(|plugin| shown(plugin, &offers)).collect(),
        refused: refused.collect(),
    })
}

/// `POST /core/v1/plugins/reload`
pub(crate) async fn reload(call: Call) -> Result<Reply, ApiError> {
    let core = &call.core;
    let reloaded = core
        .plugins
        .reload(&core.harnesses, core.deployment.as_deref());
    reloaded.await.map_err(|error| {
        tracing::warn!(%error, "the plugins are not loaded again");
        AdminError::PluginsNotReloaded(error.to_string())
    })?;
    list(call).await
}

fn shown<'a>(plugin: &'a Plugin, offers: &[HarnessOffer]) -> PluginJson<'a> {
    let manifest = &plugin.manifest;
    let reason = plugin.health.quarantine();
    let runtimes = (manifest.kind == Kind::Harness).then(|| runtimes(&manifest.id, offers));
    let given_up = |group: &RuntimesJson| group.quarantined > 0;
    let quarantined = reason.is_some() || runtimes.iter().flatten().any(given_up);
    PluginJson {
        id: &manifest.id,
        name: &manifest.name,
        kind: manifest.kind,
        version: &manifest.version,
        contract: &manifest.contract,
        transport: plugin.transport.name(),
        digest: plugin.digest.as_deref(),
        signed_by: plugin.signed_by.as_deref(),
        file: plugin.path.as_ref().map(|path| path.display().to_string()),
        permissions: manifest.permissions.keys().copied().collect(),
        state: if quarantined { "quarantined" } else { "ready" },
        reason,
        faults: plugin.health.faults(),
        runtimes,
    }
}

fn runtimes(id: &str, offers: &[HarnessOffer]) -> Vec<RuntimesJson> {
    let mut groups: BTreeMap<(String, Option<String>), (u64, u64)> = BTreeMap::new();
    for offer in offers {
        let Some(plugin) = offer.plugin.as_ref().filter(|plugin| plugin.id == id) else {
            continue;
        };
        let group = groups.entry((plugin.version.clone(), plugin.digest.clone()));
        let (connected, quarantined) = group.or_default();
        *connected += 1;
        *quarantined += u64::from(offer.reason.as_deref() == Some("plugin_quarantined"));
    }
    let shown = |((version, digest), (connected, quarantined))| RuntimesJson {
        version,
        digest,
        connected,
        quarantined,
    };
    groups.into_iter().map(shown).collect()
}
