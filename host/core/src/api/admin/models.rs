//! The deployment's default model of each harness (DEF-001 to DEF-004).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use domain::agent::admission::check_parameters;
use domain::json::{Json, Kind, Opaque};
use domain::model::{ModelConfiguration, ProviderBundle, ProviderFault, ProviderView};
use domain::run::{HarnessDeclaration, HarnessId, HarnessOffer, ModelProtocol};
use domain::{Secret, invalid::Path};
use serde::Serialize;
use store::model_defaults::{ClearModelDefault, ModelDefault, SetModelDefault};
use store::{StoreError, WriteError};

use super::projects::rfc3339;
use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError, Protocols};
use crate::api::failure::{read_failed, write_broke};
use crate::api::render::agent::{ProviderJson, provider};
use crate::peer::Peers;

#[derive(Serialize)]
struct ConfigurationJson<'a> {
    object: &'static str,
    harness: &'a str,
    model_provider: ProviderJson<'a>,
    model: &'a str,
    harness_config: &'a Opaque,
    updated_at: String,
}

#[derive(Serialize)]
struct HarnessJson<'a> {
    id: &'a str,
    display_name: &'a str,
    enabled: bool,
    default: bool,
    model_configuration: Option<ConfigurationJson<'a>>,
    model_configuration_support: SupportJson,
    /// Connected Runtimes by what they offer of it.
    runtimes: Vec<RuntimesJson>,
}

/// Runtimes that offer the harness alike.
#[derive(Serialize)]
struct RuntimesJson {
    /// Version of the installed program; empty where it cannot run.
    version: String,
    available: bool,
    reason: Option<String>,
    connected: u64,
}

#[derive(Serialize)]
struct SupportJson {
    protocols: Vec<&'static str>,
    accepts_harness_config: bool,
    token_limits_required: bool,
}

#[derive(Serialize)]
struct PageJson<T> {
    data: Vec<T>,
    has_more: bool,
}

/// `GET /core/v1/harnesses`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let defaults = call
        .core
        .store
        .read()
        .model_defaults()
        .await
        .map_err(read_failed)?;
    let default = call
        .core
        .harnesses
        .default()
        .map(|declaration| declaration.id.clone());
    let all = call.core.harnesses.all();
    let peers = call.core.gateway.connected();
    let offers: Vec<HarnessOffer> = peers.iter().flat_map(|peer| peer.offers()).collect();
    let data = all.iter().map(|declaration| {
        let id = declaration.id.as_str();
        HarnessJson {
            id,
            display_name: &declaration.display_name,
            enabled: true,
            default: default.as_ref() == Some(&declaration.id),
            model_configuration: defaults.iter().find(|found| found.harness == id).map(shown),
            model_configuration_support: SupportJson {
                protocols: declaration
                    .models
                    .protocols
                    .iter()
                    .map(|protocol| protocol.as_str())
                    .collect(),
                accepts_harness_config: declaration.parameters_schema.trim() != "{}",
                token_limits_required: declaration.models.needs_token_limits,
            },
            runtimes: runtimes(&declaration.id, &offers),
        }
    });
    Reply::ok(&PageJson {
        data: data.collect(),
        has_more: false,
    })
}

fn runtimes(id: &HarnessId, offers: &[HarnessOffer]) -> Vec<RuntimesJson> {
    let mut groups: BTreeMap<(String, bool, Option<String>), u64> = BTreeMap::new();
    for offer in offers.iter().filter(|offer| offer.id == *id) {
        let alike = (offer.version.clone(), offer.available, offer.reason.clone());
        *groups.entry(alike).or_default() += 1;
    }
    let shown = |((version, available, reason), connected)| RuntimesJson {
        version,
        available,
        reason,
        connected,
    };
    groups.into_iter().map(shown).collect()
}

/// `GET /core/v1/harnesses/{harness_id}/model-configuration`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    let harness = harness(&call)?.id.to_string();
    let defaults = call
        .core
        .store
        .read()
        .model_defaults()
        .await
        .map_err(read_failed)?;
    let found = defaults
        .iter()
        .find(|found| found.harness == harness)
        .ok_or(AdminError::NotFound)?;
    Reply::ok(&shown(found))
}

/// `PUT /core/v1/harnesses/{harness_id}/model-configuration`
pub(crate) async fn set(call: Call) -> Result<Reply, ApiError> {
    let declaration = harness(&call)?;
    let configuration = parse(
        call.body.json(),
        &declaration,
        call.core.allow_loopback_model_urls,
    )?;
    let unit = SetModelDefault {
        harness: declaration.id.to_string(),
        configuration,
        by: call.administrator()?,
    };
    let set = call.core.store.write(unit).await.map_err(failed)?;
    Reply::ok(&shown(&set))
}

/// `DELETE /core/v1/harnesses/{harness_id}/model-configuration`
pub(crate) async fn clear(call: Call) -> Result<Reply, ApiError> {
    let harness = harness(&call)?.id.to_string();
    let unit = ClearModelDefault {
        harness,
        by: call.administrator()?,
    };
    call.core.store.write(unit).await.map_err(failed)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn harness(call: &Call) -> Result<Arc<HarnessDeclaration>, ApiError> {
    call.core
        .harnesses
        .find(&call.param("harness_id"))
        .ok_or(AdminError::NotFound.into())
}

fn failed(error: WriteError<std::convert::Infallible>) -> ApiError {
    match error {
        WriteError::Refused(never) => match never {},
        WriteError::Store(StoreError::Seal(_)) => ApiError::CredentialStorageUnavailable,
        WriteError::Store(error) => write_broke(&error),
    }
}

fn shown(default: &ModelDefault) -> ConfigurationJson<'_> {
    ConfigurationJson {
        object: "core.model_configuration",
        harness: &default.harness,
        model_provider: provider(&default.provider),
        model: &default.model,
        harness_config: &default.harness_config,
        updated_at: rfc3339(default.updated_at),
    }
}

/// Reads a configuration; the first failure only, in the order of W-ADM-3: URL, protocol, key, limits, what the harness
/// speaks, what it requires; then the model and the native parameters.
fn parse(
    body: Json<'_>,
    declaration: &HarnessDeclaration,
    allow_loopback: bool,
) -> Result<ModelConfiguration, AdminError> {
    let members = body.members().unwrap_or_default();
    let known = ["model_provider", "model", "harness_config"];
    let bundle = members
        .iter()
        .find(|(name, _)| name == "model_provider")
        .map(|(_, value)| *value);
    let bundle = bundle
        .filter(|bundle| bundle.kind() == Kind::Object)
        .ok_or(AdminError::ModelProvider)?;
    if members
        .iter()
        .any(|(name, _)| !known.contains(&name.as_str()))
    {
        return Err(AdminError::ModelProvider);
    }
    let provider = parse_provider(bundle, declaration, allow_loopback)?;
    let model = body
        .get("model")
        .and_then(Json::string)
        .filter(|model| !model.trim().is_empty() && !model.contains('\0'));
    let harness_config = match body.get("harness_config") {
        None => Opaque::empty_object(),
        Some(value) => value
            .to_opaque_object(&Path::root(), "")
            .map_err(|_| AdminError::HarnessConfig)?,
    };
    let model = model.ok_or(AdminError::Model)?;
    check_parameters(&harness_config, declaration).map_err(|_| AdminError::HarnessConfig)?;
    Ok(ModelConfiguration {
        provider,
        model,
        harness_config,
    })
}

fn parse_provider(
    json: Json<'_>,
    declaration: &HarnessDeclaration,
    allow_loopback: bool,
) -> Result<ProviderBundle, AdminError> {
    const KNOWN: [&str; 5] = [
        "protocol",
        "base_url",
        "api_key",
        "context_window",
        "max_output_tokens",
    ];
    let members = json.members().unwrap_or_default();
    if members
        .iter()
        .any(|(name, _)| !KNOWN.contains(&name.as_str()))
    {
        return Err(AdminError::ModelProvider);
    }
    let text = |name: &str| json.get(name).and_then(Json::string);
    let protocol = text("protocol").and_then(|word| ModelProtocol::from_word(&word));
    let limit = |name: &'static str| match json.get(name) {
        Some(value) if !value.is_null() => value
            .text()
            .parse::<u64>()
            .map(Some)
            .map_err(|_| AdminError::TokenLimits(name)),
        _ => Ok(None),
    };
    let bundle = |context_window, max_output_tokens| ProviderBundle {
        view: ProviderView {
            protocol: protocol.unwrap_or(ModelProtocol::Responses),
            base_url: text("base_url").unwrap_or_default(),
            context_window,
            max_output_tokens,
        },
        api_key: Secret::from(text("api_key").unwrap_or_default()),
    };
    let without_limits = bundle(None, None).fault(allow_loopback);
    if without_limits == Some(ProviderFault::BaseUrl) {
        return Err(AdminError::BaseUrl);
    }
    let spoken = &declaration.models.protocols;
    if protocol.is_none() {
        return Err(AdminError::Protocol(protocols(spoken)));
    }
    if without_limits.is_some() {
        return Err(AdminError::ApiKey);
    }
    let (window, output) = (limit("context_window")?, limit("max_output_tokens")?);
    let bundle = bundle(window, output);
    if bundle.fault(allow_loopback).is_some() {
        return Err(AdminError::TokenLimits("max_output_tokens"));
    }
    if !spoken.contains(&bundle.view.protocol) {
        return Err(AdminError::Protocol(protocols(spoken)));
    }
    if declaration.models.needs_token_limits {
        let positive = |limit: Option<u64>| limit.is_some_and(|limit| limit > 0);
        if !positive(window) {
            return Err(AdminError::TokenLimits("context_window"));
        }
        if !positive(output) {
            return Err(AdminError::TokenLimits("max_output_tokens"));
        }
    }
    Ok(bundle)
}

fn protocols(spoken: &[ModelProtocol]) -> Protocols {
    let mut allowed = [None; 3];
    for (place, protocol) in allowed.iter_mut().zip(spoken) {
        *place = Some(*protocol);
    }
    Protocols { allowed }
}
