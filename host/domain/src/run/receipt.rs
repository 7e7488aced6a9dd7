//! What can be known about an operation (RP-5), and the states of an execution admission (RP-10).

use serde::{Deserialize, Serialize};

use crate::{ExecutorId, PrepareId};

/// The four outcomes of an operation; no other word may mean them (RP-5.1). A missing receipt is `Unknown` (RP-5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The named effect is confirmed.
    Ok,
    /// Certainly nothing happened; the caller may retry if the code says so.
    Rejected,
    /// It ran, ended, and is confirmed settled as a failure.
    Failed,
    /// An effect is possible; nobody retries automatically.
    Unknown,
}

/// Why an execution admission was refused or failed (RP-10.12). Core decides on these codes, never on harness text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareCode {
    /// The native preparation ended as a confirmed failure, with no Run.
    PreparationFailed,
    /// The configuration is malformed.
    InvalidConfiguration,
    /// The configuration asks for what this installation does not offer.
    UnsupportedConfiguration,
    /// This kind of preparation is not offered.
    UnsupportedPreparation,
    /// The stored native history is gone (HIS-002).
    HistoryMissing,
    /// More than one native history may fit (HIS-002).
    HistoryAmbiguous,
    /// Another process uses the native history.
    HistoryInUse,
    /// A required MCP server did not start (S-MCP-4).
    McpRequiredFailed,
    /// The harness program is not installed.
    ProgramMissing,
    /// The harness program could not be started, or ended at once.
    ProgramFailed,
    /// No free place on this Runtime (RP-10.10).
    Capacity,
    /// A former Run of the Session is not settled yet.
    Busy,
    /// A former Executor is not confirmed closed.
    CleanupUnconfirmed,
    /// The Executor named at start is gone; nothing was submitted (RP-10.11).
    ExecutorUnavailable,
    /// The admission is not in a state that allows this (RP-10.7).
    NotReady,
    /// The configuration differs from the one that the retained Executor was made with (RP-10.17).
    ConfigurationConflict,
    /// The Session is not bound on this connection, or under a lower epoch.
    BindingStale,
    /// The binding, Session or Environment is another one.
    BindingConflict,
    /// The Runtime is shutting down or quiesced.
    Draining,
}

impl PrepareCode {
    /// Before any Turn exists, this ends the pending input at once as `runtime_preparation_failed`; every other code stays
    /// retryable until the original deadline (RP-10.12).
    pub const fn ends_pending_input(self) -> bool {
        match self {
            Self::PreparationFailed
            | Self::InvalidConfiguration
            | Self::UnsupportedConfiguration
            | Self::UnsupportedPreparation
            | Self::HistoryMissing
            | Self::HistoryAmbiguous
            | Self::McpRequiredFailed
            | Self::ProgramMissing
            | Self::ProgramFailed
            | Self::ConfigurationConflict => true,
            Self::HistoryInUse
            | Self::Capacity
            | Self::Busy
            | Self::CleanupUnconfirmed
            | Self::ExecutorUnavailable
            | Self::NotReady
            | Self::BindingStale
            | Self::BindingConflict
            | Self::Draining => false,
        }
    }
}

/// Why any other request was refused, failed or stayed unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// A lower epoch, or a released binding (RP-2.5).
    BindingStale,
    /// Another binding, Session or Environment (RP-2.5).
    BindingConflict,
    /// The named workspace is not the one that this Runtime is bound to (RP-8.3).
    WorkspaceMismatch,
    /// The harness is not available here.
    HarnessUnavailable,
    /// The body cannot be used (RP-4.4).
    InvalidBody,
    /// Not offered by this build.
    Unsupported,
    /// Another operation of the same kind is running (RP-9.3), or something is not settled.
    Busy,
    /// The Run is not known here.
    UnknownRun,
    /// The Run is settling or settled (RP-12).
    RunEnded,
    /// Content that the harness cannot take (RP-12.5).
    UnsupportedContent,
    /// The native program refused it.
    NativeRefused,
    /// No native confirmation in time (RP-12.2, RP-13.3).
    Unconfirmed,
    /// The transfer's size, order or digest did not match (RP-9.2).
    TransferMismatch,
    /// A limit of RP-4 or RP-15 was exceeded.
    LimitExceeded,
    /// A step ended with a confirmed failure; npm, python and setup steps add their exit code (RP-5.3).
    StepFailed,
    /// Native processes or the private home are not confirmed gone (RP-8.6).
    CleanupUnconfirmed,
    /// Not a directory (RP-15.2).
    NotDirectory,
    /// More entries than a list may have (RP-15.3).
    TooManyEntries,
    /// The destination exists (RP-15.10).
    DestinationExists,
    /// The destination is a directory (RP-15.10).
    DestinationDirectory,
    /// A parent cannot be used (RP-15.10).
    ParentUnusable,
    /// `outputs` is no directory, or has an entry that cannot be captured (RP-15.16).
    OutputsUnusable,
    /// A file changed while it was copied (RP-15.16).
    SourceChanged,
    /// Permission, missing root, or another fault of the place.
    Unavailable,
    /// The Runtime is shutting down or quiesced.
    Draining,
}

/// State of one `prepare_id` on the Runtime (RP-10). `Released`, `Expired` and `Failed` are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "state",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum PrepareState {
    /// The native side is being made ready; no user input was submitted.
    Preparing,
    /// An Executor is reserved (RP-10.2).
    Ready {
        /// The Executor that the start must name.
        executor_id: ExecutorId,
        /// Milliseconds until the admission expires, counted from the sending of this status: the two machines share no clock.
        expires_in_ms: u64,
    },
    /// The start is being carried out.
    Starting,
    /// The admission moved to the Run, once (RP-5.6).
    Started,
    /// Given up before start.
    Released,
    /// Five minutes passed (RP-10.4).
    Expired,
    /// It failed, with no Run.
    Failed(PrepareCode),
}

impl PrepareState {
    /// Nothing follows for this `prepare_id`.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Started | Self::Released | Self::Expired | Self::Failed(_)
        )
    }
}

/// One observation of an admission. Revisions strictly increase per `prepare_id`; others are ignored (RP-10.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareStatus {
    /// The admission.
    pub prepare_id: PrepareId,
    /// Orders the observations, from 1.
    pub revision: u64,
    /// What is observed.
    pub state: PrepareState,
}
