//! Every answer that is no success, in one closed type with fixed bytes (`wire.md` 8).
//!
//! The cause stays behind: it is logged where it happens, under the request id, and never shown.

use axum::body::Body;
use axum::http::header::{
    ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{Response, StatusCode};
use domain::Refusal;
use domain::invalid::Invalid;
use domain::run::ModelProtocol;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::gate::GateError;
use super::query::QueryError;

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// What a client is told instead of a result. One variant, or one family with its own texts, per row of `wire.md` 8.2.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ApiError {
    /// E400-01.
    Beta,
    /// E400-02, E413-01.
    Gate(GateError),
    /// E400-03 to E400-32.
    Invalid(Invalid),
    /// E400-34 to E400-38.
    Query(QueryError),
    /// E400-40.
    ItemCursor,
    /// E401-01, with its code.
    Unauthorized(Option<&'static str>),
    /// E404-01.
    NotFound,
    /// E404-03.
    UnknownRoute,
    /// E405-01, with the value of `Allow`.
    Method(String),
    /// E409-01 to E409-11, E503-02 and others that `domain` decides.
    Refused(Refusal),
    /// E500-01; true = the effect is unknown and a repetition could happen twice (D27).
    Internal {
        /// A keyless write may have been committed.
        effect_unknown: bool,
    },
    /// E503-01.
    AuthenticationUnavailable,
    /// E503-02.
    ExecutionUnavailable,
    /// E503-03.
    StreamUnavailable,
    /// E503-04.
    CredentialStorageUnavailable,
    /// `/core/v1`.
    Admin(AdminError),
    /// `/api/v1`.
    Machine(MachineError),
}

/// Answers of the machine routes (executor-credentials.md 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MachineError {
    /// 401: not the credential of this device, or not valid any more.
    Credential,
    /// 400: not exactly the expected members.
    Request,
    /// 426: another wire version (RP-3.4).
    IncompatibleVersion,
    /// 400: not a WebSocket request.
    Upgrade,
}

/// Answers of the administration API (`wire.md` 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// 400: an unknown or repeated query parameter, or a malformed request.
    Request,
}

/// A harness and what it speaks, as far as three protocols go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protocols {
    /// What the harness allows, in its order.
    pub allowed: [Option<ModelProtocol>; 3],
}

/// The parts of one answer.
struct Row {
    status: StatusCode,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
    details: Vec<(&'static str, Detail)>,
    should_retry: Option<bool>,
}

/// A value of `details` (W-ADM-1).
#[derive(Serialize)]
#[serde(untagged)]
enum Detail {
    Number(u64),
    Words(Vec<&'static str>),
}

const SHAPE: &str = "invalid_request_error";
const CONFLICT: &str = "conflict_error";

impl Row {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let (param, details) = (None, Vec::new());
        Self {
            status,
            code: Some(code),
            param,
            message: message.into(),
            details,
            should_retry: None,
        }
    }

    fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    fn conflict(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    fn unavailable(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    fn at(mut self, param: &str) -> Self {
        self.param = Some(param.to_owned());
        self
    }

    fn with(mut self, name: &'static str, detail: Detail) -> Self {
        self.details.push((name, detail));
        self
    }

    /// W-ERR-2.
    fn kind(&self) -> &'static str {
        match (self.status.as_u16(), self.code) {
            (500.., _) => "server_error",
            (409, _) => "conflict_error",
            (_, Some("not_found_error")) => "not_found_error",
            (_, Some("invalid_beta")) => "invalid_beta",
            _ => SHAPE,
        }
    }
}

impl ApiError {
    fn row(&self) -> Row {
        match self {
            Self::Beta => Row::bad(
                "invalid_beta",
                "To access the Agents API, set the 'OpenAI-Beta' header to 'agents=v1'.",
            ),
            Self::Gate(GateError::TooLarge { limit }) => {
                let message = format!("Request body exceeds the limit of {limit} bytes.");
                Row::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
            }
            Self::Gate(error) => Row::bad(SHAPE, error.to_string()),
            Self::Invalid(invalid) => {
                let mut row = Row::bad(invalid.code.as_str(), invalid.message.clone());
                row.param = invalid.param.clone();
                row
            }
            Self::Query(error) => Row::bad(SHAPE, error.to_string()),
            Self::ItemCursor => Row::bad(SHAPE, "Invalid session item ID in `after`"),
            Self::Unauthorized(code) => {
                let mut row = Row::new(
                    StatusCode::UNAUTHORIZED,
                    "",
                    "A valid Agents API bearer key is required.",
                );
                row.code = *code;
                row
            }
            Self::NotFound => Row::new(
                StatusCode::NOT_FOUND,
                "not_found_error",
                "Resource not found.",
            ),
            Self::UnknownRoute => {
                let message = "This API operation is not supported.";
                Row::new(StatusCode::NOT_FOUND, "unsupported_operation", message)
            }
            Self::Method(_) => {
                let message = "This API method is not supported.";
                Row::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "unsupported_operation",
                    message,
                )
            }
            Self::Refused(refusal) => refused(refusal),
            Self::Internal { effect_unknown } => {
                let mut row = Row::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal_error",
                    "The operation could not be completed.",
                );
                row.should_retry = effect_unknown.then_some(false);
                row
            }
            Self::AuthenticationUnavailable => {
                let mut row = Row::unavailable(
                    "authentication_unavailable",
                    "Authentication is temporarily unavailable.",
                );
                row.should_retry = Some(true);
                row
            }
            Self::ExecutionUnavailable => Row::unavailable(
                "execution_unavailable",
                "Execution is not available on this service.",
            ),
            Self::StreamUnavailable => Row::unavailable(
                "stream_unavailable",
                "Live events are not available on this service.",
            ),
            Self::CredentialStorageUnavailable => {
                let message = "Credential encryption is not configured on this service.";
                Row::unavailable("credential_storage_unavailable", message)
            }
            Self::Admin(error) => error.row(),
            Self::Machine(error) => error.row(),
        }
    }

    /// The whole answer; headers that every response has are added by the dispatcher.
    pub(crate) fn into_response(self) -> Response<Body> {
        let row = self.row();
        let body = serde_json::to_vec(&Envelope(&row)).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = row.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if row.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        match row.should_retry {
            Some(true) => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("true"));
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Some(false) => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            None => {}
        }
        if let Self::Method(allow) = &self
            && let Ok(allow) = HeaderValue::from_str(allow)
        {
            headers.insert(ALLOW, allow);
        }
        response
    }
}

/// The answer to a decision that refuses (state-machines 1.3).
fn refused(refusal: &Refusal) -> Row {
    let invalid = |invalid: Invalid| ApiError::Invalid(invalid).row();
    let mut row = match refusal {
        Refusal::EmptyUpdate => invalid(Invalid::empty_update()),
        Refusal::InputRequired => invalid(Invalid::input_required()),
        Refusal::UnknownCall(call_id) => invalid(Invalid::unknown_call(&call_id.0)),
        Refusal::OtherTurn => invalid(Invalid::foreign_call()),
        Refusal::UnsupportedContent { param, message } => {
            invalid(Invalid::unsupported(param.as_deref(), message.clone()))
        }
        Refusal::WhitespaceOnly => invalid(Invalid::whitespace_only()),
        Refusal::NotHosted => invalid(Invalid::request()),
        Refusal::NotFound => ApiError::NotFound.row(),
        Refusal::InputPending => {
            Row::conflict(CONFLICT, "Earlier input to this Session is still pending.")
        }
        Refusal::TurnState { .. } => Row::conflict(
            CONFLICT,
            "The Turn cannot accept this input in its current state.",
        ),
        Refusal::DifferentResult => {
            Row::conflict(CONFLICT, "The tool call already has a different result.")
        }
        Refusal::HostedEnvironmentFailed => {
            Row::conflict(CONFLICT, "the hosted environment failed to provision")
        }
        Refusal::NotDeletable => {
            let message =
                "session must be durably idle or failed without required actions before deletion";
            Row::conflict(CONFLICT, message)
        }
        Refusal::KeyConflict => Row::conflict(
            "idempotency_conflict",
            "This idempotency key was used with different input.",
        ),
        Refusal::FileWrite { .. } => Row::conflict(
            "turn_conflict",
            "The Turn cannot accept this input in its current state.",
        ),
        Refusal::EnvironmentUnavailable => Row::conflict(
            "environment_unavailable",
            "The environment is no longer available for new input.",
        ),
        Refusal::InputExpired => {
            let message = "The environment input deadline elapsed before admission.";
            Row::conflict("environment_input_expired", message)
        }
        Refusal::InputCancelled => {
            let message = "The environment input was cancelled before admission.";
            Row::conflict("environment_input_cancelled", message)
        }
        Refusal::Impossible(_) => ApiError::Internal {
            effect_unknown: false,
        }
        .row(),
        Refusal::ExecutionUnavailable => ApiError::ExecutionUnavailable.row(),
    };
    if refusal.retry_is_useless() {
        row.should_retry = Some(false);
    }
    row
}

impl AdminError {
    fn row(self) -> Row {
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
                row.with("max_length", Detail::Number(longest as u64))
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
            Self::Request => Row::bad("invalid_request", "The request is not valid."),
        }
    }
}

/// W-ERR-1: four members, always; `details` only where there are some.
struct Envelope<'a>(&'a Row);

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Error<'a>(&'a Row);
        impl Serialize for Error<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let row = self.0;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("message", &row.message)?;
                map.serialize_entry("type", row.kind())?;
                map.serialize_entry("code", &row.code)?;
                map.serialize_entry("param", &row.param)?;
                if !row.details.is_empty() {
                    let details: std::collections::BTreeMap<_, _> = row
                        .details
                        .iter()
                        .map(|(name, value)| (name, value))
                        .collect();
                    map.serialize_entry("details", &details)?;
                }
                map.end()
            }
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("error", &Error(self.0))?;
        map.end()
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<GateError> for ApiError {
    fn from(error: GateError) -> Self {
        Self::Gate(error)
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::Impossible(state) = refusal {
            tracing::error!(state, "a state that cannot be");
        }
        Self::Refused(refusal)
    }
}

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> Self {
        Self::Admin(error)
    }
}

impl From<MachineError> for ApiError {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl MachineError {
    fn row(self) -> Row {
        match self {
            Self::Credential => Row::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "A valid device credential is required.",
            ),
            Self::Request => Row::bad(SHAPE, "The machine request is malformed."),
            Self::IncompatibleVersion => {
                let message = "This Runtime speaks another protocol version than this Core.";
                Row::new(
                    StatusCode::UPGRADE_REQUIRED,
                    "incompatible_version",
                    message,
                )
            }
            Self::Upgrade => Row::bad(SHAPE, "A WebSocket upgrade is expected."),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::call::CallId;
    use http_body_util::BodyExt;

    use super::*;

    async fn bytes(error: ApiError) -> (u16, Option<String>, String) {
        let (parts, body) = error.into_response().into_parts();
        let retry = parts
            .headers
            .get(SHOULD_RETRY)
            .map(|value| value.to_str().unwrap().to_owned());
        let body = body.collect().await.unwrap().to_bytes();
        (
            parts.status.as_u16(),
            retry,
            String::from_utf8(body.to_vec()).unwrap(),
        )
    }

    /// One line per row of `wire.md` 8.2 that this service can answer: error, status, `x-should-retry`, type, code, message.
    #[tokio::test]
    async fn every_answer_is_exact() {
        let conflict = |refusal| ApiError::Refused(refusal);
        let table: Vec<(ApiError, u16, Option<&str>, &str, &str, &str)> = vec![
            (
                ApiError::Beta,
                400,
                None,
                "invalid_beta",
                "invalid_beta",
                "To access the Agents API, set the 'OpenAI-Beta' header to 'agents=v1'.",
            ),
            (
                GateError::ContentType.into(),
                400,
                None,
                SHAPE,
                SHAPE,
                "expected request with Content-Type: application/json",
            ),
            (
                GateError::TooLarge { limit: 1_048_576 }.into(),
                413,
                None,
                SHAPE,
                "request_too_large",
                "Request body exceeds the limit of 1048576 bytes.",
            ),
            (
                ApiError::ItemCursor,
                400,
                None,
                SHAPE,
                SHAPE,
                "Invalid session item ID in `after`",
            ),
            (
                Invalid::request().into(),
                400,
                None,
                SHAPE,
                "invalid_request",
                "Invalid resource identifier or request limits.",
            ),
            (
                ApiError::NotFound,
                404,
                None,
                "not_found_error",
                "not_found_error",
                "Resource not found.",
            ),
            (
                ApiError::UnknownRoute,
                404,
                None,
                SHAPE,
                "unsupported_operation",
                "This API operation is not supported.",
            ),
            (
                ApiError::Method("GET".into()),
                405,
                None,
                SHAPE,
                "unsupported_operation",
                "This API method is not supported.",
            ),
            (
                conflict(Refusal::UnknownCall(CallId("c\u{7}".into()))),
                400,
                None,
                SHAPE,
                SHAPE,
                "Unknown pending tool call",
            ),
            (
                conflict(Refusal::InputPending),
                409,
                None,
                CONFLICT,
                CONFLICT,
                "Earlier input to this Session is still pending.",
            ),
            (
                conflict(Refusal::TurnState { final_: true }),
                409,
                Some("false"),
                CONFLICT,
                CONFLICT,
                "The Turn cannot accept this input in its current state.",
            ),
            (
                conflict(Refusal::TurnState { final_: false }),
                409,
                None,
                CONFLICT,
                CONFLICT,
                "The Turn cannot accept this input in its current state.",
            ),
            (
                conflict(Refusal::DifferentResult),
                409,
                Some("false"),
                CONFLICT,
                CONFLICT,
                "The tool call already has a different result.",
            ),
            (
                conflict(Refusal::HostedEnvironmentFailed),
                409,
                Some("false"),
                CONFLICT,
                CONFLICT,
                "the hosted environment failed to provision",
            ),
            (
                conflict(Refusal::NotDeletable),
                409,
                None,
                CONFLICT,
                CONFLICT,
                "session must be durably idle or failed without required actions before deletion",
            ),
            (
                conflict(Refusal::KeyConflict),
                409,
                Some("false"),
                CONFLICT,
                "idempotency_conflict",
                "This idempotency key was used with different input.",
            ),
            (
                conflict(Refusal::FileWrite { unsettled: true }),
                409,
                Some("false"),
                CONFLICT,
                "turn_conflict",
                "The Turn cannot accept this input in its current state.",
            ),
            (
                conflict(Refusal::EnvironmentUnavailable),
                409,
                Some("false"),
                CONFLICT,
                "environment_unavailable",
                "The environment is no longer available for new input.",
            ),
            (
                conflict(Refusal::InputExpired),
                409,
                Some("false"),
                CONFLICT,
                "environment_input_expired",
                "The environment input deadline elapsed before admission.",
            ),
            (
                conflict(Refusal::InputCancelled),
                409,
                Some("false"),
                CONFLICT,
                "environment_input_cancelled",
                "The environment input was cancelled before admission.",
            ),
            (
                conflict(Refusal::Impossible("x")),
                500,
                None,
                "server_error",
                "internal_error",
                "The operation could not be completed.",
            ),
            (
                ApiError::Internal {
                    effect_unknown: true,
                },
                500,
                Some("false"),
                "server_error",
                "internal_error",
                "The operation could not be completed.",
            ),
            (
                ApiError::AuthenticationUnavailable,
                503,
                Some("true"),
                "server_error",
                "authentication_unavailable",
                "Authentication is temporarily unavailable.",
            ),
            (
                conflict(Refusal::ExecutionUnavailable),
                503,
                None,
                "server_error",
                "execution_unavailable",
                "Execution is not available on this service.",
            ),
            (
                ApiError::CredentialStorageUnavailable,
                503,
                None,
                "server_error",
                "credential_storage_unavailable",
                "Credential encryption is not configured on this service.",
            ),
        ];
        for (error, status, retry, kind, code, message) in table {
            let message = serde_json::to_string(message).unwrap();
            let body = format!(
                r#"{{"error":{{"message":{message},"type":"{kind}","code":"{code}","param":null}}}}"#
            );
            assert_eq!(bytes(error).await, (status, retry.map(str::to_owned), body));
        }
    }

    #[tokio::test]
    async fn details_are_flat_and_only_of_administration() {
        // W-ADM-1
        let (_, _, body) = bytes(AdminError::Name(128).into()).await;
        assert_eq!(
            body,
            r#"{"error":{"message":"The name must be 1 to 128 characters without control characters.","type":"invalid_request_error","code":"invalid_name","param":"name","details":{"max_length":128}}}"#
        );
    }
}
