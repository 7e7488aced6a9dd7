//! What a Run reports while it lasts (RP-11.1).

use serde::{Deserialize, Serialize};

use super::failure::{Done, RunFailure, TurnStatus};
use super::item::{Item, ItemEnd};
use super::plugin::PluginIdentity;

/// Where an event belongs; late events keep the Turn that caused them (RP-11.8, TRN-011).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Origin {
    /// The root Turn of this Run.
    Root,
    /// A Turn of a Subagent (S-SUB-4).
    Child {
        /// Native id of the Subagent.
        agent: String,
        /// Native id of its Turn, unique for the Subagent.
        turn: String,
    },
    /// No Turn: start, listing, between Turns.
    Session,
}

/// What a piece of text continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// `output_text` of a message.
    Text,
    /// `summary_text` of reasoning; a new index starts a part.
    Summary,
    /// Output of a command.
    Output,
}

/// A piece of text of an Item that has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    /// The Item.
    pub key: String,
    /// What.
    pub kind: DeltaKind,
    /// Content or summary index from 0.
    pub index: u32,
    /// The piece, whole characters.
    pub text: String,
}

impl Delta {
    /// `later` continues this piece directly, so the two may travel as one (RP-11.11).
    pub fn continued_by(&self, later: &Delta) -> bool {
        self.key == later.key && self.kind == later.kind && self.index == later.index
    }
}

/// Usage of a Turn so far. Each snapshot replaces the former (RP-11.3); absent is unknown, never zero (TRN-012).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Of them cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Of them reasoning. Public usage is null unless every counter is known (S-USE-1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// A Subagent as the harness shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFacts {
    /// Native id, stable.
    pub agent: String,
    /// Native id of its parent; none = the root agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Name, if told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Instructions, if told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Native time in seconds since 1970, if told (S-SUB-5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_s: Option<u64>,
}

/// Life of a Subagent; repeats change nothing (S-SUB-6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum AgentChange {
    /// Seen for the first time, or open again.
    Active(AgentFacts),
    /// Closed by the harness; never inferred from a Turn's end.
    Closed(AgentFacts),
}

/// Life of a child Turn; the event's origin is `child`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum ChildProgress {
    /// It runs.
    Started,
    /// It ended.
    Ended(TurnStatus),
}

/// The native session that continues a Session's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeSession {
    /// The id to continue with.
    pub id: String,
    /// It can be resumed after a restart; false before the first Turn of some harnesses.
    pub durable: bool,
}

/// Something for the log: retries, warnings, a permission that was answered (TRN-013). Never public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    /// Fixed code such as `retrying` or `permission_denied`.
    pub code: String,
    /// At most 1 KiB.
    pub detail: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum EventBody {
    /// The native session.
    NativeSession(NativeSession),
    /// The plugin that serves this Run; once, when the harness has begun.
    Adapter(PluginIdentity),
    /// An Item appears.
    ItemStarted(Item),
    /// Text of it.
    Delta(Delta),
    /// It is final.
    ItemEnded(ItemEnd),
    /// Tokens of the Turn.
    Usage(Usage),
    /// A Subagent.
    Agent(AgentChange),
    /// A Turn of a Subagent.
    Child(ChildProgress),
    /// For the log.
    Notice(Notice),
    /// A native failure; always followed by `done` (RP-11.4).
    Error(RunFailure),
    /// The last event of the Run. Not success by itself, and it does not override a cancel receipt (RP-11.4).
    Done(Done),
}

/// One event of a Run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEvent {
    /// Where it belongs.
    pub origin: Origin,
    /// What happened.
    pub body: EventBody,
}

impl RunEvent {
    /// An event of the root Turn.
    pub fn root(body: EventBody) -> Self {
        Self {
            origin: Origin::Root,
            body,
        }
    }

    /// The Run's event stream ends with this event.
    pub fn is_last(&self) -> bool {
        matches!(self.body, EventBody::Done(_))
    }
}
