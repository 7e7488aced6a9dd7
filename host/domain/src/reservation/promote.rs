//! Promotion: one transaction turns a reservation into a claimed Turn (R3, T2, SC-6.3, ENV-214).

use super::ReservationState;
use crate::changes::{Context, Decided};
use crate::draft::Draft;
use crate::environment::{ConnectionState, Initialization};
use crate::event::TurnEvent;
use crate::turn::{self, Claim, RunPhase, TurnState};
use crate::{Refusal, ReservationId, SessionState, TurnId};

/// The leased actor holds a native preparation in `ready` and asks for the right to start it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promote {
    /// The reservation it prepared for.
    pub reservation_id: ReservationId,
    /// The claim to write: a fresh Run, the lease epoch, and the binding and device that prepared.
    pub claim: Claim,
    /// Connection generation of the socket that prepared.
    pub generation: u64,
}

/// Answer of a promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promotion {
    /// Done by this call: the only answer that lets the caller send one `execution_start` (ENV-216).
    Claimed {
        /// The new Turn.
        turn_id: TurnId,
    },
    /// Was done before: the original receipt without any right (ENV-217).
    Replay {
        /// Its Turn.
        turn_id: TurnId,
    },
    /// Not done; the admission is to be released (X11).
    Refused(PromotionRefused),
}

/// Why a promotion is refused. What changed between `ready` and the commit (D39).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromotionRefused {
    /// The Session is deleted or the reservation settled otherwise.
    Settled,
    /// The deadline passed; the tick will expire it (ENV-221).
    DeadlinePassed,
    /// The Environment ended, another socket serves it, or it was lost.
    ConnectionChanged,
    /// The binding is another one or being released.
    BindingChanged,
    /// The initialization is not complete (ENV-311).
    NotInitialized,
    /// A root Turn is not terminal: outputs are still captured.
    TurnActive,
}

/// Admits the reserved batch as a claimed Turn (T2).
///
/// # Errors
/// Only E500-01.
pub fn promote(
    state: &SessionState,
    promote: Promote,
    cx: &mut Context<'_>,
) -> Result<Decided<Promotion>, Refusal> {
    let Some(reservation) = state
        .reservation
        .as_ref()
        .filter(|row| row.id == promote.reservation_id)
    else {
        return Ok(Decided::unchanged(Promotion::Refused(
            PromotionRefused::Settled,
        )));
    };
    if let ReservationState::Admitted { turn_id } = reservation.state {
        return Ok(Decided::unchanged(Promotion::Replay { turn_id }));
    }
    if let Err(refused) = check(state, &promote, cx) {
        return Ok(Decided::unchanged(Promotion::Refused(refused)));
    }
    let (batch_id, messages) = (reservation.batch_id, reservation.messages.clone());
    let mut draft = Draft::of(state);
    let claimed = TurnState::Active {
        claim: promote.claim,
        phase: RunPhase::Running,
    };
    let items = turn::begin(&mut draft, batch_id, messages, claimed, cx);
    let turn_id = draft
        .state
        .turn
        .as_ref()
        .map(|turn| turn.id)
        .ok_or(Refusal::Impossible("a promotion without a Turn"))?;
    if let Some(reservation) = &mut draft.state.reservation {
        reservation.state = ReservationState::Admitted { turn_id };
        reservation.settled_at = Some(cx.now);
    }
    turn::announce_begin(&mut draft, items)?;
    draft.turn_event(TurnEvent::InProgress)?;
    draft.hint(crate::Hint::Settled(state.session.id));
    Ok(draft.decide(Promotion::Claimed { turn_id }))
}

fn check(
    state: &SessionState,
    promote: &Promote,
    cx: &Context<'_>,
) -> Result<(), PromotionRefused> {
    let reservation = state
        .pending_reservation()
        .ok_or(PromotionRefused::Settled)?;
    if state.session.deleted_at.is_some() {
        return Err(PromotionRefused::Settled);
    }
    if cx.now >= reservation.deadline {
        return Err(PromotionRefused::DeadlinePassed);
    }
    if state.live_turn().is_some() {
        return Err(PromotionRefused::TurnActive);
    }
    let environment = state
        .environment
        .as_ref()
        .ok_or(PromotionRefused::ConnectionChanged)?;
    let observation = environment.observation;
    let connected = observation.state == ConnectionState::Connected
        && observation.generation == promote.generation;
    if environment.status.is_terminal() || !connected {
        return Err(PromotionRefused::ConnectionChanged);
    }
    if !matches!(environment.initialization, Initialization::Complete { .. }) {
        return Err(PromotionRefused::NotInitialized);
    }
    if !turn::binding_allows(state, &promote.claim) {
        return Err(PromotionRefused::BindingChanged);
    }
    Ok(())
}
