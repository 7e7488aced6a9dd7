//! Why a Session or Turn failed, for operators: stored causes as closed codes, never text (S-DIA, OPS-050 to OPS-054).

use std::time::Duration;

use axum::http::StatusCode;
use domain::diagnostics::{self, Code, Diagnosis, Source};
use domain::environment::EnvironmentStatus;
use domain::item::Item;
use domain::run::{HarnessId, PluginIdentity};
use domain::session::{SessionStatus, project};
use domain::turn::{Turn, TurnStatus};
use domain::waiting::{Connected, Live};
use domain::{SessionState, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

use store::Parts;

use super::projects::rfc3339;
use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::api::failure::read_failed;
use crate::peer::Peers;
use crate::state::Core;

/// Most Items of a Turn (S-DIA-3).
const MAX_ITEMS: u32 = 1000;
/// Budget of one read (S-DIA-1).
const BUDGET: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct SessionJson {
    object: &'static str,
    session_id: String,
    status: SessionStatus,
    failure: Option<FailureJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<WaitingJson>,
    /// Status of its Environment, which a Session itself does not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_status: Option<EnvironmentStatus>,
    /// The plugin that serves the newest Turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<PluginIdentity>,
    /// The plugin that made the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<PluginIdentity>,
}

/// What input waits for.
#[derive(Serialize)]
struct WaitingJson {
    code: &'static str,
    harness: String,
    /// When it will have waited too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct TurnJson {
    object: &'static str,
    session_id: String,
    turn_id: String,
    status: TurnStatus,
    failure: Option<FailureJson>,
    items: Vec<ItemJson>,
    items_truncated: bool,
}

#[derive(Serialize)]
struct FailureJson {
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<String>,
    code: &'static str,
    params: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    failed_at: Option<String>,
}

#[derive(Serialize)]
struct ItemJson {
    item_id: String,
    started_at: String,
    completed_at: Option<String>,
    observed_duration_ms: Option<i64>,
}

/// `GET /core/v1/projects/{project_id}/sessions/{session_id}/diagnostics`
pub(crate) async fn session(call: Call) -> Result<Reply, ApiError> {
    let reader = call.core.store.read();
    let found = within(reader.session(call.id("project_id"), call.id("session_id"))).await?;
    let record = found.ok_or(AdminError::NotFound)?;
    let parts = Parts {
        allocation: true,
        binding: true,
        calls: true,
        ..Parts::default()
    };
    let found = within(reader.state(call.id("session_id"), &parts)).await?;
    // Deleted between the two reads.
    let state = found.filter(|state| state.session.deleted_at.is_none());
    let state = state.ok_or(AdminError::NotFound)?;
    let waiting = waiting(&call.core, &record.configuration.harness, &state);
    let provider = state
        .allocation
        .as_ref()
        .and_then(|allocation| allocation.plugin.clone());
    let adapter = state.turn.as_ref().and_then(|turn| turn.adapter.clone());
    let shown = project(&state);
    let failure = session_failure(&state);
    let session_id = state.session.id.to_string();
    let environment = state.environment.as_ref();
    Reply::json(
        StatusCode::OK,
        &SessionJson {
            object: "core.session_diagnostics",
            session_id,
            status: shown.status,
            failure,
            waiting,
            environment_status: environment.map(|environment| environment.status),
            adapter,
            provider,
        },
    )
}

/// `GET /core/v1/projects/{project_id}/sessions/{session_id}/turns/{turn_id}/diagnostics`
pub(crate) async fn turn(call: Call) -> Result<Reply, ApiError> {
    let reader = call.core.store.read();
    let (project, session) = (call.id("project_id"), call.id("session_id"));
    let found = within(reader.turn_record(project, session, call.id("turn_id"), MAX_ITEMS)).await?;
    let found = found.ok_or(AdminError::NotFound)?;
    Reply::ok(&TurnJson {
        object: "core.turn_diagnostics",
        session_id: found.turn.session_id.to_string(),
        turn_id: found.turn.id.to_string(),
        status: found.turn.status(),
        failure: turn_failure(&found.turn),
        items: found.items.iter().map(item).collect(),
        items_truncated: found.truncated,
    })
}

async fn within<T>(
    read: impl Future<Output = Result<T, store::StoreError>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(BUDGET, read).await {
        Ok(found) => found.map_err(read_failed),
        Err(_) => Err(ApiError::Internal {
            effect_unknown: false,
        }),
    }
}

/// What the Session's input waits for, as the owner of execution knows without asking anybody (S-DIA-1).
fn waiting(core: &Core, harness: &HarnessId, state: &SessionState) -> Option<WaitingJson> {
    if core.store.lease().borrow().is_none() {
        return None;
    }
    // A bound one waits for its own Runtime, which may be another Core's.
    let bound = state.binding.as_ref().map(|binding| binding.device_id);
    let made = state.allocation.as_ref().map(|made| made.device_id);
    let device = bound.or(made).unwrap_or(core.engine_device);
    let deployment = core.deployment.as_ref();
    let live = Live {
        provider: core.hosts() && deployment.is_some_and(|now| now.problem().is_none()),
        runtime: core.gateway.of(device).map(|peer| Connected {
            harness: peer.can_run(harness),
        }),
    };
    let code = domain::waiting::of(state, live)?.as_str();
    let reservation = state.pending_reservation();
    Some(WaitingJson {
        code,
        harness: harness.to_string(),
        expires_at: reservation.map(|reservation| rfc3339(reservation.deadline)),
    })
}

/// The failure of the Session itself, with the sentence that its application reads where there is one (S-ENV-4).
fn session_failure(state: &SessionState) -> Option<FailureJson> {
    let Diagnosis {
        source,
        code,
        failed_at,
    } = diagnostics::of_session(state)?;
    let shown = failure(source, code, failed_at);
    let environment = state
        .environment
        .as_ref()
        .filter(|_| source == Source::Environment);
    let reason = environment.and_then(|environment| Some(environment.failure?.reason.to_string()));
    Some(FailureJson { reason, ..shown })
}

fn turn_failure(turn: &Turn) -> Option<FailureJson> {
    let code = diagnostics::of_turn(turn)?;
    Some(failure(Source::Turn(turn.id), code, turn.completed_at()))
}

fn failure(source: Source, code: Code, at: Option<Timestamp>) -> FailureJson {
    let (source, turn_id) = match source {
        Source::Turn(id) => ("turn", Some(id.to_string())),
        Source::Environment => ("environment", None),
        Source::EnvironmentInput => ("environment_input", None),
    };
    FailureJson {
        source,
        turn_id,
        code: code.as_str(),
        params: params(code),
        reason: None,
        failed_at: at.map(rfc3339),
    }
}

/// OPS-052, S-DIA-5.
fn params(code: Code) -> Map<String, Value> {
    let known = match code {
        Code::ConnectionFailed { http_status } => vec![("http_status", json!(http_status))],
        Code::EnvironmentProvisioningFailed {
            step,
            index,
            exit_code,
        } => vec![
            ("step", json!(step)),
            ("index", json!(index)),
            ("exit_code", json!(exit_code)),
        ],
        _ => Vec::new(),
    };
    known
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Receipt times, not native ones (S-DIA-4).
fn item(item: &Item) -> ItemJson {
    let duration = |end: Timestamp| end.millis().saturating_sub(item.started_at.millis());
    ItemJson {
        item_id: item.id.to_string(),
        started_at: rfc3339(item.started_at),
        completed_at: item.completed_at.map(rfc3339),
        observed_duration_ms: item.completed_at.map(duration),
    }
}
