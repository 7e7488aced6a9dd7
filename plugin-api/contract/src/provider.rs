//! `interface sandbox-provider`: straight-line code over the capabilities it was granted.

use crate::common::Failure;
use crate::host::Host;
use crate::sandbox_types::{
    Bootstrap, CreateKind, Health, Measurement, Outcome, OwnedPage, ProviderDeclaration, Selection,
    Target,
};

/// A sandbox provider. It keeps nothing between calls: a target carries identity, frozen settings and spec, and
/// durable facts go to [`crate::State`] (SP-2.6, SP-6.1).
///
/// Calls for one allocation come one after another (SP-3.5) and may block up to `target.budget_ms`; the host never
/// calls from a thread that must not block. An [`Outcome`] is the only answer: there is no second error channel
/// (SP-3.6).
pub trait SandboxProvider: Send + Sync {
    /// Names of optional abilities of this plugin; unknown names are ignored.
    fn features(&self) -> Vec<String>;

    /// The declaration under these settings. No native call but `machine.probe` (SP-2.3).
    ///
    /// # Errors
    /// A fixed code if the settings are invalid.
    fn describe(&self, host: &dyn Host, on: &Selection) -> Result<ProviderDeclaration, Failure>;

    /// Ready? Reads only; creates nothing (SP-12.1).
    fn check(&self, host: &dyn Host, on: &Selection) -> Health;

    /// One native create and the start of the daemon.
    fn create(
        &self,
        host: &dyn Host,
        on: &Target,
        kind: CreateKind,
        bootstrap: &Bootstrap,
    ) -> Outcome;

    /// Reads only; never connects to, renews or resumes.
    fn inspect(&self, host: &dyn Host, on: &Target) -> Outcome;

    /// Extends a native lease to that time (milliseconds since 1970), or only observes (SP-7.3).
    fn renew(&self, host: &dyn Host, on: &Target, until_ms: u64) -> Outcome;

    /// Stops or snapshots, keeping disks; `warm` keeps memory. The operation id is recorded natively (SP-8.3).
    fn suspend(&self, host: &dyn Host, on: &Target, operation: &str, warm: bool) -> Outcome;

    /// Brings it back; never a second time for one operation id.
    fn resume(&self, host: &dyn Host, on: &Target, operation: &str) -> Outcome;

    /// Removes compute and every disk and confirms it (`done` with state `gone`); `fence_name` then occupies the
    /// name so that a lost create can never land (SP-4.6).
    fn kill(&self, host: &dyn Host, on: &Target, fence_name: bool) -> Outcome;

    /// All native resources with the installation's label (SP-9.8).
    ///
    /// # Errors
    /// The listing could not be read.
    fn list_owned(
        &self,
        host: &dyn Host,
        on: &Selection,
        installation: &str,
        cursor: Option<&str>,
    ) -> Result<OwnedPage, Failure>;

    /// Measurements, at most 100 targets; reads only (SP-12.4).
    ///
    /// # Errors
    /// Nothing could be measured.
    fn observe(&self, host: &dyn Host, on: &[Target]) -> Result<Vec<Measurement>, Failure>;
}
