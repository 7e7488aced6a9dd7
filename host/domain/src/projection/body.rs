//! The neutral body of an Item to the public one.

use serde::Serialize;

use crate::call::CallId;
use crate::item::{AgentContent, AgentOrder, AgentSend, ItemBody, ItemStatus, SearchAction};
use crate::run::{self, FileChange};

/// The public body; none for native tools that have no public Item. `root` stands for the root agent.
///
/// Streamed text is not part of a beginning: messages begin with `content: []`, reasoning with `summary: []` (S-SEQ-2).
pub(super) fn begin(key: &str, body: &run::ItemBody, root: &str) -> Option<ItemBody> {
    Some(match body {
        run::ItemBody::Message(message) => ItemBody::AssistantMessage {
            text: None,
            phase: message.phase,
        },
        run::ItemBody::Reasoning(_) => ItemBody::Reasoning {
            summary: Vec::new(),
        },
        other => return end(key, other, root),
    })
}

/// The public body of a finished Item.
pub(super) fn end(key: &str, body: &run::ItemBody, root: &str) -> Option<ItemBody> {
    Some(match body.clone() {
        run::ItemBody::Message(message) => ItemBody::AssistantMessage {
            text: Some(message.text),
            phase: message.phase,
        },
        run::ItemBody::Reasoning(reasoning) => ItemBody::Reasoning {
            summary: reasoning.summary,
        },
        run::ItemBody::Command(command) => ItemBody::CommandExecution {
            command: command.command,
            cwd: command.cwd,
            output: command.output,
            exit_code: command.exit_code,
            duration_ms: command.duration_ms,
        },
        run::ItemBody::FileChanges(changes) => apply_patch(key, &changes),
        run::ItemBody::FunctionCall(call) => ItemBody::FunctionCall {
            call_id: CallId(call.call),
            name: call.name,
            arguments: call.arguments,
        },
        run::ItemBody::McpCall(call) => ItemBody::McpCall {
            server_label: call.label,
            name: call.name,
            arguments: call.arguments,
            output: call.output,
            error: call.error,
        },
        run::ItemBody::WebSearch(action) => ItemBody::WebSearchCall {
            action: search_action(action),
        },
        run::ItemBody::SubagentCreate(create) => ItemBody::CreateSubagentCall {
            agent_id: root.to_owned(),
            content: content(create.content),
            model: create.model,
            reasoning_effort: create.effort,
        },
        run::ItemBody::SubagentSend(send) => {
            ItemBody::SendSubagentInputCall(agent_send(send, root))
        }
        run::ItemBody::SubagentResume(order) => {
            ItemBody::ResumeSubagentCall(agent_order(order, root))
        }
        run::ItemBody::SubagentInterrupt(order) => {
            ItemBody::InterruptSubagentCall(agent_order(order, root))
        }
        run::ItemBody::SubagentClose(order) => {
            ItemBody::CloseSubagentCall(agent_order(order, root))
        }
        run::ItemBody::SubagentWait(wait) => ItemBody::WaitForSubagentsCall {
            sender_agent_id: wait.sender.unwrap_or_else(|| root.to_owned()),
            recipient_agent_ids: wait.recipients,
        },
        run::ItemBody::AgentMessage(send) => ItemBody::AgentMessage(agent_send(send, root)),
        run::ItemBody::NativeTool(_) => return None,
    })
}

/// The status an Item of this kind may show: some kinds know no `failed` (sessions.md 6).
pub(super) fn status(body: &ItemBody, status: run::ItemStatus) -> ItemStatus {
    match (status, body) {
        (run::ItemStatus::Completed, _) => ItemStatus::Completed,
        (run::ItemStatus::Incomplete, _) => ItemStatus::Incomplete,
        (
            run::ItemStatus::Failed,
            ItemBody::AssistantMessage { .. }
            | ItemBody::Reasoning { .. }
            | ItemBody::WebSearchCall { .. },
        ) => ItemStatus::Incomplete,
        (run::ItemStatus::Failed, _) => ItemStatus::Failed,
    }
}

/// S-ITEM-5: a native file change is a function call named `apply_patch`, without a result Item.
fn apply_patch(key: &str, changes: &[FileChange]) -> ItemBody {
    #[derive(Serialize)]
    struct Arguments<'a> {
        changes: &'a [FileChange],
    }
    let arguments =
        serde_json::to_string(&Arguments { changes }).unwrap_or_else(|_| "{}".to_owned());
    ItemBody::FunctionCall {
        call_id: CallId(key.to_owned()),
        name: "apply_patch".to_owned(),
        arguments,
    }
}

fn search_action(action: run::WebAction) -> Option<SearchAction> {
    Some(match action {
        run::WebAction::Search(queries) => SearchAction::Search {
            query: queries.first().cloned(),
            queries: Some(queries),
        },
        run::WebAction::OpenPage(url) => SearchAction::OpenPage { url: Some(url) },
        run::WebAction::FindInPage { url, pattern } => SearchAction::FindInPage {
            url: Some(url),
            pattern: Some(pattern),
        },
        run::WebAction::Unspecified => SearchAction::Other,
    })
}

fn content(parts: Vec<run::AgentContent>) -> Vec<AgentContent> {
    let part = |part| match part {
        run::AgentContent::Text(text) => AgentContent::OutputText { text },
        run::AgentContent::Encrypted(encrypted_content) => {
            AgentContent::EncryptedContent { encrypted_content }
        }
    };
    parts.into_iter().map(part).collect()
}

fn agent_send(send: run::AgentSend, root: &str) -> AgentSend {
    AgentSend {
        sender_agent_id: send.sender.unwrap_or_else(|| root.to_owned()),
        recipient_agent_id: send.recipient.unwrap_or_else(|| root.to_owned()),
        content: content(send.content),
    }
}

fn agent_order(order: run::AgentOrder, root: &str) -> AgentOrder {
    AgentOrder {
        sender_agent_id: order.sender.unwrap_or_else(|| root.to_owned()),
        recipient_agent_id: order.recipient,
    }
}
