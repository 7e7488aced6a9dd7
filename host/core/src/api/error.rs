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
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::gate::GateError;
use super::query::QueryError;

mod admin;
mod content;
mod machine;

pub(crate) use admin::{AdminError, Protocols};
pub(crate) use content::ContentError;
pub(crate) use machine::MachineError;

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
    /// E400-34 to E400-39, E400-45 to E400-50.
    Query(QueryError),
    /// E400-40.
    ItemCursor,
    /// E400-41.
    SubagentCursor,
    /// E400-42.
    ArtifactCursor,
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
    /// E503-02; true as for `Internal`.
    ExecutionUnavailable {
        /// A keyless input was admitted or may have been.
        effect_unknown: bool,
    },
    /// E503-03.
    StreamUnavailable,
    /// E503-04.
    CredentialStorageUnavailable,
    /// Files, Skills, and stored content.
    Content(ContentError),
    /// `/core/v1`.
    Admin(AdminError),
    /// `/api/v1`.
    Machine(MachineError),
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
    /// E503-02 where nothing was written.
    pub(crate) const EXECUTION_UNAVAILABLE: Self = Self::ExecutionUnavailable {
        effect_unknown: false,
    };

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
            Self::Query(error) => {
                let mut row = Row::bad("", error.to_string());
                row.code = error.code();
                row.param = error.param().map(str::to_owned);
                row
            }
            Self::ItemCursor => Row::bad(SHAPE, "Invalid session item ID in `after`"),
            Self::SubagentCursor => Row::bad(SHAPE, "Invalid resource ID in `after`"),
            Self::ArtifactCursor => Row::bad(SHAPE, "after is not a valid artifact ID"),
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
            Self::ExecutionUnavailable { effect_unknown } => {
                let mut row = Row::unavailable(
                    "execution_unavailable",
                    "Execution is not available on this service.",
                );
                row.should_retry = effect_unknown.then_some(false);
                row
            }
            Self::StreamUnavailable => Row::unavailable(
                "stream_unavailable",
                "Live events are not available on this service.",
            ),
            Self::CredentialStorageUnavailable => {
                let message = "Credential encryption is not configured on this service.";
                Row::unavailable("credential_storage_unavailable", message)
            }
            Self::Content(error) => error.row(),
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
        Refusal::InputRequired => invalid(Invalid::input_required()),
        Refusal::UnknownCall(call_id) => invalid(Invalid::unknown_call(&call_id.0)),
        Refusal::OtherTurn => invalid(Invalid::foreign_call()),
        Refusal::UnsupportedContent { param, message } => {
            invalid(Invalid::unsupported(param.as_deref(), message.clone()))
        }
        Refusal::WhitespaceOnly => invalid(Invalid::whitespace_only()),
        Refusal::DefaultSkillVersion => {
            let message = "Cannot delete the default skill version.";
            Row::bad("invalid_value", message).at("version")
        }
        Refusal::NotHosted | Refusal::TooMuchWaits => invalid(Invalid::request()),
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
        Refusal::SeveralCredentials { server_url } => {
            let url = domain::vault::echoed(server_url);
            let message = format!(
                "multiple attached vault credentials match MCP server_url{url}; specify credential_id"
            );
            Row::conflict(CONFLICT, &message)
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
        Refusal::ExecutionUnavailable => ApiError::EXECUTION_UNAVAILABLE.row(),
    };
    if refusal.retry_is_useless() {
        row.should_retry = Some(false);
    }
    row
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

impl From<ContentError> for ApiError {
    fn from(error: ContentError) -> Self {
        Self::Content(error)
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

#[cfg(test)]
mod tests;
