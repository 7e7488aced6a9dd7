//! Events as frames of a stream: encoded once, shared by every reader (sessions 7, api-surface 6.2).

use std::io;

use bytes::Bytes;
use domain::environment::EnvironmentKind;
use domain::event::{EnvironmentEvent, ErrorEvent, EventPayload, PartAt};
use domain::{EventId, SessionId, TurnId};
use serde::Serialize;
use serde_json::ser::Formatter;

use super::item::{self, ItemJson, MessagePart, SummaryPart};
use super::session::{self, SessionBase, SessionJson};
use super::turn::{self, TurnFacts, TurnJson, UsageJson};

/// The comment that opens a stream.
pub(crate) const OPENING: &[u8] = b": connected\n\n";
/// The comment that keeps a silent stream open.
pub(crate) const KEEPALIVE: &[u8] = b": keepalive\n\n";

/// Every event begins like this.
#[derive(Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    event_id: String,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Session {
        session: Box<SessionJson<'a>>,
    },
    Turn {
        session_id: String,
        turn_id: String,
        turn: TurnJson,
    },
    TurnEnded {
        session_id: String,
        turn_id: String,
        turn: TurnJson,
        usage: Option<UsageJson>,
    },
    Item {
        session_id: String,
        turn_id: String,
        item: Box<ItemJson<'a>>,
        output_index: Option<u32>,
    },
    Part(Located<PartMember<'a>>),
    Delta(Located<DeltaMember<'a>>),
    Text(Located<TextMember<'a>>),
    Summary(SummaryLocated<SummaryMember<'a>>),
    SummaryEnded(SummaryLocated<SummaryEndedMember<'a>>),
    SummaryDelta(SummaryLocated<DeltaMember<'a>>),
    SummaryText(SummaryLocated<TextMember<'a>>),
    Command {
        session_id: String,
        turn_id: String,
        item_id: String,
        output_index: u32,
        delta: &'a str,
    },
    Environment {
        session_id: String,
        turn_id: Option<String>,
        environment: EnvironmentState,
    },
    Error {
        session_id: String,
        error: ErrorJson<'a>,
    },
}

#[derive(Serialize)]
struct Located<T> {
    session_id: String,
    turn_id: String,
    item_id: String,
    output_index: u32,
    content_index: u32,
    #[serde(flatten)]
    member: T,
}

#[derive(Serialize)]
struct SummaryLocated<T> {
    session_id: String,
    turn_id: String,
    item_id: String,
    output_index: u32,
    summary_index: u32,
    #[serde(flatten)]
    member: T,
}

#[derive(Serialize)]
struct PartMember<'a> {
    part: MessagePart<'a>,
}

#[derive(Serialize)]
struct DeltaMember<'a> {
    delta: &'a str,
}

#[derive(Serialize)]
struct TextMember<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct SummaryMember<'a> {
    part: SummaryPart<'a>,
}

#[derive(Serialize)]
struct SummaryEndedMember<'a> {
    part: SummaryPart<'a>,
    status: Option<&'static str>,
}

/// S-SSE-5: nothing of configuration, credentials or revisions.
#[derive(Serialize)]
struct EnvironmentState {
    id: String,
    #[serde(rename = "type")]
    kind: EnvironmentKind,
    status: &'static str,
    error: Option<EnvironmentError>,
}

#[derive(Serialize)]
struct EnvironmentError {
    code: &'static str,
    message: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    code: &'static str,
    /// `null` for a sandbox error, absent for an interrupted stream (W-ERR-6).
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<Option<()>>,
}

/// Encodes one stored event as a frame.
///
/// # Errors
/// Only if a stored opaque text is no JSON, which the gate prevents.
pub(crate) fn frame(
    base: &SessionBase,
    id: EventId,
    payload: &EventPayload,
) -> serde_json::Result<Bytes> {
    let kind = payload.public_type();
    let session_id = base.id;
    let body = match payload {
        EventPayload::Session {
            snapshot, metadata, ..
        } => Body::Session {
            session: Box::new(session::session(base, snapshot, metadata)),
        },
        EventPayload::Turn { turn, .. } => {
            let facts = TurnFacts {
                id: turn.id,
                agent_id: turn.agent_id,
                status: turn.status,
                created_at: turn.created_at,
                started_at: turn.started_at,
                completed_at: turn.completed_at,
                usage: turn.usage,
            };
            turn_event(session_id, &facts)
        }
        EventPayload::ItemAdded { item } | EventPayload::ItemDone { item } => Body::Item {
            session_id: session_id.to_string(),
            turn_id: item.turn_id.to_string(),
            item: Box::new(item::item(item)),
            output_index: item.output_index,
        },
        EventPayload::ContentPartAdded { at } => Body::Part(located(
            session_id,
            at,
            PartMember {
                part: MessagePart::OutputText { text: "" },
            },
        )),
        EventPayload::ContentPartDone { at, text } => Body::Part(located(
            session_id,
            at,
            PartMember {
                part: MessagePart::OutputText { text },
            },
        )),
        EventPayload::TextDelta { at, delta } => {
            Body::Delta(located(session_id, at, DeltaMember { delta }))
        }
        EventPayload::TextDone { at, text } => {
            Body::Text(located(session_id, at, TextMember { text }))
        }
        EventPayload::SummaryPartAdded { at } => Body::Summary(summary(
            session_id,
            at,
            SummaryMember {
                part: SummaryPart::SummaryText { text: "" },
            },
        )),
        EventPayload::SummaryPartDone {
            at,
            text,
            incomplete,
        } => {
            let member = SummaryEndedMember {
                part: SummaryPart::SummaryText { text },
                status: incomplete.then_some("incomplete"),
            };
            Body::SummaryEnded(summary(session_id, at, member))
        }
        EventPayload::SummaryDelta { at, delta } => {
            Body::SummaryDelta(summary(session_id, at, DeltaMember { delta }))
        }
        EventPayload::SummaryDone { at, text } => {
            Body::SummaryText(summary(session_id, at, TextMember { text }))
        }
        EventPayload::CommandDelta { at, delta } => Body::Command {
            session_id: session_id.to_string(),
            turn_id: at.turn_id.to_string(),
            item_id: at.item_id.to_string(),
            output_index: at.output_index,
            delta,
        },
        EventPayload::Environment {
            event,
            environment_id,
            environment_kind,
            turn_id,
        } => Body::Environment {
            session_id: session_id.to_string(),
            turn_id: turn_id.as_ref().map(TurnId::to_string),
            environment: EnvironmentState {
                id: environment_id.to_string(),
                kind: *environment_kind,
                status: environment_status(*event),
                error: (*event == EnvironmentEvent::Failed).then_some(EnvironmentError {
                    code: "environment_connection_failed",
                    message: "The environment failed to connect.",
                    kind: "environment_error",
                }),
            },
        },
        EventPayload::Error {
            error: ErrorEvent::Sandbox { reason },
        } => {
            let text = reason.to_string();
            let error = ErrorJson {
                message: &text,
                kind: "environment_error",
                code: "sandbox_error",
                param: Some(None),
            };
            return encode(
                kind,
                id,
                Body::Error {
                    session_id: session_id.to_string(),
                    error,
                },
            );
        }
    };
    encode(kind, id, body)
}

/// The frame that tells a reader it fell behind (S-LS-3). It is no stored event.
pub(crate) fn interrupted(session_id: SessionId, id: EventId) -> serde_json::Result<Bytes> {
    let message = "The event stream was interrupted. Read the Session and open a new stream.";
    let error = ErrorJson {
        message,
        kind: "server_error",
        code: "stream_interrupted",
        param: None,
    };
    encode(
        "error",
        id,
        Body::Error {
            session_id: session_id.to_string(),
            error,
        },
    )
}

fn turn_event(session_id: SessionId, facts: &TurnFacts) -> Body<'static> {
    let turn = turn::shown(session_id, facts);
    let (session_id, turn_id) = (session_id.to_string(), facts.id.to_string());
    match facts.completed_at {
        None => Body::Turn {
            session_id,
            turn_id,
            turn,
        },
        Some(_) => Body::TurnEnded {
            session_id,
            turn_id,
            turn,
            usage: facts.usage.map(turn::usage),
        },
    }
}

fn environment_status(event: EnvironmentEvent) -> &'static str {
    match event {
        EnvironmentEvent::Pending => "pending",
        EnvironmentEvent::Ready => "ready",
        EnvironmentEvent::Connected => "connected",
        EnvironmentEvent::Disconnected => "disconnected",
        EnvironmentEvent::Failed => "failed",
    }
}

fn located<T>(session_id: SessionId, at: &PartAt, member: T) -> Located<T> {
    Located {
        session_id: session_id.to_string(),
        turn_id: at.turn_id.to_string(),
        item_id: at.item_id.to_string(),
        output_index: at.output_index,
        content_index: at.index,
        member,
    }
}

fn summary<T>(session_id: SessionId, at: &PartAt, member: T) -> SummaryLocated<T> {
    SummaryLocated {
        session_id: session_id.to_string(),
        turn_id: at.turn_id.to_string(),
        item_id: at.item_id.to_string(),
        output_index: at.output_index,
        summary_index: at.index,
        member,
    }
}

fn encode(kind: &'static str, id: EventId, body: Body<'_>) -> serde_json::Result<Bytes> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    let event = Event {
        kind,
        event_id: id.to_string(),
        body,
    };
    event.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out, OneLine,
    ))?;
    out.extend_from_slice(b"\n\n");
    Ok(Bytes::from(out))
}

/// Escapes what some readers take for the end of a line (F15): U+2028, U+2029 and U+0085 stand only in strings of JSON.
struct OneLine;

impl OneLine {
    fn write<W: ?Sized + io::Write>(writer: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['\u{2028}', '\u{2029}', '\u{85}']) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let separator = rest[at..].chars().next().unwrap_or_default();
            write!(writer, "\\u{:04x}", u32::from(separator))?;
            rest = &rest[at + separator.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        Self::write(writer, fragment)
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // A caller's own JSON may be spread over lines; white space between tokens means nothing.
        for line in fragment.split(['\n', '\r']) {
            Self::write(writer, line)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
        let place =
            format!(r#""session_id":"{S}","turn_id":"{T}","item_id":"{I}","output_index":5"#);
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
}
