//! Answers of the administration API (`wire.md` 8.3).

use axum::http::StatusCode;
use domain::run::ModelProtocol;

use super::{ApiError, Detail, Row};

/// Answers of the administration API (`wire.md` 8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminError {
    /// 401.
    Key,
    /// 404.
    NotFound,
    /// 400 `invalid_name` with the longest length.
    Name(usize),
    /// 409.
    ProjectArchived,
    /// 400 `invalid_model_provider`.
    ModelProvider,
    /// 400.
    BaseUrl,
    /// 400, with the protocols of the harness.
    Protocol(Protocols),
    /// 400.
    ApiKey,
    /// 400, with the member.
    TokenLimits(&'static str),
    /// 400.
    Model,
    /// 400.
    HarnessConfig,
    /// 409, with the generation that is there (SP-2.2).
    StaleGeneration(u64),
    /// 400: an unknown or repeated query parameter, or a malformed request.
    Request,
    /// 400: no plugin of that id is a sandbox provider.
    SandboxProvider,
    /// 400, with the setting and what is wrong with it.
    ProviderSetting(String, &'static str),
    /// 400, with the provider's own code.
    ProviderNotReady(String),
    /// 400.
    ExpectedGeneration,
    /// 409, with why.
    PluginsNotReloaded(String),
    /// 409 with how many sandboxes are held (SP-2.10).
    ProviderInUse(u32),
}

/// A harness and what it speaks, as far as three protocols go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protocols {
    /// What the harness allows, in its order.
    pub allowed: [Option<ModelProtocol>; 3],
}

impl AdminError {
    pub(super) fn row(&self) -> Row {
        match self {
            Self::Key => {
                let message = "A valid Core key is required as the bearer credential.";
                Row::new(StatusCode::UNAUTHORIZED, "invalid_admin_key", message)
            }
            Self::NotFound => Row::new(StatusCode::NOT_FOUND, "not_found", "Resource not found."),
            Self::Name(longest) => {
                let message = format!(
                    "The name must be 1 to {longest} characters without control characters."
                );
                let row = Row::bad("invalid_name", message).at("name");
                row.with("max_length", Detail::Number(*longest as u64))
            }
            Self::ProjectArchived => Row::conflict("project_archived", "The Project is archived."),
            Self::ModelProvider => {
                let message = "The model configuration must be an object with 'model_provider', 'model' and, if wanted, \
                               'harness_config'.";
                Row::bad("invalid_model_provider", message)
            }
            Self::BaseUrl => {
                let message =
                    "The base URL must be an HTTPS URL without credentials, query or fragment.";
                Row::bad("model_provider_base_url_invalid", message).at("base_url")
            }
            Self::Protocol(protocols) => {
                let words = protocols
                    .allowed
                    .iter()
                    .flatten()
                    .map(|protocol| protocol.as_str())
                    .collect();
                let message = "The harness does not speak this protocol.";
                let row = Row::bad("model_provider_protocol_unsupported", message).at("protocol");
                row.with("allowed_protocols", Detail::Words(words))
            }
            Self::ApiKey => {
                let message = "The API key must be 1 to 16384 bytes without NUL, CR or LF.";
                let row = Row::bad("model_provider_api_key_invalid", message).at("api_key");
                row.with(
                    "max_length",
                    Detail::Number(domain::model::MAX_API_KEY as u64),
                )
            }
            Self::TokenLimits(member) => {
                let message = "Token limits must be whole numbers, and the output limit at most the context window.";
                Row::bad("model_provider_token_limits_invalid", message).at(member)
            }
            Self::Model => Row::bad(
                "model_configuration_model_invalid",
                "The model must be a nonempty text.",
            )
            .at("model"),
            Self::HarnessConfig => {
                let message = "The harness does not accept these native parameters.";
                Row::bad("harness_config_invalid", message).at("harness_config")
            }
            Self::StaleGeneration(current) => {
                let message =
                    "The deployment is at another generation; look at it and decide again.";
                let row = Row::conflict("sandbox_generation_stale", message);
                row.with("current_generation", Detail::Number(*current))
            }
            Self::Request => Row::bad("invalid_request", "The request is not valid."),
            Self::SandboxProvider => {
                let message = "The provider must be null, without settings, or the id of a sandbox provider that is loaded; \
                               `berth plugin list` shows them.";
                Row::bad("sandbox_configuration_invalid", message).at("provider")
            }
            Self::ProviderSetting(key, what) => {
                let message = format!("The setting '{key}' {what}.");
                Row::bad("sandbox_configuration_invalid", message).at("settings")
            }
            Self::ProviderNotReady(code) => {
                let message = format!("The provider cannot make sandboxes here: {code}.");
                Row::bad("sandbox_configuration_invalid", message).at("provider")
            }
            Self::ExpectedGeneration => {
                let message = "The generation that was seen must be given as a whole number.";
                Row::bad("invalid_request", message).at("expected_generation")
            }
            Self::PluginsNotReloaded(why) => {
                let message =
                    format!("The plugins were not loaded again, the former ones go on: {why}.");
                Row::conflict("plugins_not_reloaded", &message)
            }
            Self::ProviderInUse(held) => {
                let message = format!(
                    "The present provider still holds {held} sandboxes; delete their Sessions first."
                );
                let row = Row::conflict("sandbox_in_use", &message);
                row.with("allocations", Detail::Number(u64::from(*held)))
            }
        }
    }
}

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> Self {
        Self::Admin(error)
    }
}
