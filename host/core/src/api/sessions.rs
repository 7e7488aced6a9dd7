//! Sessions (sessions 2): create as JSON or as a stream, read, list, update, delete.

use axum::http::StatusCode;
use domain::creation::SessionCreation;
use domain::invalid::{Invalid, Path};
use domain::json::{Field, Json, Object};
use domain::metadata::Metadata;
use domain::session::{self, Connector, NewSession, Placement, Projection};
use domain::{AgentId, ConfigurationId, ProjectId, SessionId, SessionState};
use store::configurations::NewConfiguration;
use store::read::SessionRecord;
use store::retries::RetryKey;
use store::units::create::{CreateSession, Created};
use store::units::session::{DeleteSession, UpdateSession};

use super::call::{Call, Caller, Reply};
use super::error::ApiError;
use super::failure::{creation_failed, read_failed, write_failed};
use super::idempotency;
use super::lists::{list as store_list, list_failed};
use super::render::session::{SessionBase, session as shown};
use super::render::{Deleted, List};
use super::resolve::{Resolved, resolve};
use super::stream::{self, Mode};

/// A Session of one snapshot, ready to be shown.
pub(super) struct View {
    pub base: SessionBase,
    now: Projection,
    metadata: Metadata,
}

impl View {
    pub(super) fn of(record: SessionRecord) -> Self {
        Self::new(&record.state, record.configuration)
    }

    fn new(
        state: &SessionState,
        configuration: domain::configuration::SessionConfiguration,
    ) -> Self {
        let environment = state.environment.as_ref().map(|environment| environment.id);
        Self {
            base: SessionBase::new(&state.session, configuration, environment),
            now: session::project(state),
            metadata: state.session.metadata.clone(),
        }
    }

    fn reply(&self, status: StatusCode) -> Result<Reply, ApiError> {
        Reply::json(status, &shown(&self.base, &self.now, &self.metadata))
    }
}

/// `POST /agents/sessions`
pub(crate) async fn create(call: Call) -> Result<Reply, ApiError> {
    let creation = call.read(SessionCreation::parse)?;
    let own = creation.extension.model_provider.as_ref();
    let key = own.map(|bundle| bundle.api_key.expose());
    let retry = idempotency::retry(&call, &creation.identity(), &[key.unwrap_or_default()])?;
    let project = call.project()?;
    if let Some(earlier) = earlier(&call, project, retry.as_ref(), &creation).await? {
        return Ok(earlier);
    }
    match resolve(&call.core, project, &creation).await {
        Ok(resolved) => commit(&call, project, creation, resolved, retry).await,
        // W-IDEM-8: a creation that was committed meanwhile is still the answer.
        Err(error) => Ok(earlier(&call, project, retry.as_ref(), &creation)
            .await?
            .ok_or(error)?),
    }
}

/// The answer to a repeated creation: the Session as it is now, or an empty stream (W-IDEM-4, S-CS-5).
async fn earlier(
    call: &Call,
    project: ProjectId,
    retry: Option<&RetryKey>,
    creation: &SessionCreation,
) -> Result<Option<Reply>, ApiError> {
    let Some(RetryKey { key, digest }) = retry else {
        return Ok(None);
    };
    let found = call
        .core
        .store
        .read()
        .creation(project, key)
        .await
        .map_err(read_failed)?;
    let Some(found) = found else { return Ok(None) };
    if found.digest != digest.to_string() {
        return Err(domain::Refusal::KeyConflict.into());
    }
    again(call, project, found.session, creation.stream)
        .await
        .map(Some)
}

async fn again(
    call: &Call,
    project: ProjectId,
    session: SessionId,
    stream: bool,
) -> Result<Reply, ApiError> {
    let record = call
        .core
        .store
        .read()
        .session(project, session)
        .await
        .map_err(read_failed)?;
    // W-IDEM-5: the key of a deleted Session stays taken.
    let record = record.ok_or(domain::Refusal::KeyConflict)?;
    if stream {
        Ok(stream::empty(StatusCode::CREATED))
    } else {
        View::of(record).reply(StatusCode::CREATED)
    }
}

async fn commit(
    call: &Call,
    project: ProjectId,
    creation: SessionCreation,
    resolved: Resolved,
    key: Option<RetryKey>,
) -> Result<Reply, ApiError> {
    // Whatever refuses a stream refuses before the commit (W-ORDER-6).
    let opener = match creation.stream {
        true => {
            stream::available(&call.core)?;
            Some(call_key(call)?)
        }
        false => None,
    };
    let keyed = key.is_some();
    let stream = creation.stream;
    let admitted = !creation.input.is_empty();
    let configuration_id = ConfigurationId::new(uuid::Uuid::now_v7());
    let new = NewSession {
        id: SessionId::new(uuid::Uuid::new_v4()),
        project_id: project,
        agent_id: resolved.configuration.agent_id,
        configuration: configuration_id,
        placement: match creation.environment {
            domain::creation::EnvironmentRequest::None => Placement::None,
            domain::creation::EnvironmentRequest::OpenaiHosted(_) => Placement::OpenaiHosted,
        },
        connector: Connector::Daemon,
        metadata: creation.metadata,
        vault_ids: resolved.vault_ids,
        input: creation.input,
    };
    let unit = CreateSession {
        new,
        configuration: NewConfiguration {
            id: configuration_id,
            body: resolved.configuration.clone(),
            provider_key: resolved.provider_key,
            environment_secrets: None,
        },
        key,
        provenance: call.provenance(),
    };
    let created = call
        .core
        .store
        .write(unit)
        .await
        .map_err(|error| creation_failed(error, keyed))?;
    match created {
        Created::Before { session } => again(call, project, session, stream).await,
        Created::Now { state, last_event } => {
            let view = View::new(&state, resolved.configuration);
            let Some(opener) = opener else {
                return view.reply(StatusCode::CREATED);
            };
            let room = call.core.hub.enter(view.base, last_event);
            let mode = Mode::Creation {
                turn: None,
                admitted,
            };
            let (core, status) = (call.core.clone(), StatusCode::CREATED);
            Ok(stream::open(core, room, 0, mode, opener, status).await)
        }
    }
}

/// The key that opens a stream.
pub(super) fn call_key(call: &Call) -> Result<domain::KeyId, ApiError> {
    match call.caller {
        Caller::Project { key, .. } => Ok(key),
        Caller::Admin { .. } | Caller::Unchecked => Err(ApiError::Unauthorized(None)),
    }
}

/// A live Session of the caller's Project.
pub(super) async fn find(call: &Call, project: ProjectId) -> Result<SessionRecord, ApiError> {
    let found = call
        .core
        .store
        .read()
        .session(project, call.id("session_id"))
        .await;
    found.map_err(read_failed)?.ok_or(ApiError::NotFound)
}

/// `GET /agents/sessions/{session_id}`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    View::of(find(&call, call.scope()?).await?).reply(StatusCode::OK)
}

/// `GET /agents/sessions`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let agent = match call.page.filter("agent_id") {
        None => None,
        Some(bytes) => Some(agent_filter(bytes)?),
    };
    let page = store_list(&call.page, SessionId::NEVER);
    let found = call
        .core
        .store
        .read()
        .sessions(call.scope()?, agent.as_deref(), &page)
        .await;
    let found = found.map_err(|error| list_failed(error, ApiError::NotFound))?;
    let views: Vec<_> = found.items.into_iter().map(View::of).collect();
    let elements = views.iter().map(|view| {
        (
            view.base.id.to_string(),
            shown(&view.base, &view.now, &view.metadata),
        )
    });
    Reply::ok(&List::new(elements.collect(), found.has_more))
}

/// W-LIST-8: other spellings of an id are the id (W-ID-2); anything else, the empty text too, matches nothing.
fn agent_filter(bytes: &[u8]) -> Result<String, ApiError> {
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| Invalid::unstorable(None))?;
    Ok(text
        .parse::<AgentId>()
        .unwrap_or(AgentId::NEVER)
        .to_string())
}

/// `POST /agents/sessions/{session_id}`
pub(crate) async fn update(call: Call) -> Result<Reply, ApiError> {
    let metadata = call.read(parse_update)?;
    let project = call.project()?;
    let unit = UpdateSession {
        project,
        session: call.id("session_id"),
        metadata,
        provenance: call.provenance(),
    };
    call.core.store.write(unit).await.map_err(write_failed)?;
    read(call).await
}

/// Exactly `metadata`; null clears (S-SES-14, W-META-3).
fn parse_update(body: Json<'_>) -> Result<Metadata, Invalid> {
    Metadata::check_values(body)?;
    let object = Object::open(body, &Path::root(), &["metadata"])?;
    let metadata = object.get("metadata").ok_or_else(Invalid::empty_update)?;
    match Metadata::field(metadata, &object.path("metadata"))? {
        Field::Value(metadata) => Ok(metadata),
        Field::Null | Field::Omitted => Ok(Metadata::default()),
    }
}

/// `DELETE /agents/sessions/{session_id}`
pub(crate) async fn delete(call: Call) -> Result<Reply, ApiError> {
    let session: SessionId = call.id("session_id");
    let unit = DeleteSession {
        project: call.scope()?,
        session,
        by: call.author()?,
    };
    call.core.store.write(unit).await.map_err(write_failed)?;
    call.core.hub.ended(session);
    Reply::ok(&Deleted::new(session, "agent.session.deleted"))
}

/// `GET /agents/sessions/{session_id}/events`
pub(crate) async fn follow(call: Call) -> Result<Reply, ApiError> {
    let record = find(&call, call.project()?).await?;
    let key = call_key(&call)?;
    stream::available(&call.core)?;
    let seen = record.last_event;
    let room = call.core.hub.enter(View::of(record).base, seen);
    // S-LS-1: only what is committed after this point.
    let (core, status) = (call.core.clone(), StatusCode::OK);
    Ok(stream::open(core, room, seen, Mode::Live, key, status).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_exactly_metadata() {
        // S-SES-14, E400-17
        let refused = |text: &str| parse_update(Json::new(text)).unwrap_err().message;
        assert_eq!(refused("{}"), "At least one update field is required");
        assert_eq!(
            refused(r#"{"status":"idle"}"#),
            "Unknown parameter: 'status'."
        );
        assert_eq!(
            parse_update(Json::new(r#"{"metadata":null}"#)).unwrap(),
            Metadata::default()
        );
    }
}
