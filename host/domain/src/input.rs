//! Input: batches as parsed, their receipts, and the messages of a Turn on their way to the harness (state-machines 1.3).

use serde::{Deserialize, Serialize};

use crate::call::{CallId, FunctionResult};
use crate::item::UserMessage;
use crate::{
    BatchId, Digest, InputId, ItemId, ReceiptId, ReservationId, SessionId, Timestamp, TurnId,
};

/// One batch of events, parsed and checked for shape (G1). One kind per batch on every placement (D4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// 1–64 user messages.
    Messages(Vec<UserMessage>),
    /// Cancels; several mean the same as one.
    Cancel,
    /// Function results, in order.
    Results(Vec<ResultInput>),
}

/// One function result as submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultInput {
    /// The Turn the client names; none = text that is no Turn id (E400-22).
    pub turn_id: Option<TurnId>,
    /// The call.
    pub call_id: CallId,
    /// The result.
    pub result: FunctionResult,
    /// Identity of this result as sent, field presence included (S-FN-3).
    pub digest: Digest,
}

/// Kind of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchKind {
    /// Messages.
    Messages,
    /// Cancels.
    Cancel,
    /// Function results.
    Results,
}

/// Proof that a batch was admitted; written with the change and final: a retry never chooses again (ENV-188, W-IDEM-10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Identity.
    pub id: ReceiptId,
    /// Its Session.
    pub session_id: SessionId,
    /// The batch.
    pub batch_id: BatchId,
    /// `Idempotency-Key`, if one was sent; unique in the Session.
    pub key: Option<String>,
    /// Identity of the whole ordered batch as sent (W-IDEM-9).
    pub digest: Digest,
    /// Kind.
    pub kind: BatchKind,
    /// Where it went.
    pub target: ReceiptTarget,
    /// Admission.
    pub at: Timestamp,
}

/// What a batch was admitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "target", content = "id")]
pub enum ReceiptTarget {
    /// A Turn.
    Turn(TurnId),
    /// A reservation.
    Reservation(ReservationId),
    /// Nothing: a cancel while idle.
    None,
}

/// One message of a Turn on its way to the Run. Its content is the user Item's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Identity of its one delivery.
    pub id: InputId,
    /// Its Turn.
    pub turn_id: TurnId,
    /// Order in the Turn, from 0; order of admission = order of Items = order of delivery (I10).
    pub position: u32,
    /// The user Item.
    pub item_id: ItemId,
    /// The batch it came with.
    pub batch_id: BatchId,
    /// How far it got.
    pub delivery: Delivery,
}

/// Delivery of a message. Only `Started` and `Accepted` let a Turn complete (SC-7.6, RP-12.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Admitted before the claim of a `queued` Turn, or waits for its turn while the Run works.
    Stored,
    /// Part of `execution_start` (fixed by the commit of the claim, D6).
    Started,
    /// Sent to the Run; never sent again (RP-12.4).
    Sent,
    /// Written to the harness; proves nothing (RP-12.3).
    Written,
    /// The harness took it.
    Accepted,
    /// The harness refused it.
    Rejected,
    /// No receipt came.
    Unknown,
}

impl Delivery {
    /// The harness has this message for certain.
    pub fn is_applied(self) -> bool {
        matches!(self, Self::Started | Self::Accepted)
    }
}

mod admit;

pub use admit::{Admission, Admit, ContentRules, admit};

#[cfg(test)]
mod tests;
