//! Facts of the installation (OPS-082).

use serde::Serialize;
use url::{Host, Url};

use crate::api::call::{Call, Reply};
use crate::api::error::ApiError;
use crate::api::failure::read_failed;
use crate::settings::ShownSetting;

/// What a start fixes and an operator may see.
pub(crate) struct Facts {
    /// Address under which clients reach this Core.
    pub public_url: Url,
    /// The settings of the process.
    pub settings: Vec<ShownSetting>,
}

#[derive(Serialize)]
struct InstallationJson<'a> {
    object: &'static str,
    installation_id: String,
    public_url: String,
    api_base_url: String,
    local_only: bool,
    source_commit: Option<&'static str>,
    configuration: ConfigurationJson<'a>,
    address_bindings: BindingsJson,
}

#[derive(Serialize)]
struct ConfigurationJson<'a> {
    settings: Vec<SettingJson<'a>>,
}

#[derive(Serialize)]
struct SettingJson<'a> {
    key: &'a str,
    value: Option<&'a str>,
    default: Option<&'a str>,
    changeable: bool,
    sensitive: bool,
    /// What takes a change up.
    restarts: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    configured: Option<bool>,
}

/// What depends on the public address.
#[derive(Serialize)]
struct BindingsJson {
    nodes: u64,
    nodes_on_other_address: u64,
    hosted_sandboxes: u64,
    self_hosted_executors: u64,
}

/// `GET /core/v1/installation`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    let facts = &call.core.facts;
    let origin = facts.public_url.as_str().trim_end_matches('/');
    let sandboxes = call.core.store.read().live_allocations().await;
    Reply::ok(&InstallationJson {
        object: "core.installation",
        installation_id: call.core.store.installation().to_string(),
        public_url: origin.to_owned(),
        api_base_url: format!("{origin}/v1"),
        local_only: is_loopback(&facts.public_url),
        // A build outside of a release has no commit to name.
        source_commit: option_env!("BERTH_SOURCE_COMMIT"),
        configuration: ConfigurationJson {
            settings: facts.settings.iter().map(setting).collect(),
        },
        // There are neither nodes nor enrolled machines yet that could have another address.
        address_bindings: BindingsJson {
            nodes: 0,
            nodes_on_other_address: 0,
            hosted_sandboxes: sandboxes.map_err(read_failed)?,
            self_hosted_executors: 0,
        },
    })
}

fn setting(setting: &ShownSetting) -> SettingJson<'_> {
    SettingJson {
        key: setting.key,
        value: setting.value.as_deref().filter(|_| !setting.sensitive),
        default: setting.default.as_deref(),
        changeable: true,
        sensitive: setting.sensitive,
        restarts: ["core"],
        configured: setting.sensitive.then_some(setting.value.is_some()),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
