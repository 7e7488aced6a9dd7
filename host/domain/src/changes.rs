//! What a decision changes: rows, events, hints. `store` applies them in one transaction and numbers the events.

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::artifact::Artifact;
use crate::binding::{Binding, Device};
use crate::call::Call;
use crate::environment::Environment;
use crate::event::EventPayload;
use crate::id::Ids;
use crate::input::{Input, Receipt};
use crate::item::Item;
use crate::reservation::Reservation;
use crate::session::Session;
use crate::turn::Turn;
use crate::{AllocationId, ConnectionId, EnvironmentId, SessionId, Timestamp};

/// What a decision may draw on besides its state: the database clock of the transaction, and fresh ids.
///
/// A decision that is run again (a retried transaction) draws new ids; the ones of the rolled back attempt are lost.
pub struct Context<'a> {
    /// Database time of the transaction (SC-11.1).
    pub now: Timestamp,
    /// Source of new ids.
    pub ids: &'a mut dyn Ids,
}

/// The effect of one decision. Empty for no-ops and inert input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Rows, in the order of writing.
    pub writes: Vec<Write>,
    /// Events of the Session, in order; numbered and given ids when applied (D29).
    pub events: Vec<EventPayload>,
    /// Wake-ups after the commit. Best effort: losing all of them costs one scan period (SC-3.3).
    pub hints: Vec<Hint>,
}

impl Changes {
    /// Changes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.events.is_empty()
    }
}

/// A decision with an answer for its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided<A> {
    /// What the caller learns.
    pub answer: A,
    /// What is written.
    pub changes: Changes,
}

impl<A> Decided<A> {
    /// An answer that changes nothing.
    pub fn unchanged(answer: A) -> Self {
        Self {
            answer,
            changes: Changes::default(),
        }
    }
}

/// One row to write. `Put` inserts the whole row or replaces it by its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// A Session; identity `id`.
    PutSession(Session),
    /// An Environment; identity `id`, at most one per Session.
    PutEnvironment(Environment),
    /// A reservation; identity `id`, at most one pending per Session (I1).
    PutReservation(Reservation),
    /// A root Turn; identity `id`, at most one per Session that is not terminal (I1).
    PutTurn(Turn),
    /// A message of a Turn; identity `id`.
    PutInput(Input),
    /// An Item; identity `id`.
    PutItem(Item),
    /// A function call; identity (`turn_id`, `call_id`).
    PutCall(Call),
    /// A receipt, never replaced; (Session, key) is unique where there is a key (I16).
    AddReceipt(Receipt),
    /// A device; identity `id`.
    PutDevice(Device),
    /// A binding; identity `id`, at most one per Session.
    PutBinding(Binding),
    /// An allocation; identity `id`, at most one per Environment (I22).
    PutAllocation(Allocation),
    /// An Artifact; identity `id`.
    PutArtifact(Artifact),
    /// Removes everything of a deleted Session but its tombstone, retry identity and settlement rows.
    PurgeSession(SessionId),
}

/// Something worth looking at after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    /// The Session's actor has work or news: reservation, Turn, input, result, cancel.
    Session(SessionId),
    /// A new Session has a Turn and no actor yet: nothing to look at while all places of execution are taken.
    Queued(SessionId),
    /// A request waits for this Session's reservation, and it was settled.
    Settled(SessionId),
    /// The Environment may be initialized.
    Initialize(EnvironmentId),
    /// A hosted Environment needs an allocation.
    Provision(EnvironmentId),
    /// An allocation has something to do.
    Allocation(AllocationId),
    /// A binding's release waits for its device.
    Release(SessionId),
    /// The socket lost its authority.
    CloseConnection {
        /// The socket.
        connection_id: ConnectionId,
    },
}
