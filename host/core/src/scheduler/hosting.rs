//! The deployment's sandbox provider, as this Core uses it (SP-2.1).

use std::time::Duration;

use domain::InstallationId;
use domain::allocation::Allocation;
use domain::provider::{
    AllocationRef, NetworkPolicy, Outcome, ProviderDeclaration, Resources, SandboxSpec,
};
use domain::run::PluginIdentity;
use plugin_host::contract::manifest::Capability;
use plugin_host::providers::{BootstrapFile, DaemonStart, ProviderHandle, Target};

/// Budget of one native call (SP-3.4).
const BUDGET: Duration = Duration::from_secs(60);

/// A provider as one generation of the selection has it.
pub struct Hosting {
    handle: ProviderHandle,
    /// Generation of the selection, and its settings with the defaults of the rest (SP-2.6).
    selection: (u64, Vec<(String, String)>),
    /// What it declares; none until it was asked.
    declaration: Option<ProviderDeclaration>,
    installation: InstallationId,
    /// Core's address as the sandbox sees it.
    core_url: String,
}

/// Why hosted Environments are refused by this Core: a fixed code of the provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox provider cannot be used: {code}")]
pub struct NotHosting {
    /// Fixed code.
    pub code: String,
}

impl Hosting {
    /// Asks nothing: good for what this generation made already (SP-2.11).
    pub fn new(
        handle: ProviderHandle,
        selection: (u64, Vec<(String, String)>),
        installation: InstallationId,
        core_url: String,
    ) -> Self {
        Self {
            handle,
            selection,
            declaration: None,
            installation,
            core_url,
        }
    }

    /// Asks the provider what it is and whether it is ready; creates nothing (SP-2.3, SP-12.1).
    ///
    /// # Errors
    /// Its code, when hosted Environments cannot be offered.
    pub async fn make_ready(&mut self) -> Result<(), NotHosting> {
        let described = self.handle.describe().await;
        let declaration = described.map_err(|failure| NotHosting { code: failure.code })?;
        self.check().await?;
        self.declaration = Some(declaration);
        Ok(())
    }

    /// Asks the provider whether it is ready (SP-12.1).
    ///
    /// # Errors
    /// Its code.
    pub async fn check(&self) -> Result<(), NotHosting> {
        let health = self.handle.check().await;
        if health.ready {
            return Ok(());
        }
        let code = health.code.unwrap_or_else(|| "not_ready".to_owned());
        Err(NotHosting { code })
    }

    /// Id of its plugin.
    pub(crate) fn id(&self) -> &str {
        self.handle.id()
    }

    /// The plugin that it is.
    pub(crate) fn plugin(&self) -> PluginIdentity {
        self.handle.plugin()
    }

    /// Its sandboxes are on the machine of this Core, and no other Core of the database can reach them.
    pub(super) fn is_on_this_machine(&self) -> bool {
        self.handle.granted().contains(&Capability::Machine)
    }

    /// Generation of the deployment's selection.
    pub(super) fn generation(&self) -> u64 {
        self.selection.0
    }

    /// Most allocations that may hold compute (SP-10.1); none before it is ready.
    pub(super) fn max_active(&self) -> u32 {
        self.declaration
            .as_ref()
            .map_or(0, |declaration| declaration.max_active)
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

    /// Removes everything of an allocation. A create that may still land is kept from it where the provider can do that
    /// (SP-4.6).
    pub(super) async fn kill(&self, on: &Allocation) -> Outcome {
        let fence = !on.create_settled && self.settles_by_name().await;
        self.handle.kill(self.target(on), fence).await
    }

    /// Whether it can make sure that a lost create never lands; no, while it does not say so.
    pub(super) async fn settles_by_name(&self) -> bool {
        match &self.declaration {
            Some(declaration) => declaration.abilities.settle_by_name,
            None => {
                let described = self.handle.describe().await;
                described.is_ok_and(|declaration| declaration.abilities.settle_by_name)
            }
        }
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
            settings: self.selection.1.clone(),
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
