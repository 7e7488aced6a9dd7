//! Items as a Run reports them (S-ITEM-4): the body, and how it ended.

use serde::{Deserialize, Serialize};

/// Status of a finished Item (S-ITEM-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// As intended.
    Completed,
    /// The tool failed; the Turn goes on (S-ITEM-6).
    Failed,
    /// Cut off: cancel, retry of the model stream, crash (S-CAN-5).
    Incomplete,
}

/// Phase of an assistant message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// On the way.
    Commentary,
    /// The answer; also structured output (S-OUT-3).
    FinalAnswer,
}

/// An assistant message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Whole text; replaces the deltas (S-SEQ-2).
    pub text: String,
    /// Phase, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
}

/// Reasoning: summaries only, raw reasoning is not reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasoning {
    /// Summary parts in order.
    pub summary: Vec<String>,
}

/// A shell command. Absent = unknown, never invented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRun {
    /// As the model gave it.
    pub command: String,
    /// Directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Output, at most 1 MiB (F05), authoritative over the deltas (S-SEQ-9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Duration in milliseconds as the harness measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Made.
    Add,
    /// Changed.
    Update,
    /// Removed.
    Delete,
    /// Moved, perhaps changed too.
    Move,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// Path as the harness gave it.
    pub path: String,
    /// New path of a move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// Kind.
    pub kind: ChangeKind,
    /// Unified hunk of an update, whole content of an add or delete, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// A call of a public function: pending from its start until it is finished (S-FN-2, S-SEQ-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub struct McpCall {
    /// The declared label.
    pub label: String,
    /// The original tool name.
    pub name: String,
    /// JSON text.
    pub arguments: String,
    /// Native result as text or JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Native error text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a web search did (S-ITEM-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum WebAction {
    /// Query texts; the first is the main one.
    Search(Vec<String>),
    /// URL.
    OpenPage(String),
    /// Looking for text in a page.
    FindInPage {
        /// Page.
        url: String,
        /// Text.
        pattern: String,
    },
    /// Not told.
    Unspecified,
}

/// A part of what agents say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum AgentContent {
    /// Text.
    Text(String),
    /// Opaque to us.
    Encrypted(String),
}

/// Making a Subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentCreate {
    /// Native id, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Task.
    pub content: Vec<AgentContent>,
    /// Model, if told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Effort, if told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

/// Something sent from agent to agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSend {
    /// Who; none = the root agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// To whom; none = the root agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient: Option<String>,
    /// What.
    pub content: Vec<AgentContent>,
}

/// An order without content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOrder {
    /// Who; none = the root agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// About whom; an unknown target is kept as given (S-SUB-6).
    pub recipient: String,
}

/// Waiting for several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentWait {
    /// Who; none = the root agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// For whom.
    pub recipients: Vec<String>,
}

/// A native tool that has no public Item: search, todo list, Skill loading. For logs and traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeTool {
    /// Native name.
    pub name: String,
    /// JSON text, at most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Text, at most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// What an Item is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum ItemBody {
    /// `message`, role assistant.
    Message(Message),
    /// `reasoning`.
    Reasoning(Reasoning),
    /// `command_execution`.
    Command(CommandRun),
    /// `function_call` named `apply_patch` (S-ITEM-5).
    FileChanges(Vec<FileChange>),
    /// `function_call` of a declared function.
    FunctionCall(FunctionCall),
    /// `mcp_call`.
    McpCall(McpCall),
    /// `web_search_call`.
    WebSearch(WebAction),
    /// `create_subagent_call`.
    SubagentCreate(SubagentCreate),
    /// `send_subagent_input_call`.
    SubagentSend(AgentSend),
    /// `resume_subagent_call`.
    SubagentResume(AgentOrder),
    /// `interrupt_subagent_call`.
    SubagentInterrupt(AgentOrder),
    /// `close_subagent_call`.
    SubagentClose(AgentOrder),
    /// `wait_for_subagents_call`.
    SubagentWait(AgentWait),
    /// `agent_message`.
    AgentMessage(AgentSend),
    /// No public Item.
    NativeTool(NativeTool),
}

/// An Item as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Native or made by the adapter; unique in its Turn; at most 256 bytes.
    pub key: String,
    /// Content.
    pub body: ItemBody,
}

/// The last word on an Item. One that never started is legal: the projection makes up the start (S-SEQ-3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemEnd {
    /// The whole Item.
    pub item: Item,
    /// How it ended.
    pub status: ItemStatus,
}
