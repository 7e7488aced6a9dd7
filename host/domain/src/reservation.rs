//! Reservations of input that cannot start yet (state-machines 1.4, SC-6).

use serde::{Deserialize, Serialize};

use crate::item::UserMessage;
use crate::session::WorkSeq;
use crate::{BatchId, ReservationId, SessionId, Timestamp, TurnId};

/// One stored batch of messages before any Turn exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// Identity.
    pub id: ReservationId,
    /// Its Session.
    pub session_id: SessionId,
    /// Order among Turns and reservations.
    pub work_seq: WorkSeq,
    /// The batch.
    pub batch_id: BatchId,
    /// Its messages in order.
    pub messages: Vec<UserMessage>,
    /// Made by the creation of the Session.
    pub initial: bool,
    /// Creation.
    pub created_at: Timestamp,
    /// Database time after which it cannot be promoted (S-RES-2).
    pub deadline: Timestamp,
    /// Where it stands.
    pub state: ReservationState,
    /// When it was settled.
    pub settled_at: Option<Timestamp>,
}

/// State of a reservation; all but `Pending` are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ReservationState {
    /// Waits for its Environment.
    Pending,
    /// Became a Turn.
    Admitted {
        /// The Turn.
        turn_id: TurnId,
    },
    /// The deadline passed.
    Expired,
    /// An administrator ended it.
    Cancelled,
    /// It cannot be started.
    Failed {
        /// Why.
        reason: ReservationFailure,
    },
}

/// Why a reservation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationFailure {
    /// The Environment failed or ended.
    Environment,
    /// The Runtime refused the preparation for good (`runtime_preparation_failed`).
    Preparation,
}

impl Reservation {
    /// Not settled.
    pub fn is_pending(&self) -> bool {
        self.state == ReservationState::Pending
    }
}

mod promote;
mod settle;

pub use promote::{Promote, Promotion, PromotionRefused, promote};
pub use settle::{Waiting, answer, expire, fail};
pub(crate) use settle::{reserve, settle, settle_silently};

#[cfg(test)]
mod tests;
