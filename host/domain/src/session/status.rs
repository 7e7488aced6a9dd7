//! The public status of a Session, computed from facts (state-machines 1.1, P1–P9; sessions.md 2.3).

use super::{Connector, Placement, Projection, RequiredAction, SessionStatus};
use crate::environment::{Environment, EnvironmentStatus};
use crate::reservation::{Reservation, ReservationFailure, ReservationState};
use crate::session_state::SessionState;
use crate::turn::{Outcome, Turn, TurnState, TurnStatus};

/// `error` of a Session whose last Turn failed (P8), and message of every failed Turn (S-TURN-3).
pub const EXECUTION_FAILED: &str = "The execution could not complete.";
/// `error` after the initial reservation expired (D32).
pub const INPUT_EXPIRED: &str = "The environment input deadline elapsed before admission.";
/// `error` after a reservation failed in preparation (D32).
pub const PREPARATION_FAILED: &str = "The execution could not be prepared.";
/// `error` after the Environment of a pending reservation ended (D32).
pub const ENVIRONMENT_ENDED: &str = "The environment is no longer available for new input.";

/// What every read and every Session event shows: the first matching row of P1–P9.
pub fn project(state: &SessionState) -> Projection {
    let (status, error, mut required_actions) = status(state);
    if let Some(action) = runner_action(state) {
        required_actions.push(action);
    }
    Projection {
        status,
        error,
        required_actions,
        usage: if state.live_turn().is_some() {
            None
        } else {
            state.session.usage.public()
        },
        last_active_at: match failure(state) {
            Some(failure) => failure.at,
            None => state.session.last_active_at,
        },
    }
}

type Status = (SessionStatus, Option<String>, Vec<RequiredAction>);

fn status(state: &SessionState) -> Status {
    if let Some(failure) = failure(state) {
        return failed(failure.reason.to_string()); // P1
    }
    if let Some(turn) = state.live_turn() {
        return match turn.status() {
            TurnStatus::Waiting if turn.cancel.is_none() => {
                (SessionStatus::RequiresAction, None, open_calls(state, turn)) // P3
            }
            _ => (SessionStatus::InProgress, None, Vec::new()), // P2
        };
    }
    let newest = state.turn.as_ref().map(|turn| turn.work_seq);
    match &state.reservation {
        Some(reservation) if newest.is_none_or(|newest| reservation.work_seq > newest) => {
            of_reservation(state, reservation)
        }
        _ => of_ended_turn(state.turn.as_ref()),
    }
}

fn of_reservation(state: &SessionState, reservation: &Reservation) -> Status {
    match reservation.state {
        ReservationState::Pending => match waits_for_connection(state) {
            Some(environment) => {
                let action = RequiredAction::EnvironmentConnection {
                    environment_id: environment.id,
                };
                (SessionStatus::RequiresAction, None, vec![action]) // P4
            }
            None => idle(), // P5
        },
        ReservationState::Expired if reservation.initial => failed(INPUT_EXPIRED), // P6
        ReservationState::Failed {
            reason: ReservationFailure::Preparation,
        } => failed(PREPARATION_FAILED), // P6
        ReservationState::Failed {
            reason: ReservationFailure::Environment,
        } => failed(ENVIRONMENT_ENDED), // P6
        ReservationState::Expired | ReservationState::Cancelled => idle(),         // P7
        // Admission makes a Turn with a larger `work_seq`, so this row is never the newer one.
        ReservationState::Admitted { .. } => of_ended_turn(state.turn.as_ref()),
    }
}

fn of_ended_turn(turn: Option<&Turn>) -> Status {
    match turn.map(|turn| &turn.state) {
        Some(TurnState::Ended {
            outcome: Outcome::Failed { .. },
            ..
        }) => failed(EXECUTION_FAILED), // P8
        _ => idle(), // P9
    }
}

/// The machine of the client that pending input waits for (ENV-241, ENV-244).
fn waits_for_connection(state: &SessionState) -> Option<&Environment> {
    if state.session.placement != Placement::SelfHosted
        || state.session.connector != Connector::Daemon
    {
        return None;
    }
    state
        .environment
        .as_ref()
        .filter(|environment| environment.status != EnvironmentStatus::Connected)
}

/// On runner Sessions the action stands beside any status while no runner is connected (API-136, API-137).
fn runner_action(state: &SessionState) -> Option<RequiredAction> {
    if state.session.connector != Connector::Runner {
        return None;
    }
    let environment = state.environment.as_ref()?;
    match environment.status {
        EnvironmentStatus::Pending | EnvironmentStatus::Disconnected => {
            Some(RequiredAction::EnvironmentConnection {
                environment_id: environment.id,
            })
        }
        EnvironmentStatus::Connected | EnvironmentStatus::Expired | EnvironmentStatus::Failed => {
            None
        }
    }
}

fn open_calls(state: &SessionState, turn: &Turn) -> Vec<RequiredAction> {
    let mut calls: Vec<_> = state
        .calls
        .iter()
        .filter(|call| call.turn_id == turn.id && call.state.is_open())
        .collect();
    calls.sort_by_key(|call| call.position);
    let action = |call: &crate::call::Call| RequiredAction::FunctionCall {
        turn_id: call.turn_id,
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    calls.into_iter().map(action).collect()
}

fn failure(state: &SessionState) -> Option<crate::environment::EnvironmentFailure> {
    let environment = state.environment.as_ref()?;
    environment
        .failure
        .filter(|_| environment.status == EnvironmentStatus::Failed)
}

fn idle() -> Status {
    (SessionStatus::Idle, None, Vec::new())
}

fn failed(error: impl Into<String>) -> Status {
    (SessionStatus::Failed, Some(error.into()), Vec::new())
}
