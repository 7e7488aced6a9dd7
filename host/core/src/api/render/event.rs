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
mod tests;
