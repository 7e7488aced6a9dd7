//! The ends of a Turn (T14–T23): by its Run, by its capture, by loss, by recovery.

use super::{Outcome, RunPhase, TurnFailure, TurnState};
use crate::artifact::{self, Captured};
use crate::call::CallState;
use crate::changes::{Context, Decided, Hint, Write};
use crate::draft::Draft;
use crate::environment::{Environment, EnvironmentStatus};
use crate::event::{Cause, EventPayload, TurnEvent};
use crate::input::Delivery;
use crate::{Refusal, RunId, SessionState, Timestamp, projection};

/// What is proposed for a Turn whose Run is over or lost. The decision is made under the Session lock: an unapplied input or
/// a requested cancel may change it (SC-7.6, D14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The Run ended without an error; or, while capturing, every output is staged and verified (T14, T16, T20).
    Completed,
    /// The cancel is confirmed (T19); while capturing: the copy was dropped (T18).
    Cancelled,
    /// A cancel came before the Start, or the Start was refused to it: nothing native ever ran (T21).
    NeverBegan,
    /// It cannot be called anything better (T17, T22).
    Failed(TurnFailure),
}

impl Ending {
    /// Certainly no native work began: the Start was not sent, or refused.
    fn never_began(self) -> bool {
        matches!(
            self,
            Self::NeverBegan
                | Self::Failed(
                    TurnFailure::PreparationStartFailed | TurnFailure::DeviceDisconnected
                )
        )
    }
}

/// Answer of [`settle`] and [`finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The Turn is over.
    Ended(Outcome),
    /// Outputs are to be captured; [`finish`] ends the Turn (T15, SC-7.8).
    Capture,
    /// Terminal Turn or other Run: nothing happened.
    Inert,
}

/// The native Run ended without an error (T14, T15, T20, T22). Asked again, because its commit was not known, it answers the
/// same and changes nothing.
///
/// # Errors
/// Only E500-01.
pub fn settle(
    state: &SessionState,
    run_id: RunId,
    cx: &mut Context<'_>,
) -> Result<Decided<Settled>, Refusal> {
    match phase_of(state, run_id) {
        Some(RunPhase::Running | RunPhase::Waiting) => {
            finish(state, run_id, Ending::Completed, Captured::default(), cx)
        }
        Some(RunPhase::Capturing { .. }) => Ok(Decided::unchanged(Settled::Capture)),
        None => Ok(Decided::unchanged(Settled::Inert)),
    }
}

/// Ends a claimed Turn (T14–T22). What was captured is published in the same transaction, or not at all (SC-7.7, ART-010).
///
/// # Errors
/// Only E500-01.
pub fn finish(
    state: &SessionState,
    run_id: RunId,
    ending: Ending,
    captured: Captured,
    cx: &mut Context<'_>,
) -> Result<Decided<Settled>, Refusal> {
    let cancelled = state
        .turn
        .as_ref()
        .is_some_and(|turn| turn.cancel.is_some());
    let judgement = match phase_of(state, run_id) {
        None => return Ok(Decided::unchanged(Settled::Inert)),
        Some(RunPhase::Capturing { .. }) => Some(of_capture(ending, cancelled)),
        Some(RunPhase::Running | RunPhase::Waiting) => of_run(state, ending, cancelled),
    };
    let mut draft = Draft::of(state);
    let Some(outcome) = judgement else {
        begin_capture(&mut draft, cx.now);
        return Ok(draft.decide(Settled::Capture));
    };
    if outcome == Outcome::Completed {
        for artifact in artifact::publish(state, captured, cx) {
            draft.write(Write::PutArtifact(artifact));
        }
    }
    if let Some(turn) = &mut draft.state.turn {
        turn.never_began = ending.never_began() && turn.run_seq == 0;
    }
    super::end(&mut draft, outcome, cx.now);
    Ok(draft.decide(Settled::Ended(outcome)))
}

/// T16–T18: with a cancel nothing is published (ART-004).
fn of_capture(ending: Ending, cancelled: bool) -> Outcome {
    match ending {
        _ if cancelled => Outcome::Cancelled,
        Ending::Completed => Outcome::Completed,
        Ending::Cancelled | Ending::NeverBegan | Ending::Failed(_) => Outcome::Failed {
            cause: TurnFailure::ArtifactCaptureFailed,
        },
    }
}

/// The outcome of a Run; none = its outputs are to be captured first (T15).
fn of_run(state: &SessionState, ending: Ending, cancelled: bool) -> Option<Outcome> {
    let environment = state.environment.is_some();
    let failed = |cause| Some(Outcome::Failed { cause });
    match ending {
        Ending::Failed(cause) => failed(cause), // T22
        Ending::Cancelled | Ending::NeverBegan if cancelled => Some(Outcome::Cancelled), // T19, T21
        Ending::NeverBegan => failed(TurnFailure::PreparationStartFailed),
        Ending::Cancelled => failed(TurnFailure::EngineFailed { class: None }), // nobody asked for it
        // T20: with an Environment a requested cancel always prevents `completed` (D14).
        Ending::Completed if cancelled && environment => Some(Outcome::Cancelled),
        Ending::Completed => match unapplied(state) {
            Some(cause) => failed(cause),
            None if environment => None,      // T15
            None => Some(Outcome::Completed), // T14
        },
    }
}

fn begin_capture(draft: &mut Draft<'_>, now: Timestamp) {
    close_items_and_calls(draft, now);
    if let Some(turn) = &mut draft.state.turn
        && let TurnState::Active { phase, .. } = &mut turn.state
    {
        *phase = RunPhase::Capturing { settled_at: now };
    }
    draft.announce(Cause::Other);
    draft.wake();
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
    close_expired_connection(draft);
}

/// The socket of an ended Environment was kept for the receipt of this Turn's cancel (D42).
fn close_expired_connection(draft: &mut Draft<'_>) {
    let expired = |environment: &&Environment| environment.status == EnvironmentStatus::Expired;
    let environment = draft.state.environment.as_ref().filter(expired);
    if let Some(connection_id) =
        environment.and_then(|environment| environment.observation.connection_id)
    {
        draft.hint(Hint::CloseConnection { connection_id });
    }
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
