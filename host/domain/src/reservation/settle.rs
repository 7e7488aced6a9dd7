//! Making a reservation and settling it without a Turn (R1, R2, R4–R8, R10).

use super::{Reservation, ReservationFailure, ReservationState};
use crate::changes::{Context, Decided, Hint};
use crate::draft::Draft;
use crate::event::Cause;
use crate::item::UserMessage;
use crate::{BatchId, Refusal, ReservationId, SessionState, Timestamp, TurnId, time};

/// Stores a batch until its Environment is ready. The deadline is database time + 5 min and never restarts (S-RES-2).
pub(crate) fn reserve(
    draft: &mut Draft<'_>,
    batch_id: BatchId,
    messages: Vec<UserMessage>,
    initial: bool,
    cx: &mut Context<'_>,
) -> ReservationId {
    let id = ReservationId::draw(cx.ids);
    draft.touch(cx.now);
    draft.state.reservation = Some(Reservation {
        id,
        session_id: draft.state.session.id,
        work_seq: draft.next_work(),
        batch_id,
        messages,
        initial,
        created_at: cx.now,
        deadline: cx.now + time::RESERVATION_DEADLINE,
        state: ReservationState::Pending,
        settled_at: None,
    });
    id
}

/// Settles the pending reservation without a Turn; one Session event unless a root Turn is active (D3). No pending one: no-op.
pub(crate) fn settle(draft: &mut Draft<'_>, as_: ReservationState, now: Timestamp) {
    if settle_silently(draft, as_, now) {
        let reservation_id = draft
            .state
            .reservation
            .as_ref()
            .map(|reservation| reservation.id);
        if let Some(reservation_id) = reservation_id {
            draft.announce(Cause::ReservationSettled { reservation_id });
        }
    }
}

/// As [`settle`], for decisions that announce the Session themselves (R6).
pub(crate) fn settle_silently(
    draft: &mut Draft<'_>,
    as_: ReservationState,
    now: Timestamp,
) -> bool {
    let pending = draft
        .state
        .reservation
        .as_mut()
        .filter(|reservation| reservation.is_pending());
    let Some(reservation) = pending else {
        return false;
    };
    reservation.state = as_;
    reservation.settled_at = Some(now);
    draft.touch(now);
    draft.hint(Hint::Settled(draft.state.session.id));
    draft.wake();
    true
}

/// R4: the deadline passed, checked under the Session lock (ENV-221). Anything else is inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn expire(
    state: &SessionState,
    id: ReservationId,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let due = pending(state, id).is_some_and(|reservation| cx.now >= reservation.deadline);
    settle_if(state, due, ReservationState::Expired, cx)
}

/// R5: the Runtime refused the preparation for good (ENV-226…228). A settled reservation is left alone; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn fail(
    state: &SessionState,
    id: ReservationId,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let failed = ReservationState::Failed {
        reason: ReservationFailure::Preparation,
    };
    settle_if(state, pending(state, id).is_some(), failed, cx)
}

fn pending(state: &SessionState, id: ReservationId) -> Option<&Reservation> {
    state
        .pending_reservation()
        .filter(|reservation| reservation.id == id)
}

fn settle_if(
    state: &SessionState,
    condition: bool,
    as_: ReservationState,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    if !condition {
        return Ok(Decided::unchanged(false));
    }
    let mut draft = Draft::of(state);
    settle(&mut draft, as_, cx.now);
    Ok(draft.decide(true))
}

/// What a request learns that waits for a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Not settled: look again.
    Pending,
    /// 202.
    Admitted {
        /// The Turn.
        turn_id: TurnId,
    },
}

/// The answer for a reservation as it stands (R3–R8, R10). The same for the first request and for every retry of its key.
///
/// # Errors
/// E409-09, -10 or -11 by its settlement.
pub fn answer(reservation: &Reservation) -> Result<Waiting, Refusal> {
    match reservation.state {
        ReservationState::Pending => Ok(Waiting::Pending),
        ReservationState::Admitted { turn_id } => Ok(Waiting::Admitted { turn_id }),
        ReservationState::Expired => Err(Refusal::InputExpired),
        ReservationState::Cancelled => Err(Refusal::InputCancelled),
        ReservationState::Failed { .. } => Err(Refusal::EnvironmentUnavailable),
    }
}
