//! Requests of Core (RP-6, second table). Each ends in exactly one final receipt or status.

use domain::run::{Binding, ExecutionConfiguration, HarnessId, InputMessage};
use domain::{DeliveryId, ExecutorId, FrameId, InputId, OperationId, PrepareId, RunId};
use serde::{Deserialize, Serialize};

/// Claims the authority of a Session before its first frame on a connection (RP-8.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// The Session's harness.
    pub harness: HarnessId,
    /// The Session's workspace as a logical or canonical directory (RP-8.3); none for Environment type `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_directory: Option<String>,
}

/// Ends the authority of a Session (RP-8.4 to RP-8.6). The frame's binding has the advanced epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Remove the native home as well.
    pub remove_home: bool,
}

/// A body that follows in chunks (RP-9.2). A body of no bytes has no chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incoming {
    /// The stream of its chunks.
    pub stream: u32,
    /// Bytes, at most 50 MiB.
    pub size: u64,
    /// SHA-256 of the body, lower-case hexadecimal.
    pub sha256: String,
}

/// One environment variable.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // RP-9.12: neither names nor values may reach a log.
        f.write_str("Variable(…)")
    }
}

/// Kind of a source of the installed snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Source {
    /// A Skill by name.
    Skill(String),
    /// A Plugin by slot.
    Plugin(u32),
    /// A capability directory on the machine (RP-9.5).
    Directory(String),
}

/// One operation of the initialization (RP-9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "op",
    content = "header",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum InitStep {
    /// An initial file, atomically replaced at its logical path.
    File {
        /// Logical `/workspace` path.
        path: String,
        /// Its bytes.
        body: Incoming,
    },
    /// The private environment of tools.
    Configure {
        /// Variables, at most 1 000.
        env: Vec<Variable>,
    },
    /// npm packages.
    Npm {
        /// 1 to 1 000 specifications, none starting with `-`.
        packages: Vec<String>,
    },
    /// Python packages.
    Python {
        /// 1 to 1 000 specifications, none starting with `-`.
        packages: Vec<String>,
    },
    /// A setup command.
    Setup {
        /// The command, for Bash (RP-9.13).
        command: String,
        /// Logical working directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    /// Publishes the installed snapshot, also of an empty selection (RP-9.21).
    Finalize {
        /// Ordered sources.
        sources: Vec<Source>,
    },
}

impl InitStep {
    /// The body that follows, if the step has one.
    pub fn incoming(&self) -> Option<&Incoming> {
        match self {
            Self::File { body, .. } => Some(body),
            Self::Configure { .. }
            | Self::Npm { .. }
            | Self::Python { .. }
            | Self::Setup { .. }
            | Self::Finalize { .. } => None,
        }
    }
}

/// Begins one operation of the initialization. Steps with a body wait for its chunks and the commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimePrepare {
    /// Time for the operation in milliseconds, counted from `begin`.
    pub budget_ms: u64,
    /// What.
    pub step: InitStep,
}

/// Uses a ready admission, once (RP-10.5, RP-10.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionStart {
    /// The admission.
    pub prepare_id: PrepareId,
    /// Its Executor.
    pub executor_id: ExecutorId,
    /// The new Run.
    pub run_id: RunId,
    /// Messages in admitted order; at least one.
    pub input: Vec<InputMessage>,
}

/// Abandons an admission before start (RP-10.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionRelease {
    /// The admission.
    pub prepare_id: PrepareId,
}

/// A message for an active Run (RP-12). The frame's id is the message's [`InputId`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInput {
    /// The Run.
    pub run_id: RunId,
    /// The message.
    pub message: InputMessage,
}

/// Why a Run is cancelled; for the log of the Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A client asked.
    Requested,
    /// The Session was deleted or archived.
    SessionEnded,
    /// A limit of the Turn was reached.
    Limit,
}

/// Cancels one Run and leaves a healthy Executor open (RP-13.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCancel {
    /// The Run.
    pub run_id: RunId,
    /// Why.
    pub reason: CancelReason,
}

/// The saved result of a public function (RP-14).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionResult {
    /// The Run.
    pub run_id: RunId,
    /// Native call id.
    pub call_id: String,
    /// Delivery identity; also the frame's id.
    pub delivery_id: DeliveryId,
    /// Text of the result.
    pub output: String,
    /// The function failed.
    pub failed: bool,
}

/// Whose authority a workspace read uses (RP-15.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "id",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum ListTarget {
    /// A read-only admission.
    Prepare(PrepareId),
    /// The running Run.
    Run(RunId),
}

/// Lists one directory (RP-15.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceList {
    /// Authority.
    pub target: ListTarget,
    /// Logical path.
    pub path: String,
}

/// Begins a file write (RP-15.6 to RP-15.12); the commit applies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceWrite {
    /// Logical path.
    pub path: String,
    /// Its bytes.
    pub body: Incoming,
}

/// A file whose bytes Core already has (RP-15.20).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HaveFile {
    /// Path below `outputs/`.
    pub path: String,
    /// SHA-256 of the bytes that Core has.
    pub sha256: String,
}

/// Copies every regular file below `outputs/` (RP-15.14 to RP-15.20).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceExport {
    /// The stream of its chunks; Core opens it with `credit`.
    pub stream: u32,
    /// Files that need no bytes.
    pub have: Vec<HaveFile>,
}

/// Quiesce or thaw under one suspend attempt (RP-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    /// The attempt; thaw must match.
    pub suspension_id: OperationId,
}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident($body:ty) = $text:literal,)*) => {
        /// What Core asks for.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Operation { $($(#[$doc])* $name($body),)* }

        /// Type of a request, as receipts name it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum RequestType { $($(#[$doc])* $name,)* }

        impl RequestType {
            /// Every type.
            pub const ALL: &'static [RequestType] = &[$(RequestType::$name,)*];

            /// The frame's `type`.
            pub const fn as_str(self) -> &'static str {
                match self { $(RequestType::$name => $text,)* }
            }

            /// The request of a frame's `type`.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
            }
        }

        impl Operation {
            /// Its type.
            pub const fn kind(&self) -> RequestType {
                match self { $(Operation::$name(_) => RequestType::$name,)* }
            }

            pub(super) fn write_body(&self) -> serde_json::Result<Box<serde_json::value::RawValue>> {
                match self { $(Operation::$name(body) => serde_json::value::to_raw_value(body),)* }
            }

            pub(super) fn read_body(kind: RequestType, body: &str) -> Result<Self, super::frame::Place> {
                Ok(match kind { $(RequestType::$name => Operation::$name(super::envelope::read(body)?),)* })
            }
        }
    };
}

requests! {
    /// `bind`.
    Bind(Bind) = "bind",
    /// `release`.
    Release(Release) = "release",
    /// `runtime_prepare`.
    RuntimePrepare(RuntimePrepare) = "runtime_prepare",
    /// `execution_prepare`; the frame's id is the `prepare_id`.
    ExecutionPrepare(Box<ExecutionConfiguration>) = "execution_prepare",
    /// `execution_start`.
    ExecutionStart(ExecutionStart) = "execution_start",
    /// `execution_release`.
    ExecutionRelease(ExecutionRelease) = "execution_release",
    /// `run_input`; the frame's id is the `input_id`.
    RunInput(RunInput) = "run_input",
    /// `run_cancel`.
    RunCancel(RunCancel) = "run_cancel",
    /// `function_result`; the frame's id is the `delivery_id`.
    FunctionResult(FunctionResult) = "function_result",
    /// `workspace_list`.
    WorkspaceList(WorkspaceList) = "workspace_list",
    /// `workspace_write`.
    WorkspaceWrite(WorkspaceWrite) = "workspace_write",
    /// `workspace_export`.
    WorkspaceExport(WorkspaceExport) = "workspace_export",
    /// `quiesce`.
    Quiesce(Suspension) = "quiesce",
    /// `thaw`.
    Thaw(Suspension) = "thaw",
}

/// A request of Core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Never used before on this installation (RP-6.2).
    pub id: FrameId,
    /// The authority it is made under (RP-6.1).
    pub binding: Binding,
    /// Diagnostic only (RP-2.8).
    pub traceparent: Option<String>,
    /// What.
    pub operation: Operation,
}

impl Request {
    /// A message's identity is also its frame's id, so a repeat of either is the same request.
    pub fn input(binding: Binding, run_id: RunId, message: InputMessage) -> Self {
        let InputMessage { id, .. } = &message;
        Self::of(
            FrameId::new(InputId::uuid(*id)),
            binding,
            Operation::RunInput(RunInput { run_id, message }),
        )
    }

    /// An admission's identity is its frame's id.
    pub fn prepare(
        binding: Binding,
        prepare_id: PrepareId,
        configuration: ExecutionConfiguration,
    ) -> Self {
        Self::of(
            FrameId::new(prepare_id.uuid()),
            binding,
            Operation::ExecutionPrepare(Box::new(configuration)),
        )
    }

    /// Any request, without trace context.
    pub fn of(id: FrameId, binding: Binding, operation: Operation) -> Self {
        Self {
            id,
            binding,
            traceparent: None,
            operation,
        }
    }

    /// The admission of an `execution_prepare` frame.
    pub fn prepare_id(&self) -> PrepareId {
        PrepareId::new(self.id.uuid())
    }
}

/// Everything up to here is committed (RP-11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAck {
    /// The Run.
    pub run_id: RunId,
    /// Cumulative.
    pub seq: u64,
}

/// More bytes may be sent on an export (RP-15.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credit {
    /// The stream.
    pub stream: u32,
    /// Additional bytes.
    pub bytes: u64,
}

/// What becomes of a received body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferStep {
    /// Check it and apply the operation.
    Commit,
    /// Drop it; nothing was applied.
    Abort,
}

/// Ends the sending of a body to the Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The stream.
    pub stream: u32,
    /// What now.
    pub step: TransferStep,
}
