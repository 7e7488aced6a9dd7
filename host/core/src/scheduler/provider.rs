//! The port to the deployment's sandbox provider, in the words of `sandbox-providers.md` 3. The plugin host implements it
//! over whatever plugin the operator selected; tests implement it with a script.

use std::fmt::Debug;

use domain::allocation::Allocation;
use domain::{InstallationId, Secret};
use futures_util::future::BoxFuture;

/// The identity that every operation verifies natively (SP-3.2).
#[derive(Debug, Clone)]
pub struct ProviderTarget {
    /// This installation.
    pub installation: InstallationId,
    /// The allocation: its tenant, Environment, native id and generation.
    pub allocation: Allocation,
}

/// Whether a native resource may be made (SP-4.3, SP-5.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateKind {
    /// Once for each allocation, ever.
    New,
    /// Only finishes the hand-off to what is there.
    Finish,
}

/// How the daemon gets into the sandbox (SP-5.2): the whole bootstrap file, as one secret.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    /// JSON, at most 16 KiB.
    pub file: Secret,
    /// Core's address as the sandbox sees it.
    pub core_url: String,
}

/// Native state (SP-3.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeState {
    /// Being made or booted.
    Starting,
    /// Runs.
    Running,
    /// Disks kept, no compute.
    Suspended,
    /// Ended by itself; disks kept.
    Stopped,
    /// Nothing of it is left; only `kill` says so (SP-4.5).
    Gone,
    /// Something else.
    Other,
}

/// What is known of a native resource (SP-3.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeInfo {
    /// Native id, if it has one.
    pub native_id: Option<String>,
    /// Native state.
    pub state: NativeState,
    /// The last changing step of the hand-off is done.
    pub bootstrap_complete: bool,
    /// The original create can change nothing any more.
    pub create_settled: bool,
}

/// The six results, and no other answer (SP-3.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderOutcome {
    /// Confirmed.
    Done(NativeInfo),
    /// Certainly nothing was changed beyond what remains for `kill`.
    Rejected {
        /// Fixed code, for the log.
        code: String,
        /// A settled resource that remains.
        remains: bool,
    },
    /// The identity is taken by an owned resource.
    Exists(NativeInfo),
    /// A missing observation, not proof of absence.
    NotFound,
    /// A resource has the name but not our labels.
    NotOurs,
    /// Anything else.
    Unknown {
        /// Fixed code, for the log.
        code: String,
    },
}

/// The deployment's provider.
pub trait Provider: Send + Sync + Debug {
    /// Its id, stored with each allocation.
    fn id(&self) -> &str;

    /// Generation of the deployment's selection (SP-2.1).
    fn generation(&self) -> u64;

    /// Most allocations that may hold compute; `None` = no limit (SP-10.1).
    fn max_active(&self) -> Option<u32>;

    /// One native create and the start of the daemon.
    fn create(
        &self,
        on: ProviderTarget,
        kind: CreateKind,
        bootstrap: Bootstrap,
    ) -> BoxFuture<'_, ProviderOutcome>;

    /// Reads only.
    fn inspect(&self, on: ProviderTarget) -> BoxFuture<'_, ProviderOutcome>;

    /// Removes compute and every disk, and confirms it.
    fn kill(&self, on: ProviderTarget) -> BoxFuture<'_, ProviderOutcome>;
}
