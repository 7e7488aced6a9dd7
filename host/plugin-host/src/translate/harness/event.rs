//! What an adapter reports.

use contract::harness_events as theirs;
use domain::run::{
    AgentChange, AgentContent, AgentFacts, AgentOrder, AgentSend, AgentWait, ChangeKind,
    ChildProgress, CommandRun, Delta, DeltaKind, EventBody, FileChange, FunctionCall, Item,
    ItemBody, ItemEnd, ItemStatus, McpCall, Message, NativeSession, NativeTool, Notice, Origin,
    Phase, Reasoning, RunEvent, SubagentCreate, Usage, WebAction,
};

use super::turn_status;

/// Longest key of an Item in bytes.
const KEY: usize = 256;
/// Longest detail of a notice in bytes.
const DETAIL: usize = 1024;

/// A neutral event, or none for what this host has no word for: that is logged and nothing else (TRN-013).
#[must_use]
pub fn run_event(event: theirs::Event) -> Option<RunEvent> {
    let origin = match event.origin {
        theirs::Origin::Root(_) => Origin::Root,
        theirs::Origin::Child(theirs::ChildTurn { agent, turn }) => Origin::Child { agent, turn },
        theirs::Origin::Session => Origin::Session,
    };
    let body = match event.body {
        theirs::EventBody::ItemStarted(started) => EventBody::ItemStarted(item(started)?),
        theirs::EventBody::Delta(piece) => EventBody::Delta(delta(piece)),
        theirs::EventBody::ItemEnded(ended) => EventBody::ItemEnded(ItemEnd {
            item: item(ended.item)?,
            status: item_status(ended.status),
        }),
        theirs::EventBody::Usage(usage) => EventBody::Usage(Usage {
            input: usage.input.into(),
            cached: usage.cached.map(Into::into),
            output: usage.output.into(),
            reasoning: usage.reasoning.map(Into::into),
            total: usage.total.map(Into::into),
        }),
        theirs::EventBody::Agent(change) => EventBody::Agent(agent_change(change)),
        theirs::EventBody::Child(theirs::ChildProgress::Started) => {
            EventBody::Child(ChildProgress::Started)
        }
        theirs::EventBody::Child(theirs::ChildProgress::Ended(status)) => {
            EventBody::Child(ChildProgress::Ended(turn_status(status)))
        }
        theirs::EventBody::NativeSession(native) => {
            EventBody::NativeSession(native_session(native))
        }
        theirs::EventBody::Notice(notice) => EventBody::Notice(Notice {
            code: cut(notice.code, KEY),
            detail: cut(notice.detail, DETAIL),
        }),
        theirs::EventBody::Other(extra) => {
            tracing::debug!(
                kind = extra.kind,
                "an adapter reported an event newer than this host"
            );
            return None;
        }
    };
    Some(RunEvent { origin, body })
}

/// The native session.
#[must_use]
pub fn native_session(native: theirs::NativeSession) -> NativeSession {
    NativeSession {
        id: native.id,
        durable: native.durable,
    }
}

pub(super) fn cut(mut text: String, limit: usize) -> String {
    text.truncate(text.floor_char_boundary(limit));
    text
}

fn delta(piece: theirs::Delta) -> Delta {
    let kind = match piece.kind {
        theirs::DeltaKind::Text => DeltaKind::Text,
        theirs::DeltaKind::Summary => DeltaKind::Summary,
        theirs::DeltaKind::Output => DeltaKind::Output,
    };
    Delta {
        key: cut(piece.key, KEY),
        kind,
        index: piece.index,
        text: piece.text,
    }
}

fn item_status(status: theirs::ItemStatus) -> ItemStatus {
    match status {
        theirs::ItemStatus::Completed => ItemStatus::Completed,
        theirs::ItemStatus::Failed => ItemStatus::Failed,
        theirs::ItemStatus::Incomplete => ItemStatus::Incomplete,
    }
}

fn item(item: theirs::Item) -> Option<Item> {
    Some(Item {
        key: cut(item.key, KEY),
        body: item_body(item.body)?,
    })
}

fn item_body(body: theirs::ItemBody) -> Option<ItemBody> {
    Some(match body {
        theirs::ItemBody::Message(message) => ItemBody::Message(Message {
            text: message.text,
            phase: message.phase.map(phase),
        }),
        theirs::ItemBody::Reasoning(reasoning) => ItemBody::Reasoning(Reasoning {
            summary: reasoning.summary,
        }),
        theirs::ItemBody::Command(run) => ItemBody::Command(CommandRun {
            command: run.command,
            cwd: run.cwd,
            output: run.output,
            exit_code: run.exit_code,
            duration_ms: run.duration_ms.map(Into::into),
        }),
        theirs::ItemBody::FileChanges(changes) => {
            ItemBody::FileChanges(changes.into_iter().map(file_change).collect())
        }
        theirs::ItemBody::FunctionCall(call) => ItemBody::FunctionCall(FunctionCall {
            call: call.call,
            name: call.name,
            arguments: call.arguments,
        }),
        theirs::ItemBody::McpCall(call) => ItemBody::McpCall(McpCall {
            label: call.label,
            name: call.name,
            arguments: call.arguments,
            output: call.output,
            error: call.error,
        }),
        theirs::ItemBody::WebSearch(action) => ItemBody::WebSearch(web_action(action)),
        theirs::ItemBody::SubagentCreate(create) => ItemBody::SubagentCreate(SubagentCreate {
            agent: create.agent,
            content: agent_content(create.content),
            model: create.model,
            effort: create.effort,
        }),
        theirs::ItemBody::SubagentSend(send) => ItemBody::SubagentSend(agent_send(send)),
        theirs::ItemBody::SubagentResume(order) => ItemBody::SubagentResume(agent_order(order)),
        theirs::ItemBody::SubagentInterrupt(order) => {
            ItemBody::SubagentInterrupt(agent_order(order))
        }
        theirs::ItemBody::SubagentClose(order) => ItemBody::SubagentClose(agent_order(order)),
        theirs::ItemBody::SubagentWait(wait) => ItemBody::SubagentWait(AgentWait {
            sender: wait.sender,
            recipients: wait.recipients,
        }),
        theirs::ItemBody::AgentMessage(send) => ItemBody::AgentMessage(agent_send(send)),
        theirs::ItemBody::NativeTool(tool) => ItemBody::NativeTool(NativeTool {
            name: tool.name,
            input: tool.input,
            output: tool.output,
        }),
        theirs::ItemBody::Other(extra) => {
            tracing::debug!(
                kind = extra.kind,
                "an adapter reported an Item newer than this host"
            );
            return None;
        }
    })
}

fn phase(phase: theirs::Phase) -> Phase {
    match phase {
        theirs::Phase::Commentary => Phase::Commentary,
        theirs::Phase::FinalAnswer => Phase::FinalAnswer,
    }
}

fn file_change(change: theirs::FileChange) -> FileChange {
    let kind = match change.kind {
        theirs::ChangeKind::Add => ChangeKind::Add,
        theirs::ChangeKind::Update => ChangeKind::Update,
        theirs::ChangeKind::Delete => ChangeKind::Delete,
        theirs::ChangeKind::Move => ChangeKind::Move,
    };
    FileChange {
        path: change.path,
        moved_to: change.moved_to,
        kind,
        diff: change.diff,
    }
}

fn web_action(action: theirs::WebAction) -> WebAction {
    match action {
        theirs::WebAction::Search(queries) => WebAction::Search(queries),
        theirs::WebAction::OpenPage(url) => WebAction::OpenPage(url),
        theirs::WebAction::FindInPage(search) => WebAction::FindInPage {
            url: search.url,
            pattern: search.pattern,
        },
        theirs::WebAction::Unspecified => WebAction::Unspecified,
    }
}

fn agent_content(content: Vec<theirs::AgentContent>) -> Vec<AgentContent> {
    let part = |part| match part {
        theirs::AgentContent::Text(text) => AgentContent::Text(text),
        theirs::AgentContent::Encrypted(text) => AgentContent::Encrypted(text),
    };
    content.into_iter().map(part).collect()
}

fn agent_send(send: theirs::AgentSend) -> AgentSend {
    AgentSend {
        sender: send.sender,
        recipient: send.recipient,
        content: agent_content(send.content),
    }
}

fn agent_order(order: theirs::AgentOrder) -> AgentOrder {
    AgentOrder {
        sender: order.sender,
        recipient: order.recipient,
    }
}

fn agent_change(change: theirs::AgentChange) -> AgentChange {
    match change {
        theirs::AgentChange::Active(facts) => AgentChange::Active(agent_facts(facts)),
        theirs::AgentChange::Closed(facts) => AgentChange::Closed(agent_facts(facts)),
    }
}

fn agent_facts(facts: theirs::AgentFacts) -> AgentFacts {
    AgentFacts {
        agent: facts.agent,
        parent: facts.parent,
        name: facts.name,
        instructions: facts.instructions,
        at_s: facts.at_s.map(Into::into),
    }
}
