//! The one initialization of an Environment, and its failure (state-machines 1.6 V4, 1.8).

use super::{
    ConnectionState, EnvironmentFailure, EnvironmentStatus, FailureReason, Initialization,
};
use crate::changes::{Context, Decided};
use crate::draft::Draft;
use crate::event::{Cause, EnvironmentEvent, ErrorEvent, EventPayload};
use crate::lease::Epoch;
use crate::reservation::{self, ReservationFailure, ReservationState};
use crate::{BindingId, Refusal, SessionState};

/// The init loop holds a bound peer and a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeginInit {
    /// Lease epoch of the caller.
    pub owner_epoch: Epoch,
    /// Connection generation of the peer.
    pub generation: u64,
}

/// N3: the right to send the first step, once per incarnation (I6). Anything else is inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn begin_init(
    state: &SessionState,
    begin: BeginInit,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let may = state.session.deleted_at.is_none()
        && state.environment.as_ref().is_some_and(|environment| {
            environment.initialization == Initialization::Pending
                && !environment.status.is_terminal()
                && environment.observation.state == ConnectionState::Connected
                && environment.observation.generation == begin.generation
        });
    let mut draft = Draft::of(state);
    if may && let Some(environment) = &mut draft.state.environment {
        environment.initialization = Initialization::Running {
            owner_epoch: begin.owner_epoch,
            generation: begin.generation,
            started_at: cx.now,
        };
    }
    Ok(draft.decide(may))
}

/// Every step was confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompleteInit {
    /// Lease epoch of the attempt.
    pub owner_epoch: Epoch,
    /// Connection generation of the attempt.
    pub generation: u64,
    /// The binding it ran under.
    pub binding_id: BindingId,
    /// Its epoch.
    pub binding_epoch: u64,
}

/// N5: complete for ever, if the socket and the exact binding are still those of the attempt (ENV-354); `E.ready`. Otherwise
/// nothing happens and the attempt is to be failed as [`FailureReason::Incomplete`]; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn complete_init(
    state: &SessionState,
    complete: CompleteInit,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let bound = state.binding.as_ref().is_some_and(|binding| {
        binding.id == complete.binding_id
            && binding.epoch == complete.binding_epoch
            && binding.release.is_none()
    });
    let may = bound
        && state.environment.as_ref().is_some_and(|environment| {
            let ours = matches!(environment.initialization, Initialization::Running { owner_epoch, generation, .. }
                if owner_epoch == complete.owner_epoch && generation == complete.generation);
            ours && !environment.status.is_terminal()
                && environment.observation.state == ConnectionState::Connected
                && environment.observation.generation == complete.generation
        });
    let mut draft = Draft::of(state);
    if may && let Some(environment) = &mut draft.state.environment {
        environment.initialization = Initialization::Complete { at: cx.now };
        draft.environment_event(EnvironmentEvent::Ready);
        draft.wake();
    }
    Ok(draft.decide(may))
}

/// V4, N2, N6: provisioning or initialization failed. Terminal for the Session; compute and files stay (ENV-360).
///
/// Events: `E.failed`, `error`, `S.failed` with the cause that ends live streams (S-SEQ-7). A pending reservation fails with it
/// (R6). The first failure wins; after completion, deletion or expiry nothing happens; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn fail(
    state: &SessionState,
    reason: FailureReason,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let mut draft = Draft::of(state);
    let failed = fail_in(&mut draft, reason, cx);
    Ok(draft.decide(failed))
}

/// [`fail`] inside another decision (A5).
pub(crate) fn fail_in(draft: &mut Draft<'_>, reason: FailureReason, cx: &Context<'_>) -> bool {
    let Some(environment) = &mut draft.state.environment else {
        return false;
    };
    let complete = matches!(environment.initialization, Initialization::Complete { .. });
    if environment.status.is_terminal() || complete {
        return false;
    }
    environment.status = EnvironmentStatus::Failed;
    environment.failure = Some(EnvironmentFailure { reason, at: cx.now });
    environment.initialization = Initialization::Failed;
    draft.touch(cx.now);
    let failed = ReservationState::Failed {
        reason: ReservationFailure::Environment,
    };
    reservation::settle_silently(draft, failed, cx.now);
    draft.environment_event(EnvironmentEvent::Failed);
    draft.event(EventPayload::Error {
        error: ErrorEvent::Sandbox { reason },
    });
    draft.announce(Cause::InitFailed);
    draft.wake();
    true
}
