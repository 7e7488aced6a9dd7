//! Items: the public history of a Session (sessions.md 6).
//!
//! An Item is started once, ended once, and immutable afterwards (I13). Text that streams in between lives in the delta
//! events; the end carries the whole Item.

use serde::{Deserialize, Serialize};

use crate::call::{CallId, ResultOutput};
use crate::run::Phase;
use crate::{ItemId, Timestamp, TurnId};

/// A part of what a client sends: messages and function results (S-MSG-1, S-FN-3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum InputPart {
    /// Text, never trimmed.
    InputText {
        /// The text.
        text: String,
    },
    /// An image as a data URL, exactly as sent.
    InputImage {
        /// The data URL.
        image_url: String,
    },
}

/// One user message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserMessage {
    /// Parts in order; boundaries and bytes are kept (S-MSG-2).
    pub content: Vec<InputPart>,
}

/// A stored Item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Identity.
    pub id: ItemId,
    /// Its root Turn.
    pub turn_id: TurnId,
    /// Position in the Session; Items are listed in it (S-ITEM-1).
    pub position: u64,
    /// Zero-based position among the Turn's output Items; none for input Items (S-ITEM-2).
    pub output_index: Option<u32>,
    /// The harness's key, unique in the Turn; none for input Items and results.
    pub key: Option<String>,
    /// Status; `in_progress` until it ended.
    pub status: ItemStatus,
    /// Content parts (or summary parts) announced so far while in progress.
    pub parts: u32,
    /// First observation.
    pub started_at: Timestamp,
    /// End, by receipt (S-DIA-4).
    pub completed_at: Option<Timestamp>,
    /// Content. Streamed text is not in it before the end.
    pub body: ItemBody,
}

impl Item {
    /// Has ended and never changes again.
    pub fn is_ended(&self) -> bool {
        self.status != ItemStatus::InProgress
    }
}

/// Status of an Item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Not finished.
    InProgress,
    /// As intended.
    Completed,
    /// The tool failed; the Turn goes on (S-ITEM-6).
    Failed,
    /// Cut off (S-CAN-5).
    Incomplete,
}

/// Content of an Item, one variant per public type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ItemBody {
    /// `message`, role `user`.
    UserMessage(UserMessage),
    /// `message`, role `assistant`.
    AssistantMessage {
        /// Its one `output_text` part; none = no part yet (`content: []`).
        text: Option<String>,
        /// Phase, if known.
        phase: Option<Phase>,
    },
    /// `reasoning`.
    Reasoning {
        /// Summary parts in order.
        summary: Vec<String>,
    },
    /// `function_call`; also a native file change under the name `apply_patch` (S-ITEM-5).
    FunctionCall {
        /// Native call id.
        call_id: CallId,
        /// Function name.
        name: String,
        /// Complete JSON text.
        arguments: String,
    },
    /// `function_call_output`.
    FunctionCallOutput {
        /// The call it answers.
        call_id: CallId,
        /// Output as submitted.
        output: Option<ResultOutput>,
        /// Error as submitted.
        error: Option<String>,
    },
    /// `mcp_call`, with the original names and the native result (S-MCP-8).
    McpCall {
        /// Declared label.
        server_label: String,
        /// Original tool name.
        name: String,
        /// JSON text.
        arguments: String,
        /// Native result.
        output: Option<String>,
        /// Native error.
        error: Option<String>,
    },
    /// `command_execution`.
    CommandExecution {
        /// As the model gave it.
        command: String,
        /// Directory.
        cwd: Option<String>,
        /// Output; authoritative over the deltas (S-SEQ-9).
        output: Option<String>,
        /// Exit code.
        exit_code: Option<i32>,
        /// Duration in milliseconds, as the harness measured it.
        duration_ms: Option<u64>,
    },
    /// `web_search_call`.
    WebSearchCall {
        /// What it did, once known.
        action: Option<SearchAction>,
    },
    /// `create_subagent_call`.
    CreateSubagentCall {
        /// The agent that asks.
        agent_id: String,
        /// Task.
        content: Vec<AgentContent>,
        /// Model, if told.
        model: Option<String>,
        /// Effort, if told.
        reasoning_effort: Option<String>,
    },
    /// `send_subagent_input_call`.
    SendSubagentInputCall(AgentSend),
    /// `resume_subagent_call`.
    ResumeSubagentCall(AgentOrder),
    /// `interrupt_subagent_call`.
    InterruptSubagentCall(AgentOrder),
    /// `close_subagent_call`.
    CloseSubagentCall(AgentOrder),
    /// `wait_for_subagents_call`.
    WaitForSubagentsCall {
        /// The agent that waits.
        sender_agent_id: String,
        /// For whom.
        recipient_agent_ids: Vec<String>,
    },
    /// `agent_message`; has no public status.
    AgentMessage(AgentSend),
}

/// What a web search did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SearchAction {
    /// Searched.
    Search {
        /// Main query.
        query: Option<String>,
        /// All queries.
        queries: Option<Vec<String>>,
    },
    /// Opened a page.
    OpenPage {
        /// The page.
        url: Option<String>,
    },
    /// Looked for text in a page.
    FindInPage {
        /// The page.
        url: Option<String>,
        /// The text.
        pattern: Option<String>,
    },
    /// Not told.
    Other,
}

/// A part of what agents say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentContent {
    /// Text.
    OutputText {
        /// The text.
        text: String,
    },
    /// Opaque to us.
    EncryptedContent {
        /// The content.
        encrypted_content: String,
    },
}

/// Something sent from agent to agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSend {
    /// Who.
    pub sender_agent_id: String,
    /// To whom.
    pub recipient_agent_id: String,
    /// What.
    pub content: Vec<AgentContent>,
}

/// An order of one agent about another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOrder {
    /// Who.
    pub sender_agent_id: String,
    /// About whom.
    pub recipient_agent_id: String,
}
