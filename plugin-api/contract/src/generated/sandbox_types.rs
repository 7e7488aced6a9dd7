//! Data of a sandbox provider.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::{Extra, Pair};
use super::host_types::ArtifactRef;

/// The exact identity of an allocation; every read, change and removal verifies it natively (SP-3.2, SP-3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Allocation {
    /// This installation.
    pub installation: String,
    /// The tenant (Project).
    pub tenant: String,
    /// The Environment.
    pub environment: String,
    /// The allocation, fresh each time, never the Environment's id.
    pub id: String,
    /// Of the deployment selection it was made under (SP-2.6).
    pub generation: u32,
    /// Lower-case DNS label of at most 63 bytes, derived from installation and allocation: the native name where names are unique.
    pub name: String,
}

/// Wished resources; absent = the provider's default (SP-2.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Resources {
    /// 1..255 processors.
    pub cpus: Option<u32>,
    /// MiB of memory, at least 512.
    #[cfg_attr(feature = "component", component(name = "memory-mib"))]
    pub memory_mib: Option<u32>,
    /// MiB of root disk, at least 1024.
    #[cfg_attr(feature = "component", component(name = "root-disk-mib"))]
    pub root_disk_mib: Option<u32>,
    /// MiB of environment disk, at least 1024.
    #[cfg_attr(feature = "component", component(name = "environment-disk-mib"))]
    pub environment_disk_mib: Option<u32>,
}

/// Names that a restricted sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct AllowedHosts {
    /// 1..100 exact lower-case names (SP-16.1).
    pub hosts: Vec<String>,
}

/// Effective network policy; only a declared one is ever asked for (SP-16.3, SP-16.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum NetworkPolicy {
    /// Everything that the provider allows.
    #[cfg_attr(feature = "component", component(name = "enabled"))]
    Enabled,
    /// Core only.
    #[cfg_attr(feature = "component", component(name = "disabled"))]
    Disabled,
    /// Core and these names.
    #[cfg_attr(feature = "component", component(name = "restricted"))]
    Restricted(AllowedHosts),
    /// A later policy; a provider that does not know it rejects the create.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// What is created; frozen with the allocation (SP-2.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct SandboxSpec {
    /// Resources.
    pub resources: Resources,
    /// Size id from the declaration, if one was chosen (API-050).
    pub size: Option<String>,
    /// Image id from the declaration, if one was chosen (API-060).
    pub image: Option<String>,
    /// Network.
    pub network: NetworkPolicy,
    /// System packages, only if declared (API-102).
    #[cfg_attr(feature = "component", component(name = "system-packages"))]
    pub system_packages: Vec<String>,
    /// Length of the first lease in milliseconds, where leases are declared.
    #[cfg_attr(feature = "component", component(name = "lease-ms"))]
    pub lease_ms: Option<u32>,
    /// Growth without a new contract.
    pub more: Vec<Extra>,
}

/// How the daemon gets into the sandbox; its credential is only `secret-ref.bootstrap-file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Bootstrap {
    /// Absolute path inside of the bootstrap file, mode 0600, owned by the account (SP-5.2).
    pub path: String,
    /// Absolute path inside of the daemon program.
    pub program: String,
    /// Arguments of the daemon; the last one is `path`.
    pub args: Vec<String>,
    /// The program's bytes, if the image does not have it.
    pub artifact: ArtifactRef,
    /// Account inside, name and number are the same for every provider: `agent`, 1000 (SP-5.5).
    pub account: String,
    /// Number of the account.
    pub uid: u32,
    /// Core's address as the sandbox sees it, for rules that must let it through (SP-16.6).
    #[cfg_attr(feature = "component", component(name = "core-url"))]
    pub core_url: String,
}

/// What every operation on an allocation gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Target {
    /// Identity.
    pub allocation: Allocation,
    /// Settings of the allocation's own generation, without the secret ones (SP-2.6).
    pub settings: Vec<Pair>,
    /// What it was created with.
    pub spec: SandboxSpec,
    /// Native id, once known.
    #[cfg_attr(feature = "component", component(name = "native-id"))]
    pub native_id: Option<String>,
    /// Budget of this call in milliseconds; the host ends the call then and records `unknown` (SP-3.4).
    #[cfg_attr(feature = "component", component(name = "budget-ms"))]
    pub budget_ms: u32,
}

/// Whether `create` may make something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum CreateKind {
    /// Once for each allocation, ever (SP-4.3).
    #[cfg_attr(feature = "component", component(name = "new"))]
    New,
    /// Only finish the hand-off of what is there; never create natively (SP-5.8, SP-6.3).
    #[cfg_attr(feature = "component", component(name = "finish"))]
    Finish,
}

#[cfg(target_arch = "wasm32")]
impl CreateKind {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::New,
            _ => Self::Finish,
        }
    }
}

/// Native state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum SandboxState {
    /// Being made or booted.
    #[cfg_attr(feature = "component", component(name = "starting"))]
    Starting,
    /// Runs.
    #[cfg_attr(feature = "component", component(name = "running"))]
    Running,
    /// Disks kept, no compute, memory kept too if warm.
    #[cfg_attr(feature = "component", component(name = "suspended"))]
    Suspended,
    /// Ended by itself; disks kept.
    #[cfg_attr(feature = "component", component(name = "stopped"))]
    Stopped,
    /// A labelled placeholder that only occupies the name (SP-4.6).
    #[cfg_attr(feature = "component", component(name = "tombstone"))]
    Tombstone,
    /// Confirmed: nothing of it is left; only `kill` says so (SP-4.5, SP-9.4).
    #[cfg_attr(feature = "component", component(name = "gone"))]
    Gone,
    /// Something else; for the log.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(String),
}

/// What is known of an allocation (SP-3.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct SandboxInfo {
    /// Native id; none if it never got one (SP-14.4).
    #[cfg_attr(feature = "component", component(name = "native-id"))]
    pub native_id: Option<String>,
    /// Native state.
    pub state: SandboxState,
    /// The last changing step of the hand-off is done; proves no connection (SP-5.7, SP-14.6).
    #[cfg_attr(feature = "component", component(name = "bootstrap-complete"))]
    pub bootstrap_complete: bool,
    /// The original create can change nothing any more; not the same as success.
    #[cfg_attr(feature = "component", component(name = "create-settled"))]
    pub create_settled: bool,
    /// End of the native lease, milliseconds since 1970, where there is one.
    #[cfg_attr(feature = "component", component(name = "lease-until-ms"))]
    pub lease_until_ms: Option<u64>,
    /// The last suspend or resume that the native side shows, by its operation id (SP-6.3).
    pub operation: Option<String>,
    /// For people: node, image, isolation level; no secret (LOC-003).
    pub facts: Vec<Pair>,
}

/// A settled no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Rejection {
    /// Fixed code, `[a-z0-9_]{1,64}`.
    pub code: String,
    /// A settled resource that remains for `kill`, such as one of the wrong size (SP-4.7, SP-5.6, SP-13.2); none = nothing was made.
    pub remains: Option<SandboxInfo>,
}

/// Not knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Doubt {
    /// Fixed code.
    pub code: String,
    /// Evidence that came all the same; kept, never called success (SP-4.7).
    pub evidence: Option<SandboxInfo>,
}

/// The six results, and no other way to answer (SP-3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Outcome {
    /// Confirmed.
    #[cfg_attr(feature = "component", component(name = "done"))]
    Done(SandboxInfo),
    /// Certainly nothing was changed beyond `remains`; `unsupported_operation` before any native call (SP-3.1).
    #[cfg_attr(feature = "component", component(name = "rejected"))]
    Rejected(Rejection),
    /// The identity is taken by an owned resource.
    #[cfg_attr(feature = "component", component(name = "exists"))]
    Exists(SandboxInfo),
    /// A missing observation, not proof of absence (SP-4.5).
    #[cfg_attr(feature = "component", component(name = "not-found"))]
    NotFound,
    /// A resource has the name but not our labels; it was not touched.
    #[cfg_attr(feature = "component", component(name = "not-ours"))]
    NotOurs,
    /// Anything else.
    #[cfg_attr(feature = "component", component(name = "unknown"))]
    Unknown(Doubt),
}

/// How a provider treats a wished resource (SP-2.4, SP-2.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum ResourceUse {
    /// Enforced.
    #[cfg_attr(feature = "component", component(name = "applied"))]
    Applied,
    /// Must equal what the selection fixes; taken from it when absent.
    #[cfg_attr(feature = "component", component(name = "fixed"))]
    Fixed,
    /// Refused.
    #[cfg_attr(feature = "component", component(name = "refused"))]
    Refused,
}

#[cfg(target_arch = "wasm32")]
impl ResourceUse {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Applied,
            1 => Self::Fixed,
            _ => Self::Refused,
        }
    }
}

/// Which resources count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ResourceSupport {
    /// Processors.
    pub cpus: ResourceUse,
    /// Memory.
    pub memory: ResourceUse,
    /// Root disk.
    #[cfg_attr(feature = "component", component(name = "root-disk"))]
    pub root_disk: ResourceUse,
    /// Environment disk.
    #[cfg_attr(feature = "component", component(name = "environment-disk"))]
    pub environment_disk: ResourceUse,
}

/// One offered size (API-050).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct SizeOffer {
    /// Such as `S`.
    pub id: String,
    /// What it means.
    pub resources: Resources,
}

/// One offered image (API-064).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ImageOffer {
    /// `^[a-z0-9][a-z0-9-]{0,31}$`.
    pub id: String,
    /// Smallest size id it works with (API-066).
    #[cfg_attr(feature = "component", component(name = "minimum-size"))]
    pub minimum_size: Option<String>,
}

/// Abilities, each said explicitly (SP-3.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ProviderAbilities {
    /// Stop and start keeping disks (SP-8.9).
    #[cfg_attr(feature = "component", component(name = "suspend-cold"))]
    pub suspend_cold: bool,
    /// Memory survives too.
    #[cfg_attr(feature = "component", component(name = "suspend-warm"))]
    pub suspend_warm: bool,
    /// `observe` works.
    pub observe: bool,
    /// A create with a lost answer is settled by its lease running out (SP-4.6).
    #[cfg_attr(feature = "component", component(name = "settle-by-expiry"))]
    pub settle_by_expiry: bool,
    /// … by occupying its name.
    #[cfg_attr(feature = "component", component(name = "settle-by-name"))]
    pub settle_by_name: bool,
    /// `create` with `finish` works after a restart of Core (SP-5.8, SP-5.9).
    #[cfg_attr(feature = "component", component(name = "finish-bootstrap"))]
    pub finish_bootstrap: bool,
    /// Enforces `disabled` (SP-16.5).
    #[cfg_attr(feature = "component", component(name = "network-disabled"))]
    pub network_disabled: bool,
    /// Enforces `restricted`.
    #[cfg_attr(feature = "component", component(name = "network-restricted"))]
    pub network_restricted: bool,
    /// Builds or chooses an image with system packages before compute starts (API-102).
    #[cfg_attr(feature = "component", component(name = "system-packages"))]
    pub system_packages: bool,
    /// Needs a Core URL that other machines reach (SP-2.9).
    #[cfg_attr(feature = "component", component(name = "public-core-url"))]
    pub public_core_url: bool,
}

/// What a provider is, under given settings; admission reads only this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ProviderDeclaration {
    /// `[a-z0-9-]{1,32}`, equal to the manifest's.
    pub id: String,
    /// For people.
    #[cfg_attr(feature = "component", component(name = "display-name"))]
    pub display_name: String,
    /// Abilities.
    pub abilities: ProviderAbilities,
    /// Resources.
    pub resources: ResourceSupport,
    /// Offered sizes; empty = none.
    pub sizes: Vec<SizeOffer>,
    /// Offered images; empty = stored and not applied (API-067).
    pub images: Vec<ImageOffer>,
    /// Longest native lease in milliseconds; absent = no leases (SP-7.3).
    #[cfg_attr(feature = "component", component(name = "longest-lease-ms"))]
    pub longest_lease_ms: Option<u32>,
    /// Workspace deleted after so many idle seconds; absent = retained (SP-7.5).
    #[cfg_attr(feature = "component", component(name = "ephemeral-workspace-s"))]
    pub ephemeral_workspace_s: Option<u32>,
    /// Bytes of a workspace (LOC-013).
    #[cfg_attr(feature = "component", component(name = "workspace-limit-bytes"))]
    pub workspace_limit_bytes: Option<u64>,
    /// Bytes of a Session's Artifacts (API-039).
    #[cfg_attr(
        feature = "component",
        component(name = "artifact-session-limit-bytes")
    )]
    pub artifact_session_limit_bytes: Option<u64>,
    /// Default number of running sandboxes (SP-10.1).
    #[cfg_attr(feature = "component", component(name = "max-active"))]
    pub max_active: u32,
    /// Default number of running and suspended ones.
    #[cfg_attr(feature = "component", component(name = "max-retained"))]
    pub max_retained: u32,
    /// For people: isolation level, enforced limits (LOC-003).
    pub facts: Vec<Pair>,
    /// Growth without a new contract.
    pub more: Vec<Extra>,
}

/// What `describe` and `check` look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Selection {
    /// The settings in question, without the secret ones.
    pub settings: Vec<Pair>,
    /// The deployment's resources for each sandbox.
    pub resources: Resources,
    /// Names of optional abilities of this host.
    #[cfg_attr(feature = "component", component(name = "host-features"))]
    pub host_features: Vec<String>,
}

/// Whether sandboxes can be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Health {
    /// Yes or no.
    pub ready: bool,
    /// The first failing test, one of the fixed codes (SP-12.1).
    pub code: Option<String>,
    /// Resources after what the selection fixes was filled in (E2B's template).
    pub resolved: Resources,
    /// For people.
    pub facts: Vec<Pair>,
}

/// One native resource with our installation label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Owned {
    /// Its labels, if they are complete.
    pub allocation: Option<Allocation>,
    /// Native id.
    #[cfg_attr(feature = "component", component(name = "native-id"))]
    pub native_id: String,
    /// Native state.
    pub state: SandboxState,
    /// When it was made, milliseconds since 1970, if known.
    #[cfg_attr(feature = "component", component(name = "created-at-ms"))]
    pub created_at_ms: Option<u64>,
}

/// A page of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct OwnedPage {
    /// At most 100.
    pub entries: Vec<Owned>,
    /// Where to go on, or none.
    pub next: Option<String>,
}

/// Measurements of one sandbox; absent = not known, never zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Measurement {
    /// Whose.
    pub allocation: Allocation,
    /// Thousandths of one processor.
    #[cfg_attr(feature = "component", component(name = "cpu-milli"))]
    pub cpu_milli: Option<u32>,
    /// Memory in use.
    #[cfg_attr(feature = "component", component(name = "memory-bytes"))]
    pub memory_bytes: Option<u64>,
    /// Disk in use.
    #[cfg_attr(feature = "component", component(name = "disk-bytes"))]
    pub disk_bytes: Option<u64>,
}
