//! Environments: resource status, connection observation and initialization (state-machines 1.6–1.8).

use serde::{Deserialize, Serialize};

use crate::lease::Epoch;
use crate::{ConnectionId, EnvironmentId, ExecutorKeyId, SessionId, Timestamp};

/// An Environment as stored. Project and configuration are its Session's (ENV-039).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Identity.
    pub id: EnvironmentId,
    /// Its Session.
    pub session_id: SessionId,
    /// Who owns the machine.
    pub kind: EnvironmentKind,
    /// Durable connection status.
    pub status: EnvironmentStatus,
    /// Reason and time, once `failed`.
    pub failure: Option<EnvironmentFailure>,
    /// The last connection observation.
    pub observation: Observation,
    /// One-time preparation.
    pub initialization: Initialization,
    /// Creation.
    pub created_at: Timestamp,
}

/// Public `type` of an Environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentKind {
    /// Our provider's machine.
    OpenaiHosted,
    /// The client's machine.
    SelfHosted,
}

/// Resource status (ENV-030). The event vocabulary is another type without conversion (ENV-032).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentStatus {
    /// Never connected.
    Pending,
    /// Connected and exactly bound (D20).
    Connected,
    /// Was connected.
    Disconnected,
    /// Its compute ended; terminal.
    Expired,
    /// Provisioning or initialization failed; terminal.
    Failed,
}

impl EnvironmentStatus {
    /// Never left.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Expired | Self::Failed)
    }
}

/// Why and when an Environment failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentFailure {
    /// Why.
    pub reason: FailureReason,
    /// When; `last_active_at` of the Session (ENV-362).
    pub at: Timestamp,
}

/// Failed step (S-ENV-4, ENV-370…376): fixed labels and integers only (ENV-381).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum FailureReason {
    /// Setup command `index` exited (ENV-370).
    Setup {
        /// Index in `setup_commands`.
        index: u32,
        /// 1–255.
        exit_code: u8,
    },
    /// Python packages (ENV-371).
    Python {
        /// 1–255.
        exit_code: u8,
    },
    /// npm packages (ENV-372).
    Npm {
        /// 1–255.
        exit_code: u8,
    },
    /// Initial files (ENV-373).
    File,
    /// A Skill (ENV-374).
    Skill,
    /// The harness is not on the machine (ENV-375).
    HarnessUnavailable,
    /// Everything else, unknown effects included (ENV-376).
    Incomplete,
}

/// The last connection observation (1.7). Lower generations and revisions are inert (C4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// Grows with each authenticated socket.
    pub generation: u64,
    /// Grows within a generation.
    pub revision: u64,
    /// What was observed.
    pub state: ConnectionState,
    /// The socket.
    pub connection_id: Option<ConnectionId>,
    /// The key it dialled with, on self-hosted machines.
    pub key_id: Option<ExecutorKeyId>,
}

/// State of the newest socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// Never seen.
    #[default]
    None,
    /// Authenticated, not bound.
    Registered,
    /// Declared validly and bound (D20).
    Connected,
    /// Gone.
    Closed,
}

/// One-time preparation of an Environment (ENV-350). `Complete` and `Failed` are terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Initialization {
    /// Not attempted.
    #[default]
    Pending,
    /// The one attempt runs; its effects are uncertain if its owner is lost.
    Running {
        /// Lease epoch of the attempt.
        owner_epoch: Epoch,
        /// Connection generation of the attempt.
        generation: u64,
        /// Start.
        started_at: Timestamp,
    },
    /// Done; never again (ENV-359).
    Complete {
        /// When.
        at: Timestamp,
    },
    /// Failed or abandoned.
    Failed,
}

mod connection;
mod initialization;
mod reason;

pub use connection::{Observe, Observed, observe};
pub(crate) use initialization::fail_in;
pub use initialization::{BeginInit, CompleteInit, begin_init, complete_init, fail};

#[cfg(test)]
mod tests;
