//! The deployment's sandbox provider (SP-2.1 to SP-2.3).

use std::collections::BTreeMap;

use domain::invalid::Path;
use domain::json::{Json, Kind};
use domain::selection::{Choice, Selection, SelectionRefused};
use serde::Serialize;

use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::api::failure::{read_failed, write_broke};
use crate::deployment::NotSelected;

#[derive(Serialize)]
struct SelectionJson<'a> {
    object: &'static str,
    generation: u64,
    provider: Option<&'a str>,
    settings: &'a BTreeMap<String, String>,
    /// Hosted Environments are admitted.
    ready: bool,
    /// Why not, where a provider is selected: its fixed code, or a sentence (SP-12.1).
    problem: Option<String>,
}

/// `GET /core/v1/sandbox-provider`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    let selection = call.core.store.read().selection().await;
    shown(&call, &selection.map_err(read_failed)?)
}

/// `PUT /core/v1/sandbox-provider`
pub(crate) async fn set(call: Call) -> Result<Reply, ApiError> {
    let (expected, choice) = parse(call.body.json())?;
    let by = call.administrator()?;
    let deployment = call.core.deployment.as_ref().ok_or(AdminError::NotFound)?;
    let selected = deployment.select(expected, choice, by).await;
    shown(&call, &selected.map_err(failed)?)
}

fn shown(call: &Call, selection: &Selection) -> Result<Reply, ApiError> {
    Reply::ok(&SelectionJson {
        object: "core.sandbox_provider",
        generation: selection.generation,
        provider: selection.choice.provider.as_deref(),
        settings: &selection.choice.settings,
        ready: call.core.hosts(),
        problem: call.core.deployment.as_ref().and_then(|it| it.problem()),
    })
}

fn failed(error: NotSelected) -> ApiError {
    match error {
        NotSelected::Unknown => AdminError::SandboxProvider.into(),
        NotSelected::Setting(key, what) => AdminError::ProviderSetting(key, what).into(),
        NotSelected::Provider(code) => AdminError::ProviderNotReady(code).into(),
        NotSelected::Refused(SelectionRefused::Stale(generation)) => {
            AdminError::StaleGeneration(generation).into()
        }
        NotSelected::Refused(SelectionRefused::Held(held)) => {
            AdminError::ProviderInUse(held).into()
        }
        NotSelected::Store(error) => write_broke(&error),
    }
}

fn parse(body: Json<'_>) -> Result<(u64, Choice), AdminError> {
    let members = body.members().unwrap_or_default();
    let known = ["expected_generation", "provider", "settings"];
    if members
        .iter()
        .any(|(name, _)| !known.contains(&name.as_str()))
    {
        return Err(AdminError::Request);
    }
    let expected = body
        .get("expected_generation")
        .and_then(|value| value.to_integer(&Path::root(), 0).ok());
    let expected = expected.and_then(|value| u64::try_from(value).ok());
    let expected = expected.ok_or(AdminError::ExpectedGeneration)?;
    let provider = match body.get("provider") {
        Some(value) if value.kind() == Kind::Null => None,
        Some(value) => Some(value.string().ok_or(AdminError::SandboxProvider)?),
        None => return Err(AdminError::SandboxProvider),
    };
    let mut settings = BTreeMap::new();
    if let Some(given) = body.get("settings") {
        for (key, value) in given.members().ok_or(AdminError::Request)? {
            let Some(value) = value.string() else {
                return Err(AdminError::ProviderSetting(key, "is no text"));
            };
            settings.insert(key, value);
        }
    }
    if provider.is_none() && !settings.is_empty() {
        return Err(AdminError::SandboxProvider);
    }
    Ok((expected, Choice { provider, settings }))
}
