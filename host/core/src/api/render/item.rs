//! Items of the history (sessions 6, api-surface 7).

use domain::call::ResultOutput;
use domain::item::{AgentContent, AgentSend, InputPart, Item, ItemBody, ItemStatus, SearchAction};
use serde::Serialize;

use super::Loose;

/// One Item, with the members of its type.
#[derive(Serialize)]
pub(crate) struct ItemJson<'a> {
    id: String,
    turn_id: String,
    #[serde(flatten)]
    body: BodyJson<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BodyJson<'a> {
    Message {
        role: &'static str,
        content: Vec<MessagePart<'a>>,
        status: ItemStatus,
        phase: Option<&'static str>,
    },
    Reasoning {
        summary: Vec<SummaryPart<'a>>,
        status: ItemStatus,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: Loose<'a>,
        status: ItemStatus,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Option<&'a ResultOutput>,
        error: Option<&'a str>,
        status: ItemStatus,
    },
    McpCall {
        server_label: &'a str,
        name: &'a str,
        arguments: Loose<'a>,
        output: Option<Loose<'a>>,
        error: Option<Loose<'a>>,
        status: ItemStatus,
    },
    CommandExecution {
        command: &'a str,
        cwd: Option<&'a str>,
        output: Option<&'a str>,
        exit_code: Option<i32>,
        duration_ms: Option<u64>,
        status: ItemStatus,
    },
    WebSearchCall {
        action: Option<&'a SearchAction>,
        status: ItemStatus,
    },
    CreateSubagentCall {
        agent_id: &'a str,
        content: &'a [AgentContent],
        model: Option<&'a str>,
        reasoning_effort: Option<&'a str>,
        status: ItemStatus,
    },
    SendSubagentInputCall {
        sender_agent_id: &'a str,
        recipient_agent_id: &'a str,
        content: &'a [AgentContent],
        status: ItemStatus,
    },
    ResumeSubagentCall {
        sender_agent_id: &'a str,
        recipient_agent_id: &'a str,
        status: ItemStatus,
    },
    InterruptSubagentCall {
        sender_agent_id: &'a str,
        recipient_agent_id: &'a str,
        status: ItemStatus,
    },
    CloseSubagentCall {
        sender_agent_id: &'a str,
        recipient_agent_id: &'a str,
        status: ItemStatus,
    },
    WaitForSubagentsCall {
        sender_agent_id: &'a str,
        recipient_agent_ids: &'a [String],
        status: ItemStatus,
    },
    AgentMessage {
        sender_agent_id: &'a str,
        recipient_agent_id: &'a str,
        content: &'a [AgentContent],
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessagePart<'a> {
    InputText { text: &'a str },
    InputImage { image_url: &'a str },
    OutputText { text: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum SummaryPart<'a> {
    SummaryText { text: &'a str },
}

/// Shows an Item.
pub(crate) fn item(item: &Item) -> ItemJson<'_> {
    ItemJson {
        id: item.id.to_string(),
        turn_id: item.turn_id.to_string(),
        body: body(&item.body, item.status),
    }
}

fn body(body: &ItemBody, status: ItemStatus) -> BodyJson<'_> {
    match body {
        ItemBody::UserMessage(message) => BodyJson::Message {
            role: "user",
            content: message.content.iter().map(input_part).collect(),
            status: ItemStatus::Completed,
            phase: None,
        },
        ItemBody::AssistantMessage { text, phase } => BodyJson::Message {
            role: "assistant",
            content: text
                .iter()
                .map(|text| MessagePart::OutputText { text })
                .collect(),
            status,
            phase: phase.map(|phase| match phase {
                domain::run::Phase::Commentary => "commentary",
                domain::run::Phase::FinalAnswer => "final_answer",
            }),
        },
        ItemBody::Reasoning { summary } => BodyJson::Reasoning {
            summary: summary
                .iter()
                .map(|text| SummaryPart::SummaryText { text })
                .collect(),
            status,
        },
        ItemBody::FunctionCall {
            call_id,
            name,
            arguments,
        } => BodyJson::FunctionCall {
            call_id: &call_id.0,
            name,
            arguments: Loose(arguments),
            status,
        },
        ItemBody::FunctionCallOutput {
            call_id,
            output,
            error,
        } => BodyJson::FunctionCallOutput {
            call_id: &call_id.0,
            output: output.as_ref(),
            error: error.as_deref(),
            status,
        },
        ItemBody::McpCall {
            server_label,
            name,
            arguments,
            output,
            error,
        } => BodyJson::McpCall {
            server_label,
            name,
            arguments: Loose(arguments),
            output: output.as_deref().map(Loose),
            error: error.as_deref().map(Loose),
            status,
        },
        ItemBody::CommandExecution {
            command,
            cwd,
            output,
            exit_code,
            duration_ms,
        } => BodyJson::CommandExecution {
            command,
            cwd: cwd.as_deref(),
            output: output.as_deref(),
            exit_code: *exit_code,
            duration_ms: *duration_ms,
            status,
        },
        ItemBody::WebSearchCall { action } => BodyJson::WebSearchCall {
            action: action.as_ref(),
            status,
        },
        ItemBody::CreateSubagentCall {
            agent_id,
            content,
            model,
            reasoning_effort,
        } => BodyJson::CreateSubagentCall {
            agent_id,
            content,
            model: model.as_deref(),
            reasoning_effort: reasoning_effort.as_deref(),
            status,
        },
        ItemBody::SendSubagentInputCall(AgentSend {
            sender_agent_id,
            recipient_agent_id,
            content,
        }) => BodyJson::SendSubagentInputCall {
            sender_agent_id,
            recipient_agent_id,
            content,
            status,
        },
        ItemBody::ResumeSubagentCall(order) => BodyJson::ResumeSubagentCall {
            sender_agent_id: &order.sender_agent_id,
            recipient_agent_id: &order.recipient_agent_id,
            status,
        },
        ItemBody::InterruptSubagentCall(order) => BodyJson::InterruptSubagentCall {
            sender_agent_id: &order.sender_agent_id,
            recipient_agent_id: &order.recipient_agent_id,
            status,
        },
        ItemBody::CloseSubagentCall(order) => BodyJson::CloseSubagentCall {
            sender_agent_id: &order.sender_agent_id,
            recipient_agent_id: &order.recipient_agent_id,
            status,
        },
        ItemBody::WaitForSubagentsCall {
            sender_agent_id,
            recipient_agent_ids,
        } => BodyJson::WaitForSubagentsCall {
            sender_agent_id,
            recipient_agent_ids,
            status,
        },
        ItemBody::AgentMessage(AgentSend {
            sender_agent_id,
            recipient_agent_id,
            content,
        }) => BodyJson::AgentMessage {
            sender_agent_id,
            recipient_agent_id,
            content,
        },
    }
}

fn input_part(part: &InputPart) -> MessagePart<'_> {
    match part {
        InputPart::InputText { text } => MessagePart::InputText { text },
        InputPart::InputImage { image_url } => MessagePart::InputImage { image_url },
    }
}
