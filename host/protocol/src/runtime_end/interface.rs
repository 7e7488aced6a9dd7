//! What goes into the Runtime's end and what comes out of it.

use domain::run::{Binding, ExecutionConfiguration, HarnessOffer, InputMessage, PrepareCode};
use domain::{
    ConnectionId, DeviceId, EnvironmentId, ExecutorId, FrameId, InstallationId, InstanceId,
    PrepareId, RunId, SessionId,
};

use crate::wire::{
    Active, Answer, Bind, Capacity, Chunk, CloseReason, ExecutionStart, ExportEntry,
    ExportEntryEnd, FunctionResult, InitStep, Limits, Message, ProtocolError, RunEvents,
    Suspension, WorkspaceExport, WorkspaceFacts, WorkspaceList, WorkspaceWrite,
};

/// What is fixed for one daemon process.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Build of the program.
    pub build: String,
    /// The installation it was bootstrapped for.
    pub installation_id: InstallationId,
    /// Its device.
    pub device_id: DeviceId,
    /// This process.
    pub instance_id: InstanceId,
    /// The only Environment that it serves; none = a shared Runtime (RP-8.2).
    pub dedicated: Option<EnvironmentId>,
    /// Operating system, for people.
    pub os: String,
    /// Architecture, for people.
    pub arch: String,
    /// Features offered (RP-3.5).
    pub features: Vec<String>,
    /// What it can hold.
    pub capacity: Capacity,
    /// Its workspace.
    pub workspace: WorkspaceFacts,
}

/// Something that Core asks the daemon to do. Each ends by exactly one answer: [`Command::Answer`] for `id`, or the command
/// that the variant names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Check harness and workspace (RP-8.3); `Ok(Bound)` binds.
    Bind {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What it claims.
        bind: Bind,
    },
    /// Close the Session's Executors, remove its native home if asked (RP-8.5). The authority is fenced already.
    Release {
        /// Request.
        id: FrameId,
        /// Authority that ended.
        binding: Binding,
        /// Remove the native home.
        remove_home: bool,
    },
    /// Carry out an initialization step; `body` is complete but its digest is still to be checked (RP-9.2).
    Initialize {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        step: InitStep,
        /// Time left in milliseconds.
        budget_ms: u64,
        /// The file of a step that has one.
        body: Option<Vec<u8>>,
    },
    /// Make an Executor ready: [`Command::Prepared`] or [`Command::PrepareFailed`].
    Prepare {
        /// Admission.
        prepare_id: PrepareId,
        /// Authority.
        binding: Binding,
        /// What to make it from.
        configuration: Box<ExecutionConfiguration>,
    },
    /// Start the Run on the reserved Executor: [`Command::Started`] or [`Command::NotStarted`].
    Start {
        /// Authority.
        binding: Binding,
        /// What.
        start: ExecutionStart,
    },
    /// Deliver a message.
    Input {
        /// Request.
        id: FrameId,
        /// Run.
        run_id: RunId,
        /// Message.
        message: InputMessage,
    },
    /// Cancel the Run.
    Cancel {
        /// Request.
        id: FrameId,
        /// Run.
        run_id: RunId,
    },
    /// Apply a function result.
    FunctionResult {
        /// Request.
        id: FrameId,
        /// What.
        result: FunctionResult,
    },
    /// List a directory.
    List {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        list: WorkspaceList,
    },
    /// Write a file; the digest of `body` is still to be checked (RP-15.7).
    Write {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        write: WorkspaceWrite,
        /// The whole file.
        body: Vec<u8>,
    },
    /// Send everything below `outputs/` as credit allows.
    Export {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        export: WorkspaceExport,
    },
    /// Close for a suspension (RP-18.1).
    Quiesce {
        /// Request.
        id: FrameId,
        /// Which.
        suspension: Suspension,
    },
    /// Open again (RP-18.2).
    Thaw {
        /// Request.
        id: FrameId,
        /// Which.
        suspension: Suspension,
    },
}

/// What the daemon learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The connection works. These Runs are not wanted any more: end each and tell nobody (state-machines 1.10).
    Welcomed {
        /// This socket.
        connection_id: ConnectionId,
        /// Limits to obey.
        limits: Limits,
        /// Runs to end.
        abandon: Vec<RunId>,
    },
    /// Something to do.
    Work(Work),
    /// The admission ended before a start; the Executor is free again (RP-10.8).
    AdmissionEnded {
        /// Whose it was.
        session: SessionId,
        /// The admission.
        prepare_id: PrepareId,
    },
    /// The Run's end was told for it: end it and tell nobody.
    Abandon {
        /// The Run.
        run_id: RunId,
    },
    /// Core has committed the Run's events up to `seq` (RP-11.2).
    Acknowledged {
        /// The Run.
        run_id: RunId,
        /// Cumulative.
        seq: u64,
    },
    /// More bytes of an export may be sent.
    Credit {
        /// Whose it is.
        session: SessionId,
        /// The stream.
        stream: u32,
        /// Additional bytes.
        bytes: u64,
    },
    /// Core announced a close.
    Goodbye {
        /// Why.
        reason: CloseReason,
        /// When to connect again.
        retry_after_ms: Option<u64>,
    },
    /// Core could not use a frame of ours; for the log.
    Refused(ProtocolError),
}

/// What the daemon tells.
#[derive(Debug)]
pub enum Command {
    /// The answer of a piece of work, or its progress.
    Answer {
        /// The request.
        id: FrameId,
        /// The answer.
        answer: Answer,
    },
    /// An Executor is reserved for the admission.
    Prepared {
        /// The admission.
        prepare_id: PrepareId,
        /// The Executor.
        executor_id: ExecutorId,
    },
    /// The preparation ended as a confirmed failure, or was refused before anything began.
    PrepareFailed {
        /// The admission.
        prepare_id: PrepareId,
        /// Why.
        code: PrepareCode,
        /// Nothing was prepared natively: answered by a `rejected` receipt (RP-10.12).
        rejected: bool,
    },
    /// The Run has the Executor.
    Started {
        /// The Run.
        run_id: RunId,
    },
    /// Certainly nothing was submitted.
    NotStarted {
        /// The Run.
        run_id: RunId,
        /// Why.
        code: PrepareCode,
    },
    /// Numbered events of a Run.
    Events(RunEvents),
    /// The Run is settled; a later cancel is answered by `proof`.
    Settled {
        /// The Run.
        run_id: RunId,
        /// `ok` with its outcome, or why that is unknown.
        proof: Answer,
    },
    /// A file of an export begins.
    ExportEntry {
        /// Authority of the export.
        binding: Binding,
        /// The file.
        entry: ExportEntry,
    },
    /// Bytes of it, within the credit.
    ExportChunk(Chunk),
    /// It is complete.
    ExportEntryEnd {
        /// Authority of the export.
        binding: Binding,
        /// Digest.
        end: ExportEntryEnd,
    },
    /// Counters for the next heartbeat.
    Active(Active),
    /// The offers changed. What is narrower goes with the next heartbeat, what is wider with another `hello` (CAP-006).
    Offers(Vec<HarnessOffer>),
    /// End this connection, if there is one, telling Core why.
    Close(CloseReason),
}

/// What comes out.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this message.
    Send(Message),
    /// Tell the daemon.
    Notice(Notice),
    /// Close the socket with this reason.
    Close(CloseReason),
}
