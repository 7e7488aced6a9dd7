//! Why a Session or Turn failed, for operators: stored causes as closed codes, never text (S-DIA, OPS-050 to OPS-054).

use std::time::Duration;

use axum::http::StatusCode;
use domain::environment::FailureReason;
use domain::item::Item;
use domain::reservation::{Reservation, ReservationFailure, ReservationState};
use domain::run::FailureCode;
use domain::session::{SessionStatus, project};
use domain::turn::{FailureClass, Outcome, Turn, TurnFailure, TurnState, TurnStatus};
use domain::{SessionState, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::projects::rfc3339;
use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::api::failure::read_failed;

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
    let state = found.ok_or(AdminError::NotFound)?.state;
    let shown = project(&state);
    let failure = (shown.status == SessionStatus::Failed)
        .then(|| session_failure(&state))
        .flatten();
    let session_id = state.session.id.to_string();
    Reply::json(
        StatusCode::OK,
        &SessionJson {
            object: "core.session_diagnostics",
            session_id,
            status: shown.status,
            failure,
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

/// Provisioning failure, then input activity, then the latest root Turn (S-DIA-2).
fn session_failure(state: &SessionState) -> Option<FailureJson> {
    if let Some(failure) = state
        .environment
        .as_ref()
        .and_then(|environment| environment.failure)
    {
        return Some(FailureJson {
            source: "environment",
            turn_id: None,
            code: "environment_provisioning_failed",
            params: step(failure.reason),
            failed_at: Some(rfc3339(failure.at)),
        });
    }
    let newest = state.turn.as_ref().map(|turn| turn.work_seq);
    let reservation = state
        .reservation
        .as_ref()
        .filter(|reservation| newest.is_none_or(|seq| reservation.work_seq > seq));
    match reservation
        .and_then(|reservation| Some((input_code(reservation)?, reservation.settled_at)))
    {
        Some((code, at)) => Some(FailureJson {
            source: "environment_input",
            turn_id: None,
            code,
            params: Map::new(),
            failed_at: at.map(rfc3339),
        }),
        None => state.turn.as_ref().and_then(turn_failure),
    }
}

fn input_code(reservation: &Reservation) -> Option<&'static str> {
    match reservation.state {
        ReservationState::Expired => Some("environment_connection_timeout"),
        ReservationState::Failed {
            reason: ReservationFailure::Preparation,
        } => Some("runtime_preparation_failed"),
        ReservationState::Failed {
            reason: ReservationFailure::Environment,
        } => Some("environment_unavailable"),
        ReservationState::Pending
        | ReservationState::Admitted { .. }
        | ReservationState::Cancelled => None,
    }
}

/// OPS-052.
fn step(reason: FailureReason) -> Map<String, Value> {
    let (step, index, exit_code) = match reason {
        FailureReason::Setup { index, exit_code } => (Some("setup"), Some(index), Some(exit_code)),
        FailureReason::Python { exit_code } => (Some("python"), None, Some(exit_code)),
        FailureReason::Npm { exit_code } => (Some("npm"), None, Some(exit_code)),
        FailureReason::File => (Some("file"), None, None),
        FailureReason::Skill => (Some("skill"), None, None),
        FailureReason::HarnessUnavailable | FailureReason::Incomplete => (None, None, None),
    };
    [
        ("step", json!(step)),
        ("index", json!(index)),
        ("exit_code", json!(exit_code)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn turn_failure(turn: &Turn) -> Option<FailureJson> {
    let TurnState::Ended {
        outcome: Outcome::Failed { cause },
        at,
        ..
    } = &turn.state
    else {
        return None;
    };
    let (code, params) = turn_code(*cause);
    Some(FailureJson {
        source: "turn",
        turn_id: Some(turn.id.to_string()),
        code,
        params,
        failed_at: Some(rfc3339(*at)),
    })
}

/// S-DIA-5.
fn turn_code(cause: TurnFailure) -> (&'static str, Map<String, Value>) {
    let code = match cause {
        TurnFailure::EngineFailed { class: Some(class) } => return class_code(class),
        TurnFailure::EngineFailed { class: None } => "harness_error",
        TurnFailure::PreparationStartFailed => "runtime_preparation_failed",
        TurnFailure::DeviceDisconnected | TurnFailure::EventStreamIncomplete => {
            "runtime_disconnected"
        }
        TurnFailure::DeliveryUnknown
        | TurnFailure::InputOutcomeUnknown
        | TurnFailure::FunctionResultUnconfirmed
        | TurnFailure::CancelUnconfirmed
        | TurnFailure::CancelOutcomeUnavailable => "delivery_unconfirmed",
        TurnFailure::InputNotApplied => "input_rejected",
        TurnFailure::FunctionResultInvalid | TurnFailure::FunctionCallInvalid => {
            "executor_protocol_error"
        }
        TurnFailure::EventPersistenceFailed | TurnFailure::ArtifactCaptureFailed => {
            "core_storage_failed"
        }
        TurnFailure::ExecutionInterrupted => "execution_interrupted",
    };
    (code, Map::new())
}

/// The class that the harness told, by its own name.
fn class_code(class: FailureClass) -> (&'static str, Map<String, Value>) {
    let mut params = Map::new();
    if class.code == FailureCode::ConnectionFailed {
        params.insert("http_status".to_owned(), json!(class.http_status));
    }
    (class.code.as_str(), params)
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
