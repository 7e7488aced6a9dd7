//! The harness adapters of this process.

use std::sync::Arc;

use contract::{
    HarnessAdapter,
    manifest::{Harness as Install, ManifestError},
};
use domain::run::{HarnessDeclaration, PluginIdentity};
use semver::{Version, VersionReq};

use crate::load::{Driver, Plugin, Plugins, Transport};
use crate::translate::harness::{DeclarationError, declaration};
use crate::transport::Health;

/// One harness: its adapter, what it declares, and how its program is installed and checked.
#[derive(Clone)]
pub struct Harness {
    /// Runs it.
    pub adapter: Arc<dyn HarnessAdapter>,
    /// What it can do.
    pub declaration: HarnessDeclaration,
    /// Package, pin, range, paths and probe commands.
    pub install: Install,
    /// Contract version that the adapter was written against.
    pub contract: String,
    /// The plugin.
    pub plugin: PluginIdentity,
    /// How the plugin has behaved.
    pub health: Arc<Health>,
    /// Versions that may run.
    pub range: VersionReq,
}

impl std::fmt::Debug for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness")
            .field("id", &self.declaration.id)
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

/// Why a plugin cannot be used. All of it is a mistake in the plugin, found by its own tests.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// `plugin.toml` cannot be read.
    #[error("the manifest is no manifest: {0}")]
    Toml(#[from] toml::de::Error),
    /// `plugin.toml` breaks a rule.
    #[error("the manifest of {0}: {1}")]
    Manifest(String, ManifestError),
    /// It is of another kind than the registry it stands in.
    #[error("{0} is a plugin of another kind")]
    Kind(String),
    /// The range or a pin is no version.
    #[error("{0}: {1:?} is not a version requirement")]
    Range(String, String),
    /// It cannot describe itself with these settings.
    #[error("{0} cannot describe itself: {1}")]
    Describe(String, String),
    /// It describes itself wrongly.
    #[error("{0} declares a harness wrongly: {1}")]
    Declaration(String, DeclarationError),
    /// A declaration names an install entry that is not there.
    #[error("{0} has no install entry {1:?}")]
    Install(String, String),
    /// Two plugins declare the same harness, or have the same id.
    #[error("{0:?} is declared twice")]
    Twice(String),
}

impl Harness {
    /// Whether this version may run: the pin, or one in the qualified range (HAR-002).
    #[must_use]
    pub fn accepts(&self, version: &str) -> bool {
        self.accepted(version).is_some()
    }

    /// The version, in the order of versions, if it may run.
    #[must_use]
    pub fn accepted(&self, version: &str) -> Option<Version> {
        let version = Version::parse(version).ok()?;
        self.range.matches(&version).then_some(version)
    }
}

impl Plugins {
    /// All harnesses, the default first. A file whose declaration is wrong is left out with a word in the log.
    ///
    /// # Errors
    /// The first [`PluginError`] of a linked plugin.
    pub fn harnesses(&self) -> Result<Vec<Harness>, PluginError> {
        let mut found: Vec<Harness> = Vec::new();
        for plugin in self.all() {
            let Driver::Harness(adapter) = &plugin.driver else {
                continue;
            };
            match declared(plugin, adapter, &found) {
                Ok(harnesses) => found.extend(harnesses),
                Err(error) if plugin.transport == Transport::BuiltIn => return Err(error),
                Err(error) => {
                    tracing::error!(plugin = plugin.manifest.id, %error, "a plugin is not used");
                }
            }
        }
        found.sort_by_key(|harness| harness.declaration.rank);
        Ok(found)
    }
}

/// The harnesses of one plugin.
fn declared(
    plugin: &Plugin,
    adapter: &Arc<dyn HarnessAdapter>,
    known: &[Harness],
) -> Result<Vec<Harness>, PluginError> {
    let manifest = &plugin.manifest;
    let name = || manifest.id.clone();
    let described = adapter
        .describe(&[])
        .map_err(|failure| PluginError::Describe(name(), failure.code))?;
    let mut found: Vec<Harness> = Vec::new();
    for declared in described {
        let declaration =
            declaration(declared).map_err(|error| PluginError::Declaration(name(), error))?;
        let install = manifest
            .harnesses
            .iter()
            .find(|entry| entry.id == declaration.install)
            .cloned()
            .ok_or_else(|| PluginError::Install(name(), declaration.install.clone()))?;
        let range = VersionReq::parse(&install.range)
            .map_err(|_| PluginError::Range(name(), install.range.clone()))?;
        let same = |other: &Harness| other.declaration.id == declaration.id;
        if known.iter().chain(&found).any(same) {
            return Err(PluginError::Twice(declaration.id.to_string()));
        }
        found.push(Harness {
            adapter: Arc::clone(adapter),
            declaration,
            install,
            contract: manifest.contract.clone(),
            plugin: plugin.identity(),
            health: Arc::clone(&plugin.health),
            range,
        });
    }
    Ok(found)
}
