//! One admitted request on its way to a handler, and what a handler answers.

use std::str::FromStr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use domain::invalid::Invalid;
use domain::json::Json;
use domain::{KeyId, ProjectId, RequestId};
use serde::Serialize;
use store::provenance::{Administrator, Author, Provenance};
use sync_wrapper::SyncWrapper;

use super::error::{AdminError, ApiError};
use super::gate::JsonBody;
use super::query::Page;
use crate::state::Core;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// An application of a Project (W-AUTH-3: all its keys are one caller).
    Project {
        /// The Project.
        project: ProjectId,
        /// The key, for provenance.
        key: KeyId,
    },
    /// An administrator.
    Admin {
        /// First eight digits of the Core key's digest (OPS-067).
        credential: String,
        /// Unverified display label (OPS-005).
        actor: Option<String>,
    },
    /// Nobody was asked: health, and machine routes that check their own credential.
    Unchecked,
}

/// A request that passed the checks of its row.
pub(crate) struct Call {
    /// The Core.
    pub core: Arc<Core>,
    /// Who asks.
    pub caller: Caller,
    /// Method, headers and extensions (an upgrade lives there).
    pub parts: Parts,
    /// Path parameters as routed.
    pub params: Vec<(String, String)>,
    /// Query of a list.
    pub page: Page,
    /// Body that passed the gate; `{}` where the row reads none.
    pub body: JsonBody,
    /// Body that the handler reads itself, if it is one of those rows.
    pub raw: SyncWrapper<Body>,
    /// Id of this request, shown to the client and logged.
    pub request: RequestId,
}

impl Call {
    /// The Project of an application's request.
    ///
    /// # Errors
    /// E401 if the row is not one of `/v1` (a mistake in the table, caught by its test).
    pub(crate) fn project(&self) -> Result<ProjectId, ApiError> {
        match self.caller {
            Caller::Project { project, .. } => Ok(project),
            Caller::Admin { .. } | Caller::Unchecked => Err(ApiError::Unauthorized(None)),
        }
    }

    /// The Project that a read is about: the caller's, or the one an administrator names in the path (OPS-006, OPS-040).
    ///
    /// # Errors
    /// As [`Call::project`].
    pub(crate) fn scope(&self) -> Result<ProjectId, ApiError> {
        match self.caller {
            Caller::Admin { .. } => Ok(self.id("project_id")),
            Caller::Project { .. } | Caller::Unchecked => self.project(),
        }
    }

    /// Whose key does this, for the record of public writes (OPS-060).
    pub(crate) fn provenance(&self) -> Option<Provenance> {
        match self.caller {
            Caller::Project { key, .. } => Some(Provenance {
                key,
                request_id: Some(self.request.to_string()),
                trace_id: None,
            }),
            Caller::Admin { .. } | Caller::Unchecked => None,
        }
    }

    /// Which administrator does this, for the audit log (OPS-067).
    ///
    /// # Errors
    /// 401 if the row is not one of `/core/v1` (a mistake in the table, caught by its test).
    pub(crate) fn administrator(&self) -> Result<Administrator, ApiError> {
        match &self.caller {
            Caller::Admin { credential, actor } => Ok(Administrator {
                credential_id: credential.clone(),
                actor_label: actor.clone(),
                request_id: Some(self.request.to_string()),
                trace_id: None,
            }),
            Caller::Project { .. } | Caller::Unchecked => Err(AdminError::Key.into()),
        }
    }

    /// Whose deletion is recorded: the key's, or the administrator's.
    ///
    /// # Errors
    /// As [`Call::administrator`].
    pub(crate) fn author(&self) -> Result<Option<Author>, ApiError> {
        match self.provenance() {
            Some(key) => Ok(Some(Author::Key(key))),
            None => Ok(Some(Author::Administrator(self.administrator()?))),
        }
    }

    /// The body of a row that reads it itself, once.
    pub(crate) fn take_body(&mut self) -> Body {
        std::mem::take(self.raw.get_mut())
    }

    /// A path parameter as text, decoded as far as it can be.
    pub(crate) fn param(&self, name: &str) -> String {
        let raw = self
            .params
            .iter()
            .find_map(|(key, value)| (key == name).then_some(value.as_str()));
        percent_encoding::percent_decode_str(raw.unwrap_or_default())
            .decode_utf8_lossy()
            .into_owned()
    }

    /// A path parameter as an id; a malformed one is an id that does not exist (W-ID-3), so every route behaves the same.
    pub(crate) fn id<T: FromStr + NeverAssigned>(&self, name: &str) -> T {
        self.param(name).parse().unwrap_or(T::NEVER)
    }

    /// Reads the body: shape rules first, then text that cannot be stored (W-TEXT-2).
    ///
    /// # Errors
    /// Those of `read`, or E400-16.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(Json<'_>) -> Result<T, Invalid>,
    ) -> Result<T, ApiError> {
        let value = read(self.body.json())?;
        if self.body.has_nul() {
            return Err(Invalid::unstorable(None).into());
        }
        Ok(value)
    }
}

/// Ids with a value that stands for "none" (W-ID-3).
pub(crate) trait NeverAssigned {
    /// The all-ones UUID.
    const NEVER: Self;
}

macro_rules! never {
    ($($name:ident),+) => {$(impl NeverAssigned for domain::$name { const NEVER: Self = domain::$name::NEVER; })+};
}
never!(
    AgentId,
    SessionId,
    TurnId,
    ItemId,
    EnvironmentId,
    ProjectId,
    KeyId,
    ArtifactId,
    SubagentId,
    FileId,
    SkillId,
    VaultId,
    TemplateId,
    CredentialId
);

/// A successful answer.
pub(crate) struct Reply(pub Response<Body>);

impl Reply {
    /// A JSON body.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(|error| {
            tracing::error!(%error, "an answer could not be written");
            ApiError::Internal {
                effect_unknown: false,
            }
        })?;
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(Self(response))
    }

    /// 200 with a JSON body.
    pub(crate) fn ok(value: &impl Serialize) -> Result<Self, ApiError> {
        Self::json(StatusCode::OK, value)
    }

    /// A status without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        Self(response)
    }
}
