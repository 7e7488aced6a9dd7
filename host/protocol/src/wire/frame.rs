//! Text frames: the envelope, the frame types of each direction, and strict decoding (RP-4.2, RP-4.4, RP-4.5).

use domain::FrameId;
use domain::run::{Binding, PrepareStatus};
use serde_json::value::to_raw_value;

use super::connection::{
    FaultCode, Goodbye, Heartbeat, HeartbeatAck, Hello, ProtocolError, Welcome,
};
use super::envelope::{Opened, write};
use super::limits::EVENT_BATCH;
use super::report::{Answer, Code, ExportEntry, ExportEntryEnd, Receipt, ReceiptBody, RunEvents};
use super::request::{Credit, Request, RequestType, RunAck, Transfer};
use super::strict::Malformed;

/// A frame of Core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoreFrame {
    /// Answer to `hello`.
    Welcome(Box<Welcome>),
    /// Answer to a heartbeat.
    HeartbeatAck(HeartbeatAck),
    /// Announces a close.
    Goodbye(Goodbye),
    /// A frame of the Runtime could not be used.
    ProtocolError(ProtocolError),
    /// A request.
    Request(Box<Request>),
    /// Events are committed.
    RunAck(Binding, RunAck),
    /// More export bytes may come.
    Credit(Binding, Credit),
    /// A body has been sent completely, or is given up.
    Transfer(Binding, Transfer),
}

/// A frame of a Runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeFrame {
    /// First frame.
    Hello(Box<Hello>),
    /// Sign of life.
    Heartbeat(Heartbeat),
    /// Announces a close.
    Goodbye(Goodbye),
    /// A frame of Core could not be used.
    ProtocolError(ProtocolError),
    /// Answer to a request.
    Receipt(Box<Receipt>),
    /// Observation of an admission.
    PrepareStatus(Binding, PrepareStatus),
    /// Events of a Run.
    RunEvents(Binding, RunEvents),
    /// A file of an export begins.
    ExportEntry(Binding, ExportEntry),
    /// A file of an export is complete.
    ExportEntryEnd(Binding, ExportEntryEnd),
}

/// Where in a body decoding failed: member names and indices, never values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(pub String);

/// Why a text is not a frame of this direction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// No frame at all: the connection closes with `protocol_violation`.
    #[error("unreadable frame: {0}")]
    Violation(#[from] Violation),
    /// A frame that cannot be used: it is answered and the connection goes on.
    #[error("unusable frame: {:?} at {}", .0.code, .0.place)]
    Fault(Box<Fault>),
}

/// The text is no frame at all (RP-4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Longer than 4 MiB.
    #[error("too long")]
    TooLong,
    /// Not strict JSON.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// Not an object.
    #[error("not an object")]
    NotAnObject,
}

/// A well-formed object that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its id, if usable.
    pub id: Option<FrameId>,
    /// Its binding, if usable.
    pub binding: Option<Binding>,
    /// Its type, if at most 128 bytes.
    pub of: Option<String>,
    /// Why.
    pub code: FaultCode,
    /// Where, for the log.
    pub place: String,
}

impl Fault {
    /// The frame that says so, for a peer without receipts.
    pub fn report(&self) -> ProtocolError {
        ProtocolError {
            re: self.id,
            of: self.of.clone(),
            code: self.code,
        }
    }

    /// How a Runtime answers: a `rejected` receipt if the frame is a request with usable id and binding, else
    /// `protocol_error` (RP-4.4).
    pub fn answer(&self) -> RuntimeFrame {
        let request = self.of.as_deref().and_then(RequestType::from_name);
        match (self.id, self.binding, request) {
            (Some(re), Some(binding), Some(of)) => {
                let answer = Answer::Rejected(unusable(of));
                RuntimeFrame::Receipt(Box::new(Receipt {
                    binding,
                    re,
                    of,
                    answer,
                }))
            }
            _ => RuntimeFrame::ProtocolError(self.report()),
        }
    }
}

/// Code of a request whose body cannot be used.
fn unusable(of: RequestType) -> Code {
    match of {
        RequestType::ExecutionPrepare
        | RequestType::ExecutionStart
        | RequestType::ExecutionRelease => {
            Code::Prepare(domain::run::PrepareCode::InvalidConfiguration)
        }
        _ => Code::Refusal(domain::run::RefusalCode::InvalidBody),
    }
}

/// The frame cannot be written. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unencodable {
    /// It would be longer than the limit of its type.
    #[error("frame is too long")]
    TooLong,
    /// A value has no text form.
    #[error("frame has a value that cannot be written")]
    Unwritable,
}

impl CoreFrame {
    /// The text message.
    pub fn encode(&self) -> Result<String, Unencodable> {
        match self {
            Self::Welcome(body) => write("welcome", None, None, None, to_raw_value(body)),
            Self::HeartbeatAck(body) => {
                write("heartbeat_ack", None, None, None, to_raw_value(body))
            }
            Self::Goodbye(body) => write("goodbye", None, None, None, to_raw_value(body)),
            Self::ProtocolError(body) => {
                write("protocol_error", None, None, None, to_raw_value(body))
            }
            Self::Request(request) => {
                let Request {
                    id,
                    binding,
                    traceparent,
                    operation,
                } = &**request;
                write(
                    operation.kind().as_str(),
                    Some(*id),
                    Some(binding),
                    traceparent.as_deref(),
                    operation.write_body(),
                )
            }
            Self::RunAck(binding, body) => {
                write("run_ack", None, Some(binding), None, to_raw_value(body))
            }
            Self::Credit(binding, body) => {
                write("credit", None, Some(binding), None, to_raw_value(body))
            }
            Self::Transfer(binding, body) => {
                write("transfer", None, Some(binding), None, to_raw_value(body))
            }
        }
    }

    /// Reads a text message that Core sent.
    pub fn decode(text: &str) -> Result<Self, Undecodable> {
        let frame = Opened::open(text)?;
        Ok(match &*frame.kind {
            "welcome" => Self::Welcome(frame.bare()?),
            "heartbeat_ack" => Self::HeartbeatAck(frame.bare()?),
            "goodbye" => Self::Goodbye(frame.bare()?),
            "protocol_error" => Self::ProtocolError(frame.bare()?),
            "run_ack" => frame
                .scoped()
                .map(|(binding, body)| Self::RunAck(binding, body))?,
            "credit" => frame
                .scoped()
                .map(|(binding, body)| Self::Credit(binding, body))?,
            "transfer" => frame
                .scoped()
                .map(|(binding, body)| Self::Transfer(binding, body))?,
            name => match RequestType::from_name(name) {
                Some(kind) => Self::Request(Box::new(frame.request(kind)?)),
                None => return Err(frame.fault(FaultCode::UnknownType, "type")),
            },
        })
    }
}

impl RuntimeFrame {
    /// The text message.
    pub fn encode(&self) -> Result<String, Unencodable> {
        match self {
            Self::Hello(body) => write("hello", None, None, None, to_raw_value(body)),
            Self::Heartbeat(body) => write("heartbeat", None, None, None, to_raw_value(body)),
            Self::Goodbye(body) => write("goodbye", None, None, None, to_raw_value(body)),
            Self::ProtocolError(body) => {
                write("protocol_error", None, None, None, to_raw_value(body))
            }
            Self::Receipt(receipt) => {
                let Receipt {
                    binding,
                    re,
                    of,
                    answer,
                } = &**receipt;
                let body = ReceiptBody {
                    re: *re,
                    of: *of,
                    answer: answer.clone(),
                };
                write("receipt", None, Some(binding), None, to_raw_value(&body))
            }
            Self::PrepareStatus(binding, body) => write(
                "prepare_status",
                None,
                Some(binding),
                None,
                to_raw_value(body),
            ),
            Self::RunEvents(binding, body) => {
                write("run_events", None, Some(binding), None, to_raw_value(body))
            }
            Self::ExportEntry(binding, body) => write(
                "export_entry",
                None,
                Some(binding),
                None,
                to_raw_value(body),
            ),
            Self::ExportEntryEnd(binding, body) => write(
                "export_entry_end",
                None,
                Some(binding),
                None,
                to_raw_value(body),
            ),
        }
    }

    /// Reads a text message that a Runtime sent.
    pub fn decode(text: &str) -> Result<Self, Undecodable> {
        let frame = Opened::open(text)?;
        Ok(match &*frame.kind {
            "hello" => Self::Hello(frame.bare()?),
            "heartbeat" => Self::Heartbeat(frame.bare()?),
            "goodbye" => Self::Goodbye(frame.bare()?),
            "protocol_error" => Self::ProtocolError(frame.bare()?),
            "receipt" => {
                let (binding, ReceiptBody { re, of, answer }) = frame.scoped()?;
                if let Answer::Ok(proof) = &answer
                    && !proof.answers(of)
                {
                    return Err(frame.fault(FaultCode::InvalidBody, "answer"));
                }
                Self::Receipt(Box::new(Receipt {
                    binding,
                    re,
                    of,
                    answer,
                }))
            }
            "prepare_status" => frame
                .scoped()
                .map(|(binding, body)| Self::PrepareStatus(binding, body))?,
            "run_events" => {
                let (binding, batch): (_, RunEvents) = frame.scoped()?;
                let ended = batch.events.iter().position(domain::run::RunEvent::is_last);
                let last_is_last = ended.is_none_or(|place| place + 1 == batch.events.len());
                if !(1..=EVENT_BATCH).contains(&batch.events.len())
                    || batch.seq == 0
                    || !last_is_last
                {
                    return Err(frame.fault(FaultCode::InvalidBody, "events"));
                }
                Self::RunEvents(binding, batch)
            }
            "export_entry" => frame
                .scoped()
                .map(|(binding, body)| Self::ExportEntry(binding, body))?,
            "export_entry_end" => frame
                .scoped()
                .map(|(binding, body)| Self::ExportEntryEnd(binding, body))?,
            _ => return Err(frame.fault(FaultCode::UnknownType, "type")),
        })
    }
}
