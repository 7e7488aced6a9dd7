//! Claim of a queued Turn by the actor that holds a ready preparation, and its definite failure (T3, T5).

use super::{Claim, Outcome, RunPhase, TurnFailure, TurnState};
use crate::changes::{Context, Decided};
use crate::draft::Draft;
use crate::event::TurnEvent;
use crate::input::Delivery;
use crate::{Refusal, SessionState, TurnId};

/// Answer of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// Done by this call: the only answer that lets the caller send one `execution_start` (ENV-216).
    Now,
    /// This Run claimed it before: no right (ENV-217).
    Replay,
    /// Not `queued`, the Session is deleted, or the binding changed: nothing happened (SC-10.3).
    Refused,
}

/// T3: every message present becomes start input (D6).
///
/// # Errors
/// Only E500-01.
pub fn claim(
    state: &SessionState,
    turn_id: TurnId,
    claim: Claim,
    cx: &mut Context<'_>,
) -> Result<Decided<Claimed>, Refusal> {
    let Some(turn) = state.turn.as_ref().filter(|turn| turn.id == turn_id) else {
        return Ok(Decided::unchanged(Claimed::Refused));
    };
    if turn.claim().is_some_and(|old| old.run_id == claim.run_id) {
        return Ok(Decided::unchanged(Claimed::Replay));
    }
    let live = turn.state == TurnState::Queued && state.session.deleted_at.is_none();
    if !live || !binding_allows(state, &claim) {
        return Ok(Decided::unchanged(Claimed::Refused));
    }
    let mut draft = Draft::of(state);
    if let Some(turn) = &mut draft.state.turn {
        turn.state = TurnState::Active {
            claim,
            phase: RunPhase::Running,
        };
        turn.started_at = Some(cx.now);
    }
    for input in &mut draft.state.inputs {
        if input.turn_id == turn_id && input.delivery == Delivery::Stored {
            input.delivery = Delivery::Started;
        }
    }
    draft.touch(cx.now);
    draft.turn_event(TurnEvent::InProgress)?;
    Ok(draft.decide(Claimed::Now))
}

/// The claim names the Session's binding in its current epoch, and that is not being released (SC-7.2).
pub(crate) fn binding_allows(state: &SessionState, claim: &Claim) -> bool {
    state.binding.as_ref().is_some_and(|binding| {
        binding.id == claim.binding_id
            && binding.epoch == claim.binding_epoch
            && binding.device_id == claim.device_id
            && binding.release.is_none()
    })
}

/// T5: the preparation of a queued Turn failed for good (D7). Anything else is inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn fail_queued(
    state: &SessionState,
    turn_id: TurnId,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let queued = state
        .turn
        .as_ref()
        .is_some_and(|turn| turn.id == turn_id && turn.state == TurnState::Queued);
    if !queued {
        return Ok(Decided::unchanged(false));
    }
    let mut draft = Draft::of(state);
    super::end(
        &mut draft,
        Outcome::Failed {
            cause: TurnFailure::PreparationStartFailed,
        },
        cx.now,
    );
    Ok(draft.decide(true))
}
