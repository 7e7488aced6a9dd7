//! Root Turns (sessions 5, api-surface 7).

use domain::turn::{Turn, TurnStatus};
use domain::usage::Usage;
use domain::{AgentId, SessionId, Timestamp, TurnId};
use serde::Serialize;

/// A root Turn.
#[derive(Serialize)]
pub(crate) struct TurnJson {
    id: String,
    object: &'static str,
    session_id: String,
    agent_id: String,
    subagent_id: Option<String>,
    status: TurnStatus,
    created_at: i64,
    started_at: Option<i64>,
    completed_at: Option<i64>,
    error: Option<TurnErrorJson>,
    usage: Option<UsageJson>,
}

#[derive(Serialize)]
struct TurnErrorJson {
    code: &'static str,
    message: &'static str,
}

/// Token counters.
#[derive(Serialize)]
pub(crate) struct UsageJson {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

/// What is shown of a Turn, whether it comes from its row or from an event.
pub(crate) struct TurnFacts {
    pub id: TurnId,
    pub agent_id: AgentId,
    pub status: TurnStatus,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub usage: Option<Usage>,
}

/// Shows a stored Turn.
pub(crate) fn stored(turn: &Turn) -> TurnJson {
    let facts = TurnFacts {
        id: turn.id,
        agent_id: turn.agent_id,
        status: turn.status(),
        created_at: turn.created_at,
        started_at: turn.started_at,
        completed_at: turn.completed_at(),
        usage: turn.usage,
    };
    shown(turn.session_id, &facts)
}

/// Shows the facts of a Turn. Its failure has one public text (S-TURN-3).
pub(crate) fn shown(session_id: SessionId, facts: &TurnFacts) -> TurnJson {
    let failed = facts.status == TurnStatus::Failed;
    TurnJson {
        id: facts.id.to_string(),
        object: "agent.session.turn",
        session_id: session_id.to_string(),
        agent_id: facts.agent_id.to_string(),
        subagent_id: None,
        status: facts.status,
        created_at: facts.created_at.seconds(),
        started_at: facts.started_at.map(Timestamp::seconds),
        completed_at: facts.completed_at.map(Timestamp::seconds),
        error: failed.then_some(TurnErrorJson {
            code: "internal_error",
            message: "The execution could not complete.",
        }),
        usage: facts.usage.map(usage),
    }
}

/// Shows counters.
pub(crate) fn usage(usage: Usage) -> UsageJson {
    UsageJson {
        input_tokens: usage.input_tokens,
        input_tokens_details: InputDetails {
            cached_tokens: usage.cached_tokens,
        },
        output_tokens: usage.output_tokens,
        output_tokens_details: OutputDetails {
            reasoning_tokens: usage.reasoning_tokens,
        },
        total_tokens: usage.total_tokens,
    }
}
