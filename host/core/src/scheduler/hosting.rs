//! The deployment's sandbox provider, as this Core uses it (SP-2.1).

use std::sync::Arc;
use std::time::Duration;

use domain::allocation::Allocation;
use domain::provider::{
    AllocationRef, NetworkPolicy, Outcome, ProviderDeclaration, Resources, SandboxSpec,
};
use domain::{InstallationId, Secret};
use plugin_host::providers::{DaemonStart, ProviderHandle, Target};

/// Budget of one native call (SP-3.4).
const BUDGET: Duration = Duration::from_secs(60);

/// A provider that was described and is ready.
pub struct Hosting {
    handle: ProviderHandle,
    declaration: ProviderDeclaration,
    installation: InstallationId,
    /// Core's address as the sandbox sees it.
    core_url: String,
}

/// Makes the bytes of the bootstrap file, given the path of the workspace as the daemon will see it (LOC-011).
pub(super) type BootstrapFile = Arc<dyn Fn(&str) -> Secret + Send + Sync>;

/// Why hosted Environments are refused by this Core: a fixed code of the provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox provider cannot be used: {code}")]
pub struct NotHosting {
    /// Fixed code.
    pub code: String,
}

impl Hosting {
    /// Asks the provider what it is and whether it is ready; creates nothing (SP-2.3, SP-12.1).
    ///
    /// # Errors
    /// Its code, when hosted Environments cannot be offered.
    pub async fn open(
        handle: ProviderHandle,
        installation: InstallationId,
        core_url: String,
    ) -> Result<Self, NotHosting> {
        let declaration = handle
            .describe()
            .await
            .map_err(|failure| NotHosting { code: failure.code })?;
        let health = handle.check().await;
        if !health.ready {
            return Err(NotHosting {
                code: health.code.unwrap_or_else(|| "not_ready".to_owned()),
            });
        }
        Ok(Self {
            handle,
            declaration,
            installation,
            core_url,
        })
    }

    pub(super) fn id(&self) -> &str {
        self.handle.id()
    }

    /// Most allocations that may hold compute (SP-10.1).
    pub(super) fn max_active(&self) -> u32 {
        self.declaration.max_active
    }

    pub(super) async fn create(&self, on: &Allocation, file: BootstrapFile) -> Outcome {
        self.handle.create(self.target(on), self.daemon(file)).await
    }

    /// Only finishes the hand-off to what is there (SP-5.8).
    pub(super) async fn finish(&self, on: &Allocation, file: BootstrapFile) -> Outcome {
        self.handle.finish(self.target(on), self.daemon(file)).await
    }

    pub(super) async fn inspect(&self, on: &Allocation) -> Outcome {
        self.handle.inspect(self.target(on)).await
    }

    pub(super) async fn kill(&self, on: &Allocation) -> Outcome {
        self.handle.kill(self.target(on), false).await
    }

    fn daemon(&self, file: BootstrapFile) -> DaemonStart {
        DaemonStart {
            file,
            core_url: self.core_url.clone(),
        }
    }

    fn target(&self, allocation: &Allocation) -> Target {
        Target {
            allocation: AllocationRef {
                installation: self.installation,
                project: allocation.project_id,
                session: allocation.session_id,
                environment: allocation.environment_id,
                id: allocation.id,
                generation: allocation.generation,
            },
            settings: Vec::new(),
            spec: SandboxSpec {
                resources: Resources::default(),
                size: None,
                image: None,
                network: NetworkPolicy::Enabled,
                lease_ms: None,
            },
            native_id: allocation.native_id.clone(),
            budget: BUDGET,
        }
    }
}
