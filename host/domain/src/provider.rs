//! Sandbox providers as the rest of Berth knows them: what one declares, and the six results of every operation
//! (`sandbox-providers.md` 3). No provider's name decides anything; admission reads the declaration alone (SP-3.1).

use serde::{Deserialize, Serialize};

use crate::{AllocationId, EnvironmentId, InstallationId, ProjectId, SessionId, Timestamp};

/// The exact identity of an allocation; every operation verifies it natively (SP-3.2, SP-3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocationRef {
    /// This installation.
    pub installation: InstallationId,
    /// The tenant.
    pub project: ProjectId,
    /// The Session it serves.
    pub session: SessionId,
    /// Its Environment.
    pub environment: EnvironmentId,
    /// The allocation.
    pub id: AllocationId,
    /// Deployment generation that made it.
    pub generation: u64,
}

/// Wished or fixed resources; none = the provider's default (SP-2.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Processors.
    pub cpus: Option<u32>,
    /// MiB of memory.
    pub memory_mib: Option<u32>,
    /// MiB of root disk.
    pub root_disk_mib: Option<u32>,
    /// MiB of environment disk.
    pub environment_disk_mib: Option<u32>,
}

/// How a provider treats a wished resource (SP-2.4, SP-2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceUse {
    /// Enforced.
    Applied,
    /// Must equal what the selection fixes.
    Fixed,
    /// Refused.
    Refused,
}

/// Effective network policy (SP-16.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// Everything that the provider allows.
    Enabled,
    /// Core only.
    Disabled,
    /// Core and these exact names.
    Restricted(Vec<String>),
}

/// What is created; frozen with the allocation (SP-2.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSpec {
    /// Resources.
    pub resources: Resources,
    /// Size id, if the declaration offers sizes and one was chosen.
    pub size: Option<String>,
    /// Image id, likewise.
    pub image: Option<String>,
    /// Network.
    pub network: NetworkPolicy,
    /// Length of the first lease in milliseconds, where leases are declared.
    pub lease_ms: Option<u32>,
}

/// What a provider can do, each said explicitly (SP-3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an ability of its own, read by its name"
)]
pub struct Abilities {
    /// Stop and start keeping disks (SP-8.9).
    pub suspend_cold: bool,
    /// Memory survives too.
    pub suspend_warm: bool,
    /// Measurements.
    pub observe: bool,
    /// A create with a lost answer is settled by its lease running out (SP-4.6).
    pub settle_by_expiry: bool,
    /// … by occupying its name.
    pub settle_by_name: bool,
    /// The hand-off can be finished after a restart of Core (SP-5.8).
    pub finish_bootstrap: bool,
    /// Enforces `disabled` (SP-16.5).
    pub network_disabled: bool,
    /// Enforces `restricted`.
    pub network_restricted: bool,
    /// System packages before compute starts (API-102).
    pub system_packages: bool,
    /// Needs a Core URL that other machines reach (SP-2.9).
    pub public_core_url: bool,
}

/// A provider under its settings; admission and scheduling read only this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderDeclaration {
    /// `[a-z0-9-]{1,32}`.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// Abilities.
    pub abilities: Abilities,
    /// Processors, memory, root disk, environment disk.
    pub resources: [ResourceUse; 4],
    /// Offered sizes by id; empty = none (API-050).
    pub sizes: Vec<(String, Resources)>,
    /// Offered images with the smallest size each works with; empty = stored and not applied (API-067).
    pub images: Vec<(String, Option<String>)>,
    /// Longest native lease in milliseconds; none = no leases (SP-7.3).
    pub longest_lease_ms: Option<u32>,
    /// Workspace deleted after so many idle seconds; none = retained (SP-7.5).
    pub ephemeral_workspace_s: Option<u32>,
    /// Bytes of a workspace (LOC-013).
    pub workspace_limit_bytes: Option<u64>,
    /// Bytes of a Session's Artifacts (API-039).
    pub artifact_session_limit_bytes: Option<u64>,
    /// Default number of running sandboxes (SP-10.1).
    pub max_active: u32,
    /// Default number of running and suspended ones.
    pub max_retained: u32,
    /// For people: isolation level, enforced limits (LOC-003).
    pub facts: Vec<(String, String)>,
}

/// Native state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NativeState {
    /// Being made or booted.
    Starting,
    /// Runs.
    Running,
    /// Disks kept, no compute.
    Suspended,
    /// Ended by itself; disks kept.
    Stopped,
    /// A placeholder that only occupies the name (SP-4.6).
    Tombstone,
    /// Confirmed: nothing of it is left (SP-4.5, SP-9.4).
    Gone,
    /// Something else; for the log.
    Other(String),
}

/// What is known of an allocation (SP-3.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxInfo {
    /// Native id; none if it never got one.
    pub native_id: Option<String>,
    /// Native state.
    pub state: NativeState,
    /// The last changing step of the hand-off is done; proves no connection (SP-5.7).
    pub bootstrap_complete: bool,
    /// The original create can change nothing any more; not the same as success.
    pub create_settled: bool,
    /// End of the native lease, where there is one.
    pub lease_until: Option<Timestamp>,
    /// The last suspend or resume that the native side shows, by its operation id (SP-6.3).
    pub operation: Option<String>,
    /// For people.
    pub facts: Vec<(String, String)>,
}

/// The six results, and no other way to answer (SP-3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Confirmed.
    Done(SandboxInfo),
    /// Certainly nothing was changed beyond `remains`.
    Rejected {
        /// Fixed code (SP-3.7).
        code: String,
        /// A settled resource that remains for `kill` (SP-5.6).
        remains: Option<SandboxInfo>,
    },
    /// The identity is taken by an owned resource.
    Exists(SandboxInfo),
    /// A missing observation, not proof of absence (SP-4.5).
    NotFound,
    /// A resource has the name but not our labels; it was not touched.
    NotOurs,
    /// Anything else: a call that ran out of time, a plugin that broke, an answer that was lost.
    Unknown {
        /// Fixed code.
        code: String,
        /// Evidence that came all the same; kept, never called success (SP-4.7).
        evidence: Option<SandboxInfo>,
    },
}

/// Whether sandboxes can be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Yes or no.
    pub ready: bool,
    /// The first failing test, one of the fixed codes (SP-12.1).
    pub code: Option<String>,
    /// Resources after what the selection fixes was filled in.
    pub resolved: Resources,
    /// For people.
    pub facts: Vec<(String, String)>,
}

/// One native resource with our installation's label (SP-9.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owned {
    /// The allocation, its tenant and its Environment, if the labels are complete and are ids of ours.
    pub allocation: Option<(AllocationId, ProjectId, EnvironmentId)>,
    /// Native id.
    pub native_id: String,
    /// Native state.
    pub state: NativeState,
    /// When it was made, if known.
    pub created_at: Option<Timestamp>,
}
