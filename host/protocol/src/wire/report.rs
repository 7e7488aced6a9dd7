//! What a Runtime reports: receipts, events and exported files.

use domain::run::{Binding, NativeSession, PrepareCode, RefusalCode, RunEvent, TurnStatus, Usage};
use domain::{FrameId, RunId};
use serde::{Deserialize, Serialize};

use super::request::RequestType;

/// Progress of a request; not final (RP-5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "phase",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Progress {
    /// Chunks may be sent.
    Ready,
    /// Bytes up to this offset are staged.
    Received(u64),
    /// The native write finished; not yet consumed.
    Written,
}

/// What a cancel proves (RP-13.4, TRN-005).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelProof {
    /// Native work of the Run has stopped.
    pub settled: bool,
    /// How the Run ended.
    pub outcome: TurnStatus,
    /// Native session, if known, even when no `done` follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_session: Option<NativeSession>,
    /// Usage, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The fact that an `ok` proves, and nothing more (RP-5.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "fact",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Proof {
    /// The Session is bound on this connection.
    Bound,
    /// The binding is released, Executors closed.
    Released,
    /// Also the native home is gone.
    HomeRemoved,
    /// This one initialization step took effect.
    Installed,
    /// The adapter confirmed that the message was consumed.
    Accepted,
    /// The function result was applied natively.
    Applied,
    /// The cancel is settled.
    Cancelled(CancelProof),
    /// Names of regular files, at most 1 024.
    Entries(Vec<String>),
    /// The file is published.
    Committed,
    /// The export is complete.
    Exported {
        /// Files.
        files: u64,
        /// Bytes of all files, those that were skipped included.
        bytes: u64,
    },
    /// Closed for a suspension.
    Quiesced,
    /// Open again.
    Thawed,
}

impl Proof {
    /// The fact can answer this request.
    pub const fn answers(&self, of: RequestType) -> bool {
        matches!(
            (self, of),
            (Self::Bound, RequestType::Bind)
                | (Self::Released, RequestType::ExecutionRelease)
                | (Self::Released | Self::HomeRemoved, RequestType::Release)
                | (Self::Installed, RequestType::RuntimePrepare)
                | (Self::Accepted, RequestType::RunInput)
                | (Self::Applied, RequestType::FunctionResult)
                | (Self::Cancelled(_), RequestType::RunCancel)
                | (Self::Entries(_), RequestType::WorkspaceList)
                | (Self::Committed, RequestType::WorkspaceWrite)
                | (Self::Exported { .. }, RequestType::WorkspaceExport)
                | (Self::Quiesced, RequestType::Quiesce)
                | (Self::Thawed, RequestType::Thaw)
        )
    }
}

/// Code of a receipt that is not `ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "family",
    content = "code",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Code {
    /// Of an execution admission or its start.
    Prepare(PrepareCode),
    /// Of any other request.
    Refusal(RefusalCode),
}

impl From<PrepareCode> for Code {
    fn from(code: PrepareCode) -> Self {
        Self::Prepare(code)
    }
}

impl From<RefusalCode> for Code {
    fn from(code: RefusalCode) -> Self {
        Self::Refusal(code)
    }
}

/// The answer of a receipt: progress, or one of the four outcomes (RP-5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "is",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Answer {
    /// Not final.
    Progress(Progress),
    /// The fact is confirmed.
    Ok(Proof),
    /// Certainly nothing happened.
    Rejected(Code),
    /// It ran, ended and is settled as a failure.
    Failed {
        /// Why.
        code: Code,
        /// 1 to 255, only for npm, python and setup steps (RP-5.3).
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
    },
    /// An effect is possible.
    Unknown(Code),
}

impl Answer {
    /// Ends the request.
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Progress(_))
    }
}

/// A typed answer that proves a named fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Echo of the request's binding; Core drops one that names another (RP-6.1).
    pub binding: Binding,
    /// The request.
    pub re: FrameId,
    /// Its type.
    pub of: RequestType,
    /// The answer.
    pub answer: Answer,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReceiptBody {
    pub re: FrameId,
    pub of: RequestType,
    pub answer: Answer,
}

/// Events of a Run, 1 to 64, in order and without a gap (RP-11.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEvents {
    /// The Run.
    pub run_id: RunId,
    /// Number of the first event; the others follow by one.
    pub seq: u64,
    /// The events.
    pub events: Vec<RunEvent>,
}

/// A file of an export begins (RP-15.18). Chunks follow unless Core has the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportEntry {
    /// The stream.
    pub stream: u32,
    /// Path below `outputs/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// A file of an export is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportEntryEnd {
    /// The stream.
    pub stream: u32,
    /// SHA-256 of its bytes, lower-case hexadecimal.
    pub sha256: String,
    /// No chunks were sent: Core has these bytes (RP-15.20).
    pub skipped: bool,
}
