//! Frames: what the two ends say to each other, and how it is written (RP-4 to RP-6).
//!
//! A text message is one JSON object `{type, id?, binding?, traceparent?, body}`; a binary message is one [`Chunk`]. The types of
//! each direction are one closed enum, so an end cannot send what only the other may say. Decoding is strict at any depth:
//! duplicate keys, unknown members, wrong types and nulls are refused, and errors never show a value.

mod chunk;
mod close;
mod connection;
mod envelope;
mod frame;
pub mod limits;
mod report;
mod request;
mod strict;

pub use chunk::{BadChunk, Chunk};
pub use close::{CloseReason, Reaction};
pub(crate) use connection::both_list;
pub use connection::{
    Active, Capacity, FaultCode, Goodbye, HELLO_AGAIN, Heartbeat, HeartbeatAck, Held, HeldRun,
    Hello, Limits, ProtocolError, RUN_RESUME, ResumedRun, Welcome, WorkspaceFacts,
};
pub use frame::{CoreFrame, Fault, Place, RuntimeFrame, Undecodable, Unencodable, Violation};
pub use report::{
    Answer, CancelProof, Code, ExportEntry, ExportEntryEnd, Progress, Proof, Receipt, RunEvents,
};
pub use request::{
    Bind, CancelReason, Credit, ExecutionRelease, ExecutionStart, FunctionResult, HaveFile,
    Incoming, InitStep, ListTarget, Operation, Release, Request, RequestType, RunAck, RunCancel,
    RunInput, RuntimePrepare, Source, Suspension, Transfer, TransferStep, Variable,
    WorkspaceExport, WorkspaceList, WorkspaceWrite,
};
pub use strict::Malformed;

/// One message of the WebSocket.
#[derive(Clone, PartialEq, Eq)]
pub enum Message {
    /// A text frame.
    Text(String),
    /// A chunk.
    Binary(Vec<u8>),
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Bodies hold provider keys and user content.
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Binary(bytes) => write!(f, "Binary({} bytes)", bytes.len()),
        }
    }
}
