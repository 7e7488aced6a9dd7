//! `ExpireReservation`, `FailReservation`, `Promote`: the ends of a reservation.

use domain::{
    Context, Decided, Refusal, ReservationId, SessionId, SessionState,
    reservation::{self, Promotion},
};

use super::{SessionUnit, decide_and_apply};
use crate::{
    error::UnitError,
    load::{Parts, load},
    tx::Tx,
    unit::Unit,
};

/// Expires one due reservation; the deadline is judged under the Session lock (SC-6.6).
#[derive(Debug, Clone, Copy)]
pub struct ExpireReservation {
    /// Its Session.
    pub session: SessionId,
    /// The reservation that the scan found due.
    pub reservation: ReservationId,
}

/// Answer of [`ExpireReservation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// It is expired now.
    Now,
    /// It was settled meanwhile, or is not due.
    NotDue,
    /// Somebody holds the Session lock; the next tick tries again (SC-3.1).
    Locked,
}

impl Unit for ExpireReservation {
    const NAME: &'static str = "ExpireReservation";
    const LEASED: bool = true;
    type Answer = Expired;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Expired, UnitError<Refusal>> {
        if !tx.try_lock_session(self.session).await? {
            return Ok(Expired::Locked);
        }
        let parts = Parts {
            calls: true,
            ..Parts::default()
        };
        let Some((state, _)) = load(tx.conn, self.session, &parts).await? else {
            return Ok(Expired::NotDue);
        };
        let (done, _) = decide_and_apply(tx, self.session, |cx| {
            reservation::expire(&state, self.reservation, cx)
        })
        .await?;
        Ok(if done { Expired::Now } else { Expired::NotDue })
    }
}

/// Settles a reservation whose preparation failed for good (R5). The answer tells whether it did.
#[derive(Debug, Clone, Copy)]
pub struct FailReservation {
    /// Its Session.
    pub session: SessionId,
    /// The reservation.
    pub reservation: ReservationId,
}

impl SessionUnit for FailReservation {
    const NAME: &'static str = "FailReservation";
    const LEASED: bool = true;
    type Answer = bool;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts {
            calls: true,
            ..Parts::default()
        }
    }

    fn decide(&self, state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
        reservation::fail(state, self.reservation, cx)
    }
}

/// Turns a reservation into a claimed Turn (SC-6.3). Only the answer [`Promotion::Claimed`] of a known commit gives the
/// right to one Start (ENV-216).
#[derive(Debug, Clone, Copy)]
pub struct Promote {
    /// Its Session.
    pub session: SessionId,
    /// The prepared claim. Its epoch is replaced by the one under which the unit commits (I21).
    pub promote: reservation::Promote,
}

impl Unit for Promote {
    const NAME: &'static str = "Promote";
    const LEASED: bool = true;
    type Answer = Promotion;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Promotion, UnitError<Refusal>> {
        let parts = Parts {
            binding: true,
            calls: true,
            ..Parts::default()
        };
        let state = super::locked(tx, self.session, None, &parts).await?;
        let mut promote = self.promote;
        promote.claim.owner_epoch = tx.epoch()?;
        let (answer, _) = decide_and_apply(tx, self.session, |cx| {
            reservation::promote(&state, promote, cx)
        })
        .await?;
        Ok(answer)
    }
}
