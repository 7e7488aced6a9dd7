//! Public events as stored: typed and versioned; `core::api` renders them (sessions.md 7.2).
//!
//! An event is immutable. The store numbers it within its Session and gives it a random id (D29).

use serde::{Deserialize, Serialize};

use crate::environment::EnvironmentKind;
use crate::item::Item;

use crate::metadata::Metadata;
use crate::session::Projection;
use crate::turn::TurnSnapshot;
use crate::{EnvironmentId, ItemId, ReservationId, TurnId};

/// Version of [`EventPayload`]'s stored form.
pub const EVENT_VERSION: u16 = 1;

/// One public event without its number, id and Session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum EventPayload {
    /// `agent.session.*`
    Session {
        /// Which one.
        event: SessionEvent,
        /// Why it was written; streams end by it (1.1).
        cause: Cause,
        /// The projection of this commit (S-ST-5).
        snapshot: Projection,
        /// Metadata of this commit.
        metadata: Metadata,
    },
    /// `agent.session.turn.*`
    Turn {
        /// Which one.
        event: TurnEvent,
        /// The Turn of this commit.
        turn: TurnSnapshot,
    },
    /// `agent.session.turn.item.added`
    ItemAdded {
        /// The Item as it begins; `output_index` is its own.
        item: Item,
    },
    /// `agent.session.turn.item.done`; output Items only.
    ItemDone {
        /// The whole Item.
        item: Item,
    },
    /// `agent.session.turn.content_part.added`, with text `""`.
    ContentPartAdded {
        /// Whose part.
        at: PartAt,
    },
    /// `agent.session.turn.output_text.delta`
    TextDelta {
        /// Where it belongs.
        at: PartAt,
        /// The piece.
        delta: String,
    },
    /// `agent.session.turn.output_text.done`; replaces the deltas (S-SEQ-2).
    TextDone {
        /// Where it belongs.
        at: PartAt,
        /// Whole text.
        text: String,
    },
    /// `agent.session.turn.content_part.done`
    ContentPartDone {
        /// Whose part.
        at: PartAt,
        /// Whole text.
        text: String,
    },
    /// `agent.session.turn.reasoning_summary_part.added`
    SummaryPartAdded {
        /// Whose part.
        at: PartAt,
    },
    /// `agent.session.turn.reasoning_summary_text.delta`
    SummaryDelta {
        /// Where it belongs.
        at: PartAt,
        /// The piece.
        delta: String,
    },
    /// `agent.session.turn.reasoning_summary_text.done`
    SummaryDone {
        /// Where it belongs.
        at: PartAt,
        /// Whole text.
        text: String,
    },
    /// `agent.session.turn.reasoning_summary_part.done`
    SummaryPartDone {
        /// Whose part.
        at: PartAt,
        /// Whole text.
        text: String,
        /// The part was cut off (`status: "incomplete"`).
        incomplete: bool,
    },
    /// `agent.output.command_execution_output.delta`; best effort (S-SEQ-9).
    CommandDelta {
        /// Where it belongs; the index is not public.
        at: PartAt,
        /// The piece.
        delta: String,
    },
    /// `agent.session.environment.*`
    Environment {
        /// Which one.
        event: EnvironmentEvent,
        /// The Environment.
        environment_id: EnvironmentId,
        /// Its type.
        environment_kind: EnvironmentKind,
        /// The root Turn that was not terminal, if any (ENV-033).
        turn_id: Option<TurnId>,
    },
    /// `error`
    Error {
        /// What failed.
        error: ErrorEvent,
    },
}

/// `agent.session.<this>`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEvent {
    /// The first event of a Session.
    Created,
    /// Status became, or is again, `in_progress`.
    InProgress,
    /// The client must act.
    RequiresAction,
    /// Nothing to do.
    Idle,
    /// Failed.
    Failed,
}

/// Why a Session event was written. Streams end by cause, not by type (state-machines 1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case", deny_unknown_fields)]
pub enum Cause {
    /// The Session was created.
    Created,
    /// This commit ended a root Turn (D38).
    TurnEnded {
        /// The Turn.
        turn_id: TurnId,
    },
    /// This commit settled a reservation without a Turn (D3).
    ReservationSettled {
        /// The reservation.
        reservation_id: ReservationId,
    },
    /// Provisioning or initialization failed: ends live streams too (D35).
    InitFailed,
    /// Any other change of the projection.
    Other,
}

/// `agent.session.turn.<this>`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEvent {
    /// Exists, shown `queued` (S-SEQ-1).
    Created,
    /// Claimed, or resumed after a function result.
    InProgress,
    /// Ended well.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

/// A place inside an output Item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartAt {
    /// The Turn.
    pub turn_id: TurnId,
    /// The Item.
    pub item_id: ItemId,
    /// Its output index.
    pub output_index: u32,
    /// Content or summary index.
    pub index: u32,
}

/// `agent.session.environment.<this>` (ENV-031); never a resource status (ENV-032).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentEvent {
    /// Created.
    Pending,
    /// Initialization is complete.
    Ready,
    /// Connected.
    Connected,
    /// Connection lost.
    Disconnected,
    /// Failed; carries the fixed `environment_connection_failed` error (S-SEQ-7).
    Failed,
}

/// The `error` event; everything else about it is fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case", deny_unknown_fields)]
pub enum ErrorEvent {
    /// `sandbox_error` with the fixed reason (S-SEQ-7).
    Sandbox {
        /// Why the Environment failed.
        reason: crate::environment::FailureReason,
    },
}

impl EventPayload {
    /// The Item whose streamed text this event carries a piece of; such events may be trimmed after the Item's end (SC-11.6)
    /// and give the partial text of an Item that was cut off.
    pub fn delta_of(&self) -> Option<(PartAt, &str)> {
        match self {
            Self::TextDelta { at, delta }
            | Self::SummaryDelta { at, delta }
            | Self::CommandDelta { at, delta } => Some((*at, delta)),
            _ => None,
        }
    }

    /// The public `type`.
    pub fn public_type(&self) -> &'static str {
        match self {
            Self::Session { event, .. } => match event {
                SessionEvent::Created => "agent.session.created",
                SessionEvent::InProgress => "agent.session.in_progress",
                SessionEvent::RequiresAction => "agent.session.requires_action",
                SessionEvent::Idle => "agent.session.idle",
                SessionEvent::Failed => "agent.session.failed",
            },
            Self::Turn { event, .. } => match event {
                TurnEvent::Created => "agent.session.turn.created",
                TurnEvent::InProgress => "agent.session.turn.in_progress",
                TurnEvent::Completed => "agent.session.turn.completed",
                TurnEvent::Failed => "agent.session.turn.failed",
                TurnEvent::Cancelled => "agent.session.turn.cancelled",
            },
            Self::ItemAdded { .. } => "agent.session.turn.item.added",
            Self::ItemDone { .. } => "agent.session.turn.item.done",
            Self::ContentPartAdded { .. } => "agent.session.turn.content_part.added",
            Self::TextDelta { .. } => "agent.session.turn.output_text.delta",
            Self::TextDone { .. } => "agent.session.turn.output_text.done",
            Self::ContentPartDone { .. } => "agent.session.turn.content_part.done",
            Self::SummaryPartAdded { .. } => "agent.session.turn.reasoning_summary_part.added",
            Self::SummaryDelta { .. } => "agent.session.turn.reasoning_summary_text.delta",
            Self::SummaryDone { .. } => "agent.session.turn.reasoning_summary_text.done",
            Self::SummaryPartDone { .. } => "agent.session.turn.reasoning_summary_part.done",
            Self::CommandDelta { .. } => "agent.output.command_execution_output.delta",
            Self::Environment { event, .. } => match event {
                EnvironmentEvent::Pending => "agent.session.environment.pending",
                EnvironmentEvent::Ready => "agent.session.environment.ready",
                EnvironmentEvent::Connected => "agent.session.environment.connected",
                EnvironmentEvent::Disconnected => "agent.session.environment.disconnected",
                EnvironmentEvent::Failed => "agent.session.environment.failed",
            },
            Self::Error { .. } => "error",
        }
    }
}
