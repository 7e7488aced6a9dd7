//! The harness adapters that are linked into this program.

use std::sync::Arc;

use contract::{
    HarnessAdapter,
    manifest::{Harness as Install, Kind, Manifest, ManifestError},
    registry,
};
use domain::run::HarnessDeclaration;
use semver::{Version, VersionReq};

use crate::translate::harness::{DeclarationError, declaration};

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
    /// The plugin and its version.
    pub plugin: (String, String),
    range: VersionReq,
}

impl std::fmt::Debug for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness")
            .field("id", &self.declaration.id)
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

/// Why a linked plugin cannot be used. All of it is a mistake in the plugin, found by its own tests.
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
        Version::parse(version).is_ok_and(|version| self.range.matches(&version))
    }
}

/// All linked harnesses, the default first.
///
/// # Errors
/// The first [`PluginError`].
pub fn harnesses() -> Result<Vec<Harness>, PluginError> {
    let mut found: Vec<Harness> = Vec::new();
    for plugin in registry::harnesses() {
        let manifest: Manifest = toml::from_str(plugin.manifest)?;
        let name = manifest.id.clone();
        manifest
            .check()
            .map_err(|error| PluginError::Manifest(name.clone(), error))?;
        if manifest.kind != Kind::Harness {
            return Err(PluginError::Kind(name));
        }
        let adapter: Arc<dyn HarnessAdapter> = (plugin.create)().into();
        let described = adapter
            .describe(&[])
            .map_err(|failure| PluginError::Describe(name.clone(), failure.code))?;
        for declared in described {
            let declaration = declaration(declared)
                .map_err(|error| PluginError::Declaration(name.clone(), error))?;
            let install = manifest
                .harnesses
                .iter()
                .find(|entry| entry.id == declaration.install)
                .cloned();
            let install = install
                .ok_or_else(|| PluginError::Install(name.clone(), declaration.install.clone()))?;
            let range = VersionReq::parse(&install.range);
            let range =
                range.map_err(|_| PluginError::Range(name.clone(), install.range.clone()))?;
            if found
                .iter()
                .any(|known| known.declaration.id == declaration.id)
            {
                return Err(PluginError::Twice(declaration.id.to_string()));
            }
            found.push(Harness {
                adapter: Arc::clone(&adapter),
                declaration,
                install,
                contract: manifest.contract.clone(),
                plugin: (name.clone(), manifest.version.clone()),
                range,
            });
        }
    }
    found.sort_by_key(|harness| harness.declaration.rank);
    Ok(found)
}
