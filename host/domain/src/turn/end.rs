//! The ends of a Turn (T14–T23): by its Run, by its capture, by loss, by recovery.

use super::{Outcome, RunPhase, TurnFailure, TurnState};
use crate::artifact::{self, Captured};
use crate::call::CallState;
use crate::changes::{Context, Decided, Write};
use crate::draft::Draft;
use crate::event::{Cause, EventPayload, TurnEvent};
use crate::input::Delivery;
use crate::run::{RunFailure, TurnStatus as RunStatus};
use crate::{Refusal, RunId, SessionState, Timestamp, projection};

/// How the native Run ended: its `done` with the errors before it, or the receipt of a cancel that was sent (RP-13.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// Observed native outcome.
    pub status: RunStatus,
    /// The last native error, if there was one; `done` does not undo it (RP-11.4).
    pub failure: Option<RunFailure>,
}

/// Answer of [`settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The Turn is over.
    Ended(Outcome),
    /// Outputs are to be captured; [`finish`] ends the Turn (T15, SC-7.8).
    Capture,
    /// Terminal Turn, other Run, or settled before: nothing happened.
    Inert,
}

/// The native Run ended (T14, T15, T19, T20, T22).
///
/// # Errors
/// Only E500-01.
pub fn settle(
    state: &SessionState,
    run_id: RunId,
    end: &RunEnd,
    cx: &mut Context<'_>,
) -> Result<Decided<Settled>, Refusal> {
    if !matches!(
        phase_of(state, run_id),
        Some(RunPhase::Running | RunPhase::Waiting)
    ) {
        return Ok(Decided::unchanged(Settled::Inert));
    }
    let mut draft = Draft::of(state);
    match judge(state, end) {
        Judgement::Outcome(outcome) => {
            super::end(&mut draft, outcome, cx.now);
            Ok(draft.decide(Settled::Ended(outcome)))
        }
        Judgement::Capture => {
            close_items_and_calls(&mut draft, cx.now);
            if let Some(turn) = &mut draft.state.turn
                && let TurnState::Active { phase, .. } = &mut turn.state
            {
                *phase = RunPhase::Capturing { settled_at: cx.now };
            }
            draft.announce(Cause::Other);
            draft.wake();
            Ok(draft.decide(Settled::Capture))
        }
    }
}

enum Judgement {
    Outcome(Outcome),
    Capture,
}

fn judge(state: &SessionState, end: &RunEnd) -> Judgement {
    let failed = |cause| Judgement::Outcome(Outcome::Failed { cause });
    let cancelled = state
        .turn
        .as_ref()
        .is_some_and(|turn| turn.cancel.is_some());
    match end.status {
        _ if end.failure.is_some() => failed(engine_failed(end.failure.as_ref())), // T22
        RunStatus::Failed | RunStatus::Unknown => failed(engine_failed(None)),
        RunStatus::Cancelled if cancelled => Judgement::Outcome(Outcome::Cancelled), // T19
        RunStatus::Cancelled => failed(engine_failed(None)), // nobody asked for it
        // T20: with an Environment a requested cancel always prevents `completed` (D14).
        RunStatus::Completed if cancelled && state.environment.is_some() => {
            Judgement::Outcome(Outcome::Cancelled)
        }
        RunStatus::Completed => match unapplied(state) {
            Some(cause) => failed(cause),
            None if state.environment.is_some() => Judgement::Capture, // T15
            None => Judgement::Outcome(Outcome::Completed),            // T14
        },
    }
}

fn engine_failed(failure: Option<&RunFailure>) -> TurnFailure {
    TurnFailure::EngineFailed {
        code: failure.and_then(RunFailure::code),
        http_status: failure.and_then(RunFailure::http_status),
    }
}

/// Something accepted that the harness did not take for certain (SC-7.6, D43).
fn unapplied(state: &SessionState) -> Option<TurnFailure> {
    let turn = state.turn.as_ref()?;
    let deliveries = || {
        state
            .inputs
            .iter()
            .filter(|input| input.turn_id == turn.id)
            .map(|input| input.delivery)
    };
    if deliveries().any(|delivery| matches!(delivery, Delivery::Stored | Delivery::Rejected)) {
        return Some(TurnFailure::InputNotApplied);
    }
    if deliveries().any(|delivery| !delivery.is_applied()) {
        return Some(TurnFailure::InputOutcomeUnknown);
    }
    let answered = |call: &crate::call::Call| {
        call.turn_id == turn.id && matches!(call.state, CallState::Answered(_))
    };
    state
        .calls
        .iter()
        .any(answered)
        .then_some(TurnFailure::FunctionResultUnconfirmed)
}

/// Ends of a Turn that its Run alone does not decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// Every output was transferred and verified (T16, T18).
    Captured(Captured),
    /// The capture was refused, lost, over a limit or dropped (T17, T18).
    CaptureFailed,
    /// A cancel was found before Start was sent, by the process that holds the right to send it (T21).
    NotStarted,
    /// T22 with its cause.
    Failed(TurnFailure),
}

/// Answer of [`finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// The Turn is over.
    Ended(Outcome),
    /// Terminal Turn, other Run, or an end that does not fit its phase: nothing happened.
    Inert,
}

/// Ends a claimed Turn (T16–T18, T21, T22). Artifacts are published in the same transaction (SC-7.7).
///
/// # Errors
/// Only E500-01.
pub fn finish(
    state: &SessionState,
    run_id: RunId,
    end: TurnEnd,
    cx: &mut Context<'_>,
) -> Result<Decided<Finished>, Refusal> {
    let Some(phase) = phase_of(state, run_id) else {
        return Ok(Decided::unchanged(Finished::Inert));
    };
    let capturing = matches!(phase, RunPhase::Capturing { .. });
    let cancelled = state
        .turn
        .as_ref()
        .is_some_and(|turn| turn.cancel.is_some());
    let mut artifacts = Vec::new();
    let outcome = match end {
        TurnEnd::Captured(_) | TurnEnd::CaptureFailed | TurnEnd::Failed(_)
            if capturing && cancelled =>
        {
            Outcome::Cancelled
        }
        TurnEnd::Captured(captured) if capturing => {
            artifacts = artifact::publish(state, captured, cx);
            Outcome::Completed
        }
        TurnEnd::CaptureFailed | TurnEnd::Failed(_) if capturing => Outcome::Failed {
            cause: TurnFailure::ArtifactCaptureFailed,
        },
        TurnEnd::NotStarted if cancelled && !capturing => Outcome::Cancelled,
        TurnEnd::Failed(cause) => Outcome::Failed { cause },
        TurnEnd::Captured(_) | TurnEnd::CaptureFailed | TurnEnd::NotStarted => {
            return Ok(Decided::unchanged(Finished::Inert));
        }
    };
    let mut draft = Draft::of(state);
    for artifact in artifacts {
        draft.write(Write::PutArtifact(artifact));
    }
    super::end(&mut draft, outcome, cx.now);
    Ok(draft.decide(Finished::Ended(outcome)))
}

/// T23: recovery by a new owner; also for deleted Sessions, then without events (SC-10.3). Anything but a claimed Turn that is
/// not terminal is left alone; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn interrupt(state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
    let claimed = state
        .turn
        .as_ref()
        .is_some_and(|turn| matches!(turn.state, TurnState::Active { .. }));
    if !claimed {
        return Ok(Decided::unchanged(false));
    }
    let mut draft = Draft::of(state);
    super::end(
        &mut draft,
        Outcome::Failed {
            cause: TurnFailure::ExecutionInterrupted,
        },
        cx.now,
    );
    Ok(draft.decide(true))
}

fn phase_of(state: &SessionState, run_id: RunId) -> Option<RunPhase> {
    match &state.turn.as_ref()?.state {
        TurnState::Active { claim, phase } if claim.run_id == run_id => Some(*phase),
        _ => None,
    }
}

/// Makes the newest root Turn terminal: its Items end, then the Turn's event, then the Session's, in one commit (S-SEQ-4, I12).
pub(crate) fn end(draft: &mut Draft<'_>, outcome: Outcome, now: Timestamp) {
    close_items_and_calls(draft, now);
    let Some(turn) = &mut draft.state.turn else {
        return;
    };
    let claim = turn.claim().copied();
    turn.state = TurnState::Ended {
        claim,
        outcome,
        at: now,
    };
    let turn = turn.snapshot();
    draft.state.session.usage = draft.state.session.usage.with_turn(turn.usage);
    draft.touch(now);
    let event = match outcome {
        Outcome::Completed => TurnEvent::Completed,
        Outcome::Failed { .. } => TurnEvent::Failed,
        Outcome::Cancelled => TurnEvent::Cancelled,
    };
    draft.event(EventPayload::Turn { event, turn });
    draft.announce(Cause::TurnEnded { turn_id: turn.id });
    draft.wake();
}

/// Items in progress become `incomplete` with their partial content (S-CAN-5); unanswered calls are closed and answered ones
/// kept (1.5).
fn close_items_and_calls(draft: &mut Draft<'_>, now: Timestamp) {
    for event in projection::close_open_items(&mut draft.state, now) {
        draft.event(event);
    }
    let Some(turn_id) = draft.state.turn.as_ref().map(|turn| turn.id) else {
        return;
    };
    for call in draft
        .state
        .calls
        .iter_mut()
        .filter(|call| call.turn_id == turn_id)
    {
        match &call.state {
            CallState::Pending => call.state = CallState::Closed,
            CallState::Answered(answer) => call.state = CallState::Kept(answer.clone()),
            CallState::Applied(_) | CallState::Closed | CallState::Kept(_) => {}
        }
    }
}
