//! What one read of the store and of the live registry says about a Session.

use crate::{ConnectionId, DeliveryId, DeviceId, InputId, ReservationId, RunId, SessionId, TurnId};

/// The facts of one Session that dispatch needs, read in one database snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkView {
    /// The Session.
    pub session: SessionId,
    /// It was deleted: waiting work is never claimed any more (SC-10.3).
    pub deleted: bool,
    /// The device it is bound to; `none` Sessions have none before their first use (SC-13.2).
    pub device: Option<DeviceId>,
    /// Initialization is complete, or there is no Environment (X4, SC-7.1).
    pub initialized: bool,
    /// Input that waits for a Run.
    pub waiting: Option<Waiting>,
    /// The claimed root Turn that is not terminal.
    pub claimed: Option<Claimed>,
}

/// Work that has no Run yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// A pending reservation of a Session with an Environment.
    Reservation(ReservationId),
    /// A queued Turn of a Session without one.
    Turn(TurnId),
}

/// A root Turn that a Run was claimed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The Turn.
    pub turn: TurnId,
    /// Its only Run.
    pub run: RunId,
    /// A cancel is requested.
    pub cancel: bool,
    /// Stored deliveries that were never handed to the Runtime, in admitted order (RP-12.1, RP-14.1).
    pub undelivered: Vec<Delivery>,
}

/// One stored thing that the Runtime has to get once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// A message that joined the Turn.
    Message(InputId),
    /// The result of a function call.
    Result(DeliveryId),
}

/// The live connection of the Session's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerView {
    /// Its identity; another one means that everything asked of the former is void (SC-7.2).
    pub connection: ConnectionId,
    /// This socket has bound the Session (RP-8.1).
    pub bound: bool,
    /// Whether the declaration of the needed harness allows the work (SC-7.9).
    pub fit: Fit,
}

/// Answer of the capability check (RP-7.3, RP-7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Every needed ability is declared and the harness is available.
    Fits,
    /// Something is missing, or nothing was declared so far: the work waits.
    Lacks,
}
