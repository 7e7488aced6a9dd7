//! Sandbox providers as Core uses them: found, checked, granted, and called under a deadline.
//!
//! - [`providers`]: those that are linked into this program;
//! - [`ProviderHandle`]: one of them, in our own words, each call on a thread of its own;
//! - `host`: what a call may reach: only what the manifest asks for and the operator granted.

mod call;
mod handle;
mod host;
mod machine;

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::SandboxProvider;
use contract::manifest::{Capability, Kind, Manifest};
use contract::registry;

pub use call::{BootstrapFile, DaemonStart, Target};
pub use handle::{ProviderFailure, ProviderHandle};
pub use host::{ProviderMemory, RememberError, Scope};

use crate::PluginError;

/// One linked provider and what its manifest says.
#[derive(Clone)]
pub struct Provider {
    pub(crate) plugin: Arc<dyn SandboxProvider>,
    /// Id, version, permissions with reasons, settings.
    pub manifest: Manifest,
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
        let manifest: Manifest = toml::from_str(manifest)?;
        manifest
            .check()
            .map_err(|error| PluginError::Manifest(manifest.id.clone(), error))?;
        if manifest.kind != Kind::SandboxProvider {
            return Err(PluginError::Kind(manifest.id));
        }
        Ok(Self { plugin, manifest })
    }

    /// Everything that it asks for.
    pub fn wanted(&self) -> BTreeSet<Capability> {
        self.manifest.permissions.keys().copied().collect()
    }
}

/// All linked providers by id.
///
/// # Errors
/// The first [`PluginError`].
pub fn providers() -> Result<Vec<Provider>, PluginError> {
    let mut found: Vec<Provider> = Vec::new();
    for linked in registry::sandboxes() {
        let provider = Provider::new((linked.create)().into(), linked.manifest)?;
        if found
            .iter()
            .any(|known| known.manifest.id == provider.manifest.id)
        {
            return Err(PluginError::Twice(provider.manifest.id));
        }
        found.push(provider);
    }
    found.sort_by(|a, b| a.manifest.id.cmp(&b.manifest.id));
    Ok(found)
}

#[cfg(test)]
mod tests;
