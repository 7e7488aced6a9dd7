//! Neutral events: enough to project every public Item and event of sessions.md 6 and 7, and nothing of one harness.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::Extra;

/// Which child Turn something belongs to (S-SUB-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ChildTurn {
    /// Native id of the Subagent.
    pub agent: String,
    /// Native id of its Turn, or one the adapter makes; unique for the Subagent.
    pub turn: String,
}

/// Where an event belongs; late events keep the Turn that caused them (TRN-011).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Origin {
    /// The root Turn of this run.
    #[cfg_attr(feature = "component", component(name = "root"))]
    Root(String),
    /// A Turn of a Subagent.
    #[cfg_attr(feature = "component", component(name = "child"))]
    Child(ChildTurn),
    /// No Turn: start, listing, between Turns.
    #[cfg_attr(feature = "component", component(name = "session"))]
    Session,
}

/// Status of a finished Item (S-ITEM-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum ItemStatus {
    /// As intended.
    #[cfg_attr(feature = "component", component(name = "completed"))]
    Completed,
    /// The tool failed; the Turn goes on (S-ITEM-6).
    #[cfg_attr(feature = "component", component(name = "failed"))]
    Failed,
    /// Cut off: cancel, retry of the model stream, crash (S-CAN-5).
    #[cfg_attr(feature = "component", component(name = "incomplete"))]
    Incomplete,
}

#[cfg(target_arch = "wasm32")]
impl ItemStatus {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Completed,
            1 => Self::Failed,
            _ => Self::Incomplete,
        }
    }
}

/// Phase of an assistant message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum Phase {
    /// On the way.
    #[cfg_attr(feature = "component", component(name = "commentary"))]
    Commentary,
    /// The answer; also structured output (S-OUT-3).
    #[cfg_attr(feature = "component", component(name = "final-answer"))]
    FinalAnswer,
}

#[cfg(target_arch = "wasm32")]
impl Phase {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Commentary,
            _ => Self::FinalAnswer,
        }
    }
}

/// An assistant message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Message {
    /// Whole text; replaces the deltas (S-SEQ-2).
    pub text: String,
    /// Phase, if known.
    pub phase: Option<Phase>,
}

/// Reasoning: summaries only, raw reasoning is not reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Reasoning {
    /// Summary parts in order.
    pub summary: Vec<String>,
}

/// A shell command (MMX-018, CDX-014). Absent = unknown, never invented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct CommandRun {
    /// As the model gave it.
    pub command: String,
    /// Directory.
    pub cwd: Option<String>,
    /// Output, at most 1 MiB, authoritative over the deltas (S-SEQ-9).
    pub output: Option<String>,
    /// Exit code.
    #[cfg_attr(feature = "component", component(name = "exit-code"))]
    pub exit_code: Option<i32>,
    /// Duration as the harness measured it.
    #[cfg_attr(feature = "component", component(name = "duration-ms"))]
    pub duration_ms: Option<u32>,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum ChangeKind {
    /// Made.
    #[cfg_attr(feature = "component", component(name = "add"))]
    Add,
    /// Changed.
    #[cfg_attr(feature = "component", component(name = "update"))]
    Update,
    /// Removed.
    #[cfg_attr(feature = "component", component(name = "delete"))]
    Delete,
    /// Moved, perhaps changed too.
    #[cfg_attr(feature = "component", component(name = "move"))]
    Move,
}

#[cfg(target_arch = "wasm32")]
impl ChangeKind {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Add,
            1 => Self::Update,
            2 => Self::Delete,
            _ => Self::Move,
        }
    }
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct FileChange {
    /// Path as the harness gave it.
    pub path: String,
    /// New path of a move.
    #[cfg_attr(feature = "component", component(name = "moved-to"))]
    pub moved_to: Option<String>,
    /// Kind.
    pub kind: ChangeKind,
    /// Unified hunk of an update, whole content of an add or delete, if known.
    pub diff: Option<String>,
}

/// A call of a public function: pending from its start until it is finished (S-FN-2, S-SEQ-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct FunctionCall {
    /// Native call id, unique in the session.
    pub call: String,
    /// The declared name.
    pub name: String,
    /// Complete JSON text, unchanged.
    pub arguments: String,
}

/// A call of a tool of an MCP server (S-MCP-8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct McpCall {
    /// The declared label.
    pub label: String,
    /// The original tool name.
    pub name: String,
    /// JSON text.
    pub arguments: String,
    /// Native result as text or JSON.
    pub output: Option<String>,
    /// Native error text.
    pub error: Option<String>,
}

/// Looking for text in a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct PageSearch {
    /// Page.
    pub url: String,
    /// Text.
    pub pattern: String,
}

/// What a web search did (S-ITEM-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum WebAction {
    /// Query texts; the first is the main one.
    #[cfg_attr(feature = "component", component(name = "search"))]
    Search(Vec<String>),
    /// URL.
    #[cfg_attr(feature = "component", component(name = "open-page"))]
    OpenPage(String),
    /// Page and pattern.
    #[cfg_attr(feature = "component", component(name = "find-in-page"))]
    FindInPage(PageSearch),
    /// Not told.
    #[cfg_attr(feature = "component", component(name = "unspecified"))]
    Unspecified,
}

/// A part of what agents say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum AgentContent {
    /// Text.
    #[cfg_attr(feature = "component", component(name = "text"))]
    Text(String),
    /// Opaque to us.
    #[cfg_attr(feature = "component", component(name = "encrypted"))]
    Encrypted(String),
}

/// Making a Subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct SubagentCreate {
    /// Native id, once known.
    pub agent: Option<String>,
    /// Task.
    pub content: Vec<AgentContent>,
    /// Model, if told.
    pub model: Option<String>,
    /// Effort, if told.
    pub effort: Option<String>,
}

/// Something sent from agent to agent; none as sender = the root agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct AgentSend {
    /// Who.
    pub sender: Option<String>,
    /// To whom; none = the root agent.
    pub recipient: Option<String>,
    /// What.
    pub content: Vec<AgentContent>,
}

/// An order without content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct AgentOrder {
    /// Who; none = the root agent.
    pub sender: Option<String>,
    /// About whom; an unknown target is kept as given (S-SUB-6).
    pub recipient: String,
}

/// Waiting for several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct AgentWait {
    /// Who; none = the root agent.
    pub sender: Option<String>,
    /// For whom.
    pub recipients: Vec<String>,
}

/// A native tool that has no public Item: search, todo list, Skill loading (MMX-018). For logs and traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct NativeTool {
    /// Native name.
    pub name: String,
    /// JSON text, at most 64 KiB.
    pub input: Option<String>,
    /// Text, at most 64 KiB.
    pub output: Option<String>,
}

/// What an Item is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum ItemBody {
    /// `message`, role assistant.
    #[cfg_attr(feature = "component", component(name = "message"))]
    Message(Message),
    /// `reasoning`.
    #[cfg_attr(feature = "component", component(name = "reasoning"))]
    Reasoning(Reasoning),
    /// `command_execution`.
    #[cfg_attr(feature = "component", component(name = "command"))]
    Command(CommandRun),
    /// `function_call` named `apply_patch` (S-ITEM-5).
    #[cfg_attr(feature = "component", component(name = "file-changes"))]
    FileChanges(Vec<FileChange>),
    /// `function_call` of a declared function.
    #[cfg_attr(feature = "component", component(name = "function-call"))]
    FunctionCall(FunctionCall),
    /// `mcp_call`.
    #[cfg_attr(feature = "component", component(name = "mcp-call"))]
    McpCall(McpCall),
    /// `web_search_call`.
    #[cfg_attr(feature = "component", component(name = "web-search"))]
    WebSearch(WebAction),
    /// `create_subagent_call`.
    #[cfg_attr(feature = "component", component(name = "subagent-create"))]
    SubagentCreate(SubagentCreate),
    /// `send_subagent_input_call`.
    #[cfg_attr(feature = "component", component(name = "subagent-send"))]
    SubagentSend(AgentSend),
    /// `resume_subagent_call`.
    #[cfg_attr(feature = "component", component(name = "subagent-resume"))]
    SubagentResume(AgentOrder),
    /// `interrupt_subagent_call`.
    #[cfg_attr(feature = "component", component(name = "subagent-interrupt"))]
    SubagentInterrupt(AgentOrder),
    /// `close_subagent_call`.
    #[cfg_attr(feature = "component", component(name = "subagent-close"))]
    SubagentClose(AgentOrder),
    /// `wait_for_subagents_call`.
    #[cfg_attr(feature = "component", component(name = "subagent-wait"))]
    SubagentWait(AgentWait),
    /// `agent_message`.
    #[cfg_attr(feature = "component", component(name = "agent-message"))]
    AgentMessage(AgentSend),
    /// No public Item.
    #[cfg_attr(feature = "component", component(name = "native-tool"))]
    NativeTool(NativeTool),
    /// A later kind; kept for the log, not published.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// An Item as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Item {
    /// Native or made by the adapter; unique in its Turn; at most 256 bytes.
    pub key: String,
    /// Content.
    pub body: ItemBody,
}

/// The last word on an Item. One that never started is legal: the projection makes up the start (S-SEQ-3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ItemEnd {
    /// The whole Item.
    pub item: Item,
    /// How it ended.
    pub status: ItemStatus,
}

/// What a piece of text continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum DeltaKind {
    /// `output_text` of a message.
    #[cfg_attr(feature = "component", component(name = "text"))]
    Text,
    /// `summary_text` of reasoning; a new index starts a part.
    #[cfg_attr(feature = "component", component(name = "summary"))]
    Summary,
    /// Output of a command.
    #[cfg_attr(feature = "component", component(name = "output"))]
    Output,
}

#[cfg(target_arch = "wasm32")]
impl DeltaKind {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Text,
            1 => Self::Summary,
            _ => Self::Output,
        }
    }
}

/// A piece of text of an Item that has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
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

/// Usage of a Turn so far; each snapshot replaces the former (RP-11.3). Sent only if complete: absent is unknown (TRN-012).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u32,
    /// Of them cached; none = not told.
    pub cached: Option<u32>,
    /// Output tokens, reasoning included.
    pub output: u32,
    /// Of them reasoning; none = not told. Public usage is null unless every counter is known (S-USE-1).
    pub reasoning: Option<u32>,
    /// Total; none = not told.
    pub total: Option<u32>,
}

/// A Subagent as the harness shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct AgentFacts {
    /// Native id, stable.
    pub agent: String,
    /// Native id of its parent; none = the root agent.
    pub parent: Option<String>,
    /// Name, if told.
    pub name: Option<String>,
    /// Instructions, if told.
    pub instructions: Option<String>,
    /// Native time in seconds since 1970, if told (S-SUB-5).
    #[cfg_attr(feature = "component", component(name = "at-s"))]
    pub at_s: Option<u32>,
}

/// Life of a Subagent; repeats change nothing (S-SUB-6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum AgentChange {
    /// Seen for the first time, or open again.
    #[cfg_attr(feature = "component", component(name = "active"))]
    Active(AgentFacts),
    /// Closed by the harness; never inferred from a Turn's end.
    #[cfg_attr(feature = "component", component(name = "closed"))]
    Closed(AgentFacts),
}

/// How a Turn ended natively.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum TurnStatus {
    /// Normally.
    #[cfg_attr(feature = "component", component(name = "completed"))]
    Completed,
    /// With an error.
    #[cfg_attr(feature = "component", component(name = "failed"))]
    Failed,
    /// By a cancel.
    #[cfg_attr(feature = "component", component(name = "cancelled"))]
    Cancelled,
    /// The adapter cannot tell; the host fails the Turn as `engine_failed`.
    #[cfg_attr(feature = "component", component(name = "unknown"))]
    Unknown,
}

#[cfg(target_arch = "wasm32")]
impl TurnStatus {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Completed,
            1 => Self::Failed,
            2 => Self::Cancelled,
            _ => Self::Unknown,
        }
    }
}

/// A classified native failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct NativeFailure {
    /// A code of RP-11.5, or none if unclassified.
    pub code: Option<String>,
    /// 100..599, only with `connection_failed`.
    #[cfg_attr(feature = "component", component(name = "http-status"))]
    pub http_status: Option<u16>,
    /// For the log only, at most 1 KiB; never public.
    pub detail: String,
}

/// Life of a child Turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum ChildProgress {
    /// It runs.
    #[cfg_attr(feature = "component", component(name = "started"))]
    Started,
    /// It ended.
    #[cfg_attr(feature = "component", component(name = "ended"))]
    Ended(TurnStatus),
}

/// The native session id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct NativeSession {
    /// The id to continue with.
    pub id: String,
    /// It can be resumed after a restart; false before the first Turn of some harnesses.
    pub durable: bool,
}

/// Something for the log: retries, warnings, a permission that was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Notice {
    /// Fixed code such as `retrying`, `warning`, `permission_allowed`, `permission_denied`, `unknown_frame`, `bad_line`.
    pub code: String,
    /// At most 1 KiB.
    pub detail: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum EventBody {
    /// An Item appears.
    #[cfg_attr(feature = "component", component(name = "item-started"))]
    ItemStarted(Item),
    /// Text of it.
    #[cfg_attr(feature = "component", component(name = "delta"))]
    Delta(Delta),
    /// It is final.
    #[cfg_attr(feature = "component", component(name = "item-ended"))]
    ItemEnded(ItemEnd),
    /// Tokens of the Turn.
    #[cfg_attr(feature = "component", component(name = "usage"))]
    Usage(Usage),
    /// A Subagent.
    #[cfg_attr(feature = "component", component(name = "agent"))]
    Agent(AgentChange),
    /// A Turn of a Subagent; origin is `child`.
    #[cfg_attr(feature = "component", component(name = "child"))]
    Child(ChildProgress),
    /// The native session.
    #[cfg_attr(feature = "component", component(name = "native-session"))]
    NativeSession(NativeSession),
    /// For the log.
    #[cfg_attr(feature = "component", component(name = "notice"))]
    Notice(Notice),
    /// A later kind; counted and logged.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Event {
    /// Where it belongs.
    pub origin: Origin,
    /// What happened.
    pub body: EventBody,
}
