//! Every kind of event, byte for byte.

use domain::configuration::{EnvironmentConfiguration, SessionConfiguration, Source};
use domain::environment::FailureReason;
use domain::event::{Cause, SessionEvent, TurnEvent};
use domain::item::{InputPart, Item, ItemBody, ItemStatus, UserMessage};
use domain::metadata::Metadata;
use domain::session::{Projection, SessionStatus};
use domain::turn::{TurnFailure, TurnSnapshot, TurnStatus};
use domain::usage::Usage;
use domain::{AgentId, EnvironmentId, ItemId, Timestamp};
use uuid::Uuid;

use super::*;

const S: &str = "00000000-0000-0000-0000-000000000001";
const T: &str = "00000000-0000-0000-0000-000000000002";
const I: &str = "item_00000000000000000000000000000003";

fn base() -> SessionBase {
    let agent = serde_json::from_str(
        r#"{"model":"m","instructions":null,"multi_agent":{"enabled":false,"max_concurrent_subagents":null},
            "reasoning":{"effort":null,"summary":null},"service_tier":"auto",
            "text":{"format":"text","verbosity":"medium"},"tools":["tool_search"]}"#,
    )
    .unwrap();
    SessionBase {
        id: SessionId::new(Uuid::from_u128(1)),
        created_at: Timestamp::from_millis(1_999),
        vault_ids: Vec::new(),
        configuration: SessionConfiguration {
            agent_id: AgentId::new(Uuid::from_u128(4)),
            agent_name: None,
            agent,
            harness: "h".parse().unwrap(),
            declaration_hash: serde_json::from_str(&format!("\"{}\"", "a".repeat(64))).unwrap(),
            harness_config: domain::json::Opaque::empty_object(),
            provider: None,
            provider_source: Source::Unknown,
            shows_extension: false,
            environment: EnvironmentConfiguration::None,
        },
        environment: None,
    }
}

/// The members of a frame after `type` and `event_id`.
fn members(payload: &EventPayload) -> String {
    let bytes = frame(&base(), EventId::new(Uuid::from_u128(9)), payload).unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let kind = payload.public_type();
    let start = format!(
        "event: {kind}\ndata: {{\"type\":\"{kind}\",\"event_id\":\"00000000-0000-0000-0000-000000000009\","
    );
    let rest = text
        .strip_prefix(&start)
        .unwrap_or_else(|| panic!("{text}"));
    rest.strip_suffix("}\n\n").unwrap().to_owned()
}

fn at() -> PartAt {
    PartAt {
        turn_id: TurnId::new(Uuid::from_u128(2)),
        item_id: ItemId::new(Uuid::from_u128(3)),
        output_index: 5,
        index: 7,
    }
}

fn item(body: ItemBody, status: ItemStatus, output_index: Option<u32>) -> Item {
    Item {
        id: ItemId::new(Uuid::from_u128(3)),
        turn_id: TurnId::new(Uuid::from_u128(2)),
        position: 1,
        output_index,
        key: None,
        status,
        parts: 0,
        started_at: Timestamp::from_millis(0),
        completed_at: None,
        body,
    }
}

#[test]
fn session_events_carry_the_whole_session_and_no_session_id() {
    let payload = EventPayload::Session {
        event: SessionEvent::Failed,
        cause: Cause::Other,
        snapshot: Projection {
            status: SessionStatus::Failed,
            error: Some("The execution could not complete.".into()),
            required_actions: Vec::new(),
            usage: Some(Usage {
                input_tokens: 1,
                cached_tokens: 2,
                output_tokens: 3,
                reasoning_tokens: 4,
                total_tokens: 5,
            }),
            last_active_at: Timestamp::from_millis(2_000),
        },
        metadata: Metadata::default(),
    };
    assert_eq!(
        members(&payload),
        format!(
            r#""session":{{"id":"{S}","object":"agent.session","created_at":1,"last_active_at":2,"status":"failed","agent":{{"id":"00000000-0000-0000-0000-000000000004","name":null,"model":"m","instructions":null,"multi_agent":{{"enabled":false,"max_concurrent_subagents":null}},"reasoning":{{"effort":null,"summary":null}},"service_tier":"auto","text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"tools":[]}},"environment":{{"type":"none"}},"error":"The execution could not complete.","metadata":{{}},"required_actions":[],"usage":{{"input_tokens":1,"input_tokens_details":{{"cached_tokens":2}},"output_tokens":3,"output_tokens_details":{{"reasoning_tokens":4}},"total_tokens":5}},"vault_ids":[]}}"#
        )
    );
}

#[test]
fn only_terminal_turn_events_carry_usage() {
    // sessions 7.2
    let snapshot = |status, completed_at| TurnSnapshot {
        id: TurnId::new(Uuid::from_u128(2)),
        agent_id: AgentId::new(Uuid::from_u128(4)),
        status,
        created_at: Timestamp::from_millis(1_000),
        started_at: None,
        completed_at,
        usage: None,
        failure: completed_at.map(|_| TurnFailure::ExecutionInterrupted),
    };
    let created = EventPayload::Turn {
        event: TurnEvent::Created,
        turn: snapshot(TurnStatus::Queued, None),
    };
    let turn = |status: &str, completed: &str, error: &str| {
        format!(
            r#""session_id":"{S}","turn_id":"{T}","turn":{{"id":"{T}","object":"agent.session.turn","session_id":"{S}","agent_id":"00000000-0000-0000-0000-000000000004","subagent_id":null,"status":"{status}","created_at":1,"started_at":null,"completed_at":{completed},"error":{error},"usage":null}}"#
        )
    };
    assert_eq!(members(&created), turn("queued", "null", "null"));
    let failed = EventPayload::Turn {
        event: TurnEvent::Failed,
        turn: snapshot(TurnStatus::Failed, Some(Timestamp::from_millis(3_000))),
    };
    let error = r#"{"code":"internal_error","message":"The execution could not complete."}"#;
    assert_eq!(
        members(&failed),
        format!("{},\"usage\":null", turn("failed", "3", error))
    );
}

#[test]
fn items_are_shown_by_type() {
    let input = ItemBody::UserMessage(UserMessage {
        content: vec![InputPart::InputText {
            text: "a\u{85}b".into(),
        }],
    });
    let added = EventPayload::ItemAdded {
        item: item(input, ItemStatus::Completed, None),
    };
    assert_eq!(
        members(&added),
        format!(
            r#""session_id":"{S}","turn_id":"{T}","item":{{"id":"{I}","turn_id":"{T}","type":"message","role":"user","content":[{{"type":"input_text","text":"a\u0085b"}}],"status":"completed","phase":null}},"output_index":null"#
        )
    );
    let command = ItemBody::CommandExecution {
        command: "ls".into(),
        cwd: None,
        output: Some("x\n".into()),
        exit_code: Some(0),
        duration_ms: None,
    };
    let done = EventPayload::ItemDone {
        item: item(command, ItemStatus::Completed, Some(5)),
    };
    assert_eq!(
        members(&done),
        format!(
            r#""session_id":"{S}","turn_id":"{T}","item":{{"id":"{I}","turn_id":"{T}","type":"command_execution","command":"ls","cwd":null,"output":"x\n","exit_code":0,"duration_ms":null,"status":"completed"}},"output_index":5"#
        )
    );
    let patch = ItemBody::FunctionCall {
        call_id: domain::call::CallId("c".into()),
        name: "apply_patch".into(),
        arguments: "{\"changes\":\n [1.0]}".into(),
    };
    let done = members(&EventPayload::ItemDone {
        item: item(patch, ItemStatus::Completed, Some(5)),
    });
    assert!(
        done.contains(r#""arguments":{"changes": [1.0]}"#),
        "one line, the same value: {done}"
    );
}

#[test]
fn parts_and_deltas_name_their_place() {
    let place = format!(r#""session_id":"{S}","turn_id":"{T}","item_id":"{I}","output_index":5"#);
    let text = |text: &str| text.to_owned();
    for (payload, rest) in [
        (
            EventPayload::ContentPartAdded { at: at() },
            r#","content_index":7,"part":{"type":"output_text","text":""}"#,
        ),
        (
            EventPayload::ContentPartDone {
                at: at(),
                text: text("t"),
            },
            r#","content_index":7,"part":{"type":"output_text","text":"t"}"#,
        ),
        (
            EventPayload::TextDelta {
                at: at(),
                delta: text("d"),
            },
            r#","content_index":7,"delta":"d""#,
        ),
        (
            EventPayload::TextDone {
                at: at(),
                text: text("t"),
            },
            r#","content_index":7,"text":"t""#,
        ),
        (
            EventPayload::SummaryPartAdded { at: at() },
            r#","summary_index":7,"part":{"type":"summary_text","text":""}"#,
        ),
        (
            EventPayload::SummaryPartDone {
                at: at(),
                text: text("t"),
                incomplete: true,
            },
            r#","summary_index":7,"part":{"type":"summary_text","text":"t"},"status":"incomplete""#,
        ),
        (
            EventPayload::SummaryPartDone {
                at: at(),
                text: text("t"),
                incomplete: false,
            },
            r#","summary_index":7,"part":{"type":"summary_text","text":"t"},"status":null"#,
        ),
        (
            EventPayload::SummaryDelta {
                at: at(),
                delta: text("d"),
            },
            r#","summary_index":7,"delta":"d""#,
        ),
        (
            EventPayload::SummaryDone {
                at: at(),
                text: text("t"),
            },
            r#","summary_index":7,"text":"t""#,
        ),
        (
            EventPayload::CommandDelta {
                at: at(),
                delta: text("d"),
            },
            r#","delta":"d""#,
        ),
    ] {
        assert_eq!(members(&payload), format!("{place}{rest}"));
    }
}

#[test]
fn environment_and_error_events_are_fixed_texts() {
    // S-SEQ-7, S-SSE-5
    let environment_id = EnvironmentId::new(Uuid::from_u128(6));
    let environment = |event, turn_id| EventPayload::Environment {
        event,
        environment_id,
        environment_kind: EnvironmentKind::OpenaiHosted,
        turn_id,
    };
    let shown = |turn: &str, status: &str, error: &str| {
        format!(
            r#""session_id":"{S}","turn_id":{turn},"environment":{{"id":"{environment_id}","type":"openai_hosted","status":"{status}","error":{error}}}"#
        )
    };
    assert_eq!(
        members(&environment(EnvironmentEvent::Ready, None)),
        shown("null", "ready", "null")
    );
    assert_eq!(
        members(&environment(
            EnvironmentEvent::Failed,
            Some(TurnId::new(Uuid::from_u128(2)))
        )),
        shown(
            &format!("\"{T}\""),
            "failed",
            r#"{"code":"environment_connection_failed","message":"The environment failed to connect.","type":"environment_error"}"#
        )
    );
    let sandbox = EventPayload::Error {
        error: ErrorEvent::Sandbox {
            reason: FailureReason::Incomplete,
        },
    };
    assert_eq!(
        members(&sandbox),
        format!(
            r#""session_id":"{S}","error":{{"message":"Failed to provision environment: initialization did not complete","type":"environment_error","code":"sandbox_error","param":null}}"#
        )
    );
    let lost = interrupted(base().id, EventId::new(Uuid::from_u128(9))).unwrap();
    let lost = String::from_utf8(lost.to_vec()).unwrap();
    assert!(
        lost.contains(r#""type":"server_error","code":"stream_interrupted"}"#),
        "no param: {lost}"
    );
}
