//! Connection observations and what they do to the resource status (state-machines 1.6 V2, V3; 1.7).

use super::{ConnectionState, Environment, EnvironmentStatus, Observation};
use crate::changes::{Context, Decided, Hint};
use crate::draft::Draft;
use crate::event::{Cause, EnvironmentEvent};
use crate::{ConnectionId, ExecutorKeyId, Refusal, SessionState};

/// What the gateway saw of the device's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observe {
    /// An authenticated socket with a valid `hello`; committed before `welcome` is sent (C1).
    Registered {
        /// The socket.
        connection_id: ConnectionId,
        /// The key it dialled with, on self-hosted machines.
        key_id: Option<ExecutorKeyId>,
    },
    /// A valid declaration and `bound` for the exact binding (C2, D20).
    Connected {
        /// Generation that the registration answered.
        generation: u64,
        /// Larger than every earlier one of this generation.
        revision: u64,
    },
    /// The socket is gone or lost its authority (C3).
    Lost {
        /// Generation that the registration answered.
        generation: u64,
        /// Larger than every earlier one of this generation.
        revision: u64,
    },
    /// Recovery: whatever a former owner saw is over (C5, SP-6.4).
    OwnerLost,
}

/// Answer of [`observe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// Stored; the observation as it is now.
    Stored(Observation),
    /// Older than what is known, or about a Session that is deleted: nothing changed (C4).
    Inert,
}

/// Stores an observation. `E.connected`, `E.disconnected` and the Session's event follow from it, in its transaction (ENV-245).
/// Terminal Environments keep their status (V7).
///
/// # Errors
/// E500-01 for a Session without Environment.
pub fn observe(
    state: &SessionState,
    observe: Observe,
    _cx: &mut Context<'_>,
) -> Result<Decided<Observed>, Refusal> {
    let environment = state
        .environment
        .as_ref()
        .ok_or(Refusal::Impossible("an observation without an Environment"))?;
    let Some(next) = next(&environment.observation, observe) else {
        return Ok(Decided::unchanged(Observed::Inert));
    };
    if state.session.deleted_at.is_some() && next.state != ConnectionState::Closed {
        return Ok(Decided::unchanged(Observed::Inert));
    }
    let mut draft = Draft::of(state);
    let was_connected = environment.observation.state == ConnectionState::Connected;
    if was_connected && next.state != ConnectionState::Connected {
        change_status(
            &mut draft,
            EnvironmentStatus::Disconnected,
            EnvironmentEvent::Disconnected,
        ); // V3
    }
    if let Some(environment) = &mut draft.state.environment {
        environment.observation = next;
    }
    if next.state == ConnectionState::Connected {
        change_status(
            &mut draft,
            EnvironmentStatus::Connected,
            EnvironmentEvent::Connected,
        ); // V2
        draft.hint(Hint::Initialize(environment.id));
    }
    draft.wake();
    Ok(draft.decide(Observed::Stored(next)))
}

fn next(old: &Observation, observe: Observe) -> Option<Observation> {
    let newer = |generation, revision| old.generation == generation && revision > old.revision;
    match (observe, old.state) {
        (
            Observe::Registered {
                connection_id,
                key_id,
            },
            _,
        ) => Some(Observation {
            generation: old.generation + 1,
            revision: 0,
            state: ConnectionState::Registered,
            connection_id: Some(connection_id),
            key_id,
        }), // C1
        (
            Observe::Connected {
                generation,
                revision,
            },
            ConnectionState::Registered,
        ) if newer(generation, revision) => {
            Some(Observation {
                revision,
                state: ConnectionState::Connected,
                ..*old
            }) // C2
        }
        (
            Observe::Lost {
                generation,
                revision,
            },
            ConnectionState::Registered | ConnectionState::Connected,
        ) if newer(generation, revision) => {
            Some(Observation {
                revision,
                state: ConnectionState::Closed,
                ..*old
            }) // C3
        }
        (Observe::OwnerLost, ConnectionState::Registered | ConnectionState::Connected) => {
            Some(Observation {
                revision: old.revision + 1,
                state: ConnectionState::Closed,
                ..*old
            }) // C5
        }
        _ => None, // C4
    }
}

fn change_status(draft: &mut Draft<'_>, status: EnvironmentStatus, event: EnvironmentEvent) {
    let changes = |environment: &Environment| {
        !environment.status.is_terminal() && environment.status != status
    };
    let Some(environment) = draft
        .state
        .environment
        .as_mut()
        .filter(|environment| changes(environment))
    else {
        return;
    };
    environment.status = status;
    draft.environment_event(event);
    draft.announce(Cause::Other);
}
