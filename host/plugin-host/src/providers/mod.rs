//! Sandbox providers as Core uses them: found, checked, granted, and called under a deadline.
//!
//! - [`Provider`]: one of them, as it was loaded;
//! - [`ProviderHandle`]: one of them, in our own words, each call on a thread of its own;
//! - `host`: what a call may reach: only what the manifest asks for and the operator granted.

mod call;
mod fill;
mod handle;
mod host;
mod http;
mod machine;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::SandboxProvider;
use contract::manifest::{Capability, Kind, Manifest};

pub use call::{BootstrapFile, DaemonStart, Target};
pub use handle::{Chosen, ProviderFailure, ProviderHandle, SecretSettings, secret_key};
pub use host::{ProviderMemory, RememberError, Scope};

use crate::load::GrantedProgram;
use crate::{Driver, Plugin, PluginError, Plugins};

/// One provider and what its manifest says.
#[derive(Clone)]
pub struct Provider {
    pub(crate) plugin: Arc<dyn SandboxProvider>,
    /// Id, version, permissions with reasons, settings.
    pub manifest: Manifest,
    /// What it was granted.
    pub granted: BTreeSet<Capability>,
    /// The programs that it may start, by the names in its manifest.
    pub programs: BTreeMap<String, GrantedProgram>,
    /// SHA-256 of its file; none if it is linked in.
    pub digest: Option<String>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider")
            .field("id", &self.manifest.id)
            .finish_non_exhaustive()
    }
}

impl Provider {
    /// Takes a provider with the text of its `plugin.toml`.
    ///
    /// # Errors
    /// The manifest breaks a rule.
    pub fn new(plugin: Arc<dyn SandboxProvider>, manifest: &str) -> Result<Self, PluginError> {
        let plugin = Plugin::built_in(manifest, Kind::SandboxProvider, Driver::Sandbox(plugin))?;
        let Driver::Sandbox(driver) = plugin.driver else {
            return Err(PluginError::Kind(plugin.manifest.id));
        };
        Ok(Self {
            plugin: driver,
            manifest: plugin.manifest,
            granted: plugin.granted,
            programs: plugin.programs,
            digest: None,
        })
    }

    /// Everything that it asks for.
    pub fn wanted(&self) -> BTreeSet<Capability> {
        self.manifest.permissions.keys().copied().collect()
    }
}

impl Plugins {
    /// All sandbox providers, by id.
    pub fn providers(&self) -> impl Iterator<Item = Provider> {
        self.all()
            .filter_map(|plugin| self.provider(&plugin.manifest.id))
    }

    /// The sandbox provider of this id.
    #[must_use]
    pub fn provider(&self, id: &str) -> Option<Provider> {
        let plugin = self.get(id)?;
        let Driver::Sandbox(provider) = &plugin.driver else {
            return None;
        };
        Some(Provider {
            plugin: Arc::clone(provider),
            manifest: plugin.manifest.clone(),
            granted: plugin.granted.clone(),
            programs: plugin.programs.clone(),
            digest: plugin.digest.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
