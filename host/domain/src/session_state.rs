//! The aggregate that a unit loads under the Session's lock: everything a decision about one Session may depend on.

use crate::ItemId;
use crate::allocation::Allocation;
use crate::binding::{Binding, Device};
use crate::call::Call;
use crate::environment::Environment;
use crate::input::{Input, Receipt};
use crate::item::Item;
use crate::reservation::Reservation;
use crate::session::Session;
use crate::turn::Turn;

/// State of one Session. "Newest" is by `work_seq`.
///
/// Parts that a unit does not need may be left empty where their comment says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionState {
    /// The Session, deleted ones included.
    pub session: Session,
    /// Its Environment.
    pub environment: Option<Environment>,
    /// The newest reservation, whatever its state.
    pub reservation: Option<Reservation>,
    /// The newest root Turn, whatever its state.
    pub turn: Option<Turn>,
    /// Messages of that Turn by position. Needed by: admission of messages, claim, confirmation, end of a Turn.
    pub inputs: Vec<Input>,
    /// Calls `pending` or `answered` of that Turn, and the calls named by the command (any Turn), by position.
    pub calls: Vec<Call>,
    /// Items of that Turn in progress, and those whose keys the command's run events name. Needed by: run events, results,
    /// end of a Turn.
    pub items: Vec<Item>,
    /// Text streamed so far of the Items in progress (joined delta events). Needed by: end of a Turn.
    pub partial: Vec<PartialText>,
    /// What the command's idempotency key named before. Needed by: admission with a key.
    pub retry: Option<Retry>,
    /// An Environment file write that is not settled. Needed by: admission, recording of a write.
    pub file_write: Option<OpenFileWrite>,
    /// The device that serves the Session.
    pub binding: Option<Binding>,
    /// The device of that binding. Needed by: release of a hosted Session.
    pub device: Option<Device>,
    /// Compute of a hosted Session.
    pub allocation: Option<Allocation>,
}

/// Streamed text of one part of an Item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialText {
    /// The Item.
    pub item_id: ItemId,
    /// Content or summary index.
    pub index: u32,
    /// Joined deltas.
    pub text: String,
}

/// What an idempotency key named before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The receipt.
    pub receipt: Receipt,
    /// The reservation that it targets, if it does.
    pub reservation: Option<Reservation>,
}

/// A file write that blocks messages and other writes (FIL-101).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFileWrite {
    /// Recorded under the current lease epoch: its bytes may be on the way.
    InFlight,
    /// Its outcome is unknown; blocks for ever (W5).
    Unsettled,
}

impl SessionState {
    /// A state of only a Session.
    pub fn of(session: Session) -> Self {
        Self {
            session,
            environment: None,
            reservation: None,
            turn: None,
            inputs: Vec::new(),
            calls: Vec::new(),
            items: Vec::new(),
            partial: Vec::new(),
            retry: None,
            file_write: None,
            binding: None,
            device: None,
            allocation: None,
        }
    }

    /// The newest root Turn if it is not terminal.
    pub fn live_turn(&self) -> Option<&Turn> {
        self.turn.as_ref().filter(|turn| turn.is_live())
    }

    /// The newest reservation if it is pending.
    pub fn pending_reservation(&self) -> Option<&Reservation> {
        self.reservation
            .as_ref()
            .filter(|reservation| reservation.is_pending())
    }
}
