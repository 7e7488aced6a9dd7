//! The provider `local`: a hosted Environment on Core's own machine, the embedded default (`local-provider.md`).
//!
//! It opens nothing itself: every operation is one call of the capability `machine`, and what can be seen inside a
//! sandbox is data ([`view`]). It has no settings, keeps nothing, and its network is the machine's.

mod declare;
mod operations;
pub mod view;

use sdk::common::Failure;
use sdk::sandbox_types::{
    Bootstrap, CreateKind, Health, Measurement, Outcome, OwnedPage, ProviderDeclaration, Selection,
    Target,
};
use sdk::{Host, SandboxProvider};

/// The provider.
pub struct Local;

sdk::sandbox_plugin!(include_str!("../plugin.toml"), || Box::new(Local));

impl SandboxProvider for Local {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, host: &dyn Host, on: &Selection) -> Result<ProviderDeclaration, Failure> {
        declare::describe(&host.machine().probe(), on)
    }

    fn check(&self, host: &dyn Host, on: &Selection) -> Health {
        declare::check(&host.machine().probe(), on)
    }

    fn create(
        &self,
        host: &dyn Host,
        on: &Target,
        kind: CreateKind,
        bootstrap: &Bootstrap,
    ) -> Outcome {
        operations::create(host.machine(), on, kind, bootstrap)
    }

    fn inspect(&self, host: &dyn Host, on: &Target) -> Outcome {
        operations::inspect(host.machine(), on)
    }

    /// No leases: an observation (SP-7.3).
    fn renew(&self, host: &dyn Host, on: &Target, _until_ms: u64) -> Outcome {
        operations::inspect(host.machine(), on)
    }

    fn suspend(&self, _host: &dyn Host, _on: &Target, _operation: &str, _warm: bool) -> Outcome {
        operations::unsupported()
    }

    fn resume(&self, _host: &dyn Host, _on: &Target, _operation: &str) -> Outcome {
        operations::unsupported()
    }

    fn kill(&self, host: &dyn Host, on: &Target, _fence_name: bool) -> Outcome {
        operations::kill(host.machine(), on)
    }

    fn list_owned(
        &self,
        host: &dyn Host,
        _on: &Selection,
        installation: &str,
        cursor: Option<&str>,
    ) -> Result<OwnedPage, Failure> {
        operations::list_owned(host.machine(), installation, cursor)
    }

    fn observe(&self, host: &dyn Host, on: &[Target]) -> Result<Vec<Measurement>, Failure> {
        Ok(operations::observe(host.machine(), on))
    }
}

#[cfg(test)]
mod tests;
