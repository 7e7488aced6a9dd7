//! Bodies of connection frames (RP-6, first table).

use domain::run::{Binding, HarnessOffer};
use domain::{ConnectionId, DeviceId, InstallationId, InstanceId, OperationId, RunId};
use serde::{Deserialize, Serialize};

use super::close::CloseReason;

/// Name of the feature that lets a Run go on over a new connection (RP-11.12).
pub const RUN_RESUME: &str = "run_resume";
/// Name of the feature that lets a Runtime say `hello` once more on an open connection: only a `hello` may offer more than
/// before (CAP-006), and a new connection would end the Runs of this one.
pub const HELLO_AGAIN: &str = "hello_again";

/// Frames of a feature are sent only when both ends listed it (RP-3.5).
pub(crate) fn both_list(feature: &str, ours: &[String], theirs: &[String]) -> bool {
    let list = |names: &[String]| names.iter().any(|name| name == feature);
    list(ours) && list(theirs)
}

/// What a Runtime can hold at once (RP-10.21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Runs; a dedicated Runtime reports one.
    pub runs: u32,
    /// Executors.
    pub executors: u32,
    /// Preparations.
    pub preparing: u32,
}

/// The workspace that a Runtime serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceFacts {
    /// It is bound to one workspace (RP-8.3).
    pub bound: bool,
    /// SHA-256 of the canonical directory, so that Core can tell a moved one; never the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical_hash: Option<String>,
    /// A release may remove native homes here (RP-8.4).
    pub home_removal: bool,
}

/// A Run that the Runtime still has from an earlier connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldRun {
    /// The Run.
    pub run_id: RunId,
    /// The binding that started it.
    pub binding: Binding,
    /// Its newest event; 0 for none.
    pub last_seq: u64,
}

/// What the Runtime has from before this connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Runs that are not settled or not acknowledged.
    pub runs: Vec<HeldRun>,
    /// The suspension under which it is quiesced (RP-18.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiesced: Option<OperationId>,
}

/// First frame of a Runtime (RP-3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Must equal [`super::limits::WIRE_VERSION`] (RP-3.4).
    pub wire: u32,
    /// Build of the program.
    pub build: String,
    /// The installation that this Runtime was bootstrapped for.
    pub installation_id: InstallationId,
    /// Its identity.
    pub device_id: DeviceId,
    /// This process.
    pub instance_id: InstanceId,
    /// Operating system, for people.
    pub os: String,
    /// Architecture, for people.
    pub arch: String,
    /// Features that it offers (RP-3.5).
    pub features: Vec<String>,
    /// What it can hold.
    pub capacity: Capacity,
    /// Its workspace.
    pub workspace: WorkspaceFacts,
    /// Harnesses that it offers (RP-7.1).
    pub harnesses: Vec<HarnessOffer>,
    /// What it has from before.
    pub held: Held,
}

/// Limits that a Runtime obeys on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Chunks that may be unacknowledged on one stream; 1 = stop and wait.
    pub window_chunks: u32,
    /// Events of one Run that may be unacknowledged (RP-11.11).
    pub unacked_events: u64,
    /// Events of one Turn; one terminal entry more is always possible.
    pub turn_events: u64,
    /// Bytes of one Turn's events.
    pub turn_bytes: u64,
    /// An Executor without work is closed after so many milliseconds.
    pub executor_idle_ms: u64,
    /// Model providers may be on the Runtime's own machine: the one exception to MDL-002, for development and tests.
    pub loopback_models: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window_chunks: super::limits::WINDOW_CHUNKS,
            unacked_events: super::limits::UNACKED_EVENTS,
            turn_events: 65_536,
            turn_bytes: 32 * 1024 * 1024,
            executor_idle_ms: 600_000,
            loopback_models: false,
        }
    }
}

/// A held Run that goes on over this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumedRun {
    /// The Run.
    pub run_id: RunId,
    /// Core has everything up to here.
    pub after_seq: u64,
}

/// Answer to `hello`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// This socket.
    pub connection_id: ConnectionId,
    /// Epoch of the Core process that answers; a Runtime refuses a lower one than it has seen.
    pub owner_epoch: u64,
    /// Heartbeat interval in milliseconds.
    pub heartbeat_ms: u64,
    /// Silence after which either peer closes, in milliseconds.
    pub idle_close_ms: u64,
    /// Features that Core offers.
    pub features: Vec<String>,
    /// Limits.
    pub limits: Limits,
    /// Held Runs that go on. The Runtime cancels every other one (state-machines 1.10).
    pub resume: Vec<ResumedRun>,
}

/// Counters of a heartbeat: a hint, never a release (RP-10.21).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Active {
    /// Runs.
    pub runs: u32,
    /// Executors.
    pub executors: u32,
    /// Preparations.
    pub preparing: u32,
    /// Executors that are closing.
    pub closing: u32,
}

/// Sign of life (RP-3.10, RP-3.11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Counts from 1 on this connection.
    pub n: u64,
    /// The epoch that the Runtime obeys.
    pub owner_epoch: u64,
    /// Counters.
    pub active: Active,
    /// The harnesses again, if they changed; only ever narrower than in `hello` (CAP-006).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harnesses: Option<Vec<HarnessOffer>>,
}

/// Answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatAck {
    /// The heartbeat.
    pub n: u64,
    /// Epoch of the Core process.
    pub owner_epoch: u64,
}

/// Announces a close, so that the other side knows when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goodbye {
    /// Why.
    pub reason: CloseReason,
    /// When to connect again, in milliseconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Why a frame could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// No such frame type in this direction (RP-4.5).
    UnknownType,
    /// The type needs an id that is not there or not usable (RP-4.7).
    BadId,
    /// The type needs a binding, or must not have one.
    BadBinding,
    /// The body cannot be used.
    InvalidBody,
    /// The frame names something that does not exist here.
    Unroutable,
}

/// A frame could not be used; the connection goes on (RP-4.4, RP-4.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolError {
    /// Id of the frame, if it was usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub re: Option<domain::FrameId>,
    /// Type of the frame, if it was at most 128 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Why.
    pub code: FaultCode,
}
