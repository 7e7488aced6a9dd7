//! Compute that a provider holds for one hosted Environment (state-machines 1.9, SP-4).

use serde::{Deserialize, Serialize};

use crate::run::PluginIdentity;
use crate::{AllocationId, DeviceId, EnvironmentId, OperationId, ProjectId, SessionId, Timestamp};

/// An allocation. Phase changes are compare-and-swap on `revision` (SP-4.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocation {
    /// Identity; fresh, never the Environment's id.
    pub id: AllocationId,
    /// Tenant.
    pub project_id: ProjectId,
    /// The Session it serves.
    pub session_id: SessionId,
    /// The Environment; at most one allocation each, ever (I22).
    pub environment_id: EnvironmentId,
    /// The device whose daemon runs inside.
    pub device_id: DeviceId,
    /// Provider name, as configured.
    pub provider: String,
    /// The provider's plugin as it was then; none in rows of builds before this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginIdentity>,
    /// Deployment generation that made it.
    pub generation: u64,
    /// Where the compute is, for providers with nodes and for this machine's own; set when it is created.
    pub node: Option<String>,
    /// Where it stands.
    pub phase: AllocationPhase,
    /// Grows with every change.
    pub revision: u64,
    /// The provider's own id, once known.
    pub native_id: Option<String>,
    /// The create call is known to have ended (SP-4.4).
    pub create_settled: bool,
    /// The daemon was installed and started.
    pub bootstrap_complete: bool,
    /// When `create` was sent.
    pub create_sent_at: Option<Timestamp>,
    /// End of the provider's own lease, if it has one.
    pub lease_expires_at: Option<Timestamp>,
    /// Latest differing observation of a `running` allocation (A15): recorded, never acted on by replacing it.
    pub observation: Option<Observed>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Phase of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum AllocationPhase {
    /// No provider call was made.
    Reserved,
    /// `create` was, or is about to be, sent: once ever.
    Creating,
    /// The machine runs.
    Running,
    /// One suspend operation.
    Suspending {
        /// Its id.
        operation: OperationId,
    },
    /// Stopped with its disks intact.
    Suspended,
    /// One resume operation.
    Resuming {
        /// Its id.
        operation: OperationId,
    },
    /// To be removed; `kill` is repeated.
    Releasing,
    /// Gone; terminal.
    Released,
}

/// What `inspect` saw instead of a running machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// Not found.
    Missing,
    /// Stopped.
    Stopped,
}

mod lifecycle;
mod suspension;

pub use lifecycle::{
    Capacity, Record, Recorded, Reserve, Reserved, begin_create, record, release, released, reserve,
};
pub use suspension::{begin_resume, begin_suspend};

#[cfg(test)]
mod tests;
