//! All plugins of one process: those that are linked in, and the files of the plugin folder.
//!
//! A file of the folder that has the id of a linked plugin takes its place; two files with one id are both refused. A file
//! that is refused leaves everything else as it is, and its reason is kept for whoever asks.

#[cfg(feature = "native")]
mod copy;
mod file;
pub mod folder;
mod grants;
mod refusal;
pub mod section;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use contract::manifest::{Capability, Kind, Manifest};
use contract::{HarnessAdapter, McpResolver, SandboxProvider, registry};
use domain::run::PluginIdentity;

pub use file::{PluginFile, judged};
pub use grants::{GrantedProgram, Grants, GrantsError};
pub use refusal::{Refusal, Refused};
pub use trust::{Trust, TrustError, beside as signature_of};

use crate::PluginError;
use crate::transport::{Health, PluginLog};

/// Largest plugin file.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// Compiled components and copies of libraries, below the plugin folder.
const CACHE: &str = ".cache";

/// Where plugins are and what they may be.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The plugin folder; none, or one that does not exist = only linked plugins.
    pub folder: Option<PathBuf>,
    /// Native libraries may be loaded. They are trusted code.
    pub allow_native: bool,
    /// Only files that a trusted key signed are loaded; what is linked in needs none.
    pub require_signed: bool,
}

impl Settings {
    pub(crate) fn cache(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(CACHE))
    }
}

/// How a plugin is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Linked into this program.
    BuiltIn,
    /// A WASM component in its sandbox.
    Component,
    /// A native library: trusted code, in this process.
    Native,
}

impl Transport {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::Component => "component",
            Self::Native => "native (trusted)",
        }
    }
}

/// What a plugin is to the host: its driver trait.
#[derive(Clone)]
pub enum Driver {
    /// A harness adapter.
    Harness(Arc<dyn HarnessAdapter>),
    /// A sandbox provider.
    Sandbox(Arc<dyn SandboxProvider>),
    /// An MCP resolver.
    Resolver(Arc<dyn McpResolver>),
}

/// One loaded plugin.
#[derive(Clone)]
pub struct Plugin {
    /// What it says about itself.
    pub manifest: Manifest,
    /// How it is called.
    pub transport: Transport,
    /// SHA-256 of its file; none if it is linked in.
    pub digest: Option<String>,
    /// Its file; none if it is linked in.
    pub path: Option<PathBuf>,
    /// What it may use.
    pub granted: BTreeSet<Capability>,
    /// The programs that it may start, by the names in its manifest.
    pub programs: BTreeMap<String, GrantedProgram>,
    /// The operator's name for the key that signed it; none = no signature was looked at.
    pub signed_by: Option<String>,
    /// How it has behaved.
    pub health: Arc<Health>,
    /// It.
    pub driver: Driver,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("id", &self.manifest.id)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

/// All plugins of one process.
#[derive(Debug, Clone)]
pub struct Plugins {
    loaded: BTreeMap<String, Arc<Plugin>>,
    refused: Vec<Arc<Refused>>,
    stamp: Stamp,
}

/// The plugin files and their times, to see that something changed.
pub type Stamp = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

impl Plugins {
    /// Only the linked plugins.
    ///
    /// # Errors
    /// One of them is broken, which its own tests show.
    pub fn built_in() -> Result<Self, PluginError> {
        Self::open(&Settings::default())
    }

    /// The linked plugins and those of the folder. A file that is refused is no error.
    ///
    /// # Errors
    /// A linked plugin is broken, which its own tests show.
    pub fn open(settings: &Settings) -> Result<Self, PluginError> {
        let mut plugins = Self {
            loaded: linked()?,
            refused: Vec::new(),
            stamp: stamp(settings),
        };
        let Some(folder) = &settings.folder else {
            return Ok(plugins);
        };
        let grants = Grants::read(folder).map_err(|error| error.to_string());
        let mut files: BTreeMap<String, PluginFile> = BTreeMap::new();
        let mut twice: BTreeSet<String> = BTreeSet::new();
        for path in candidates(folder) {
            match PluginFile::read(&path) {
                Ok(file) => {
                    let id = file.manifest.id.clone();
                    if let Some(other) = files.get(&id) {
                        plugins.refuse_both(&id, &path, &other.path.clone());
                        twice.insert(id);
                    } else {
                        files.insert(id, file);
                    }
                }
                Err(reason) => plugins.refuse(&path, reason),
            }
        }
        files.retain(|id, _| !twice.contains(id));
        for (id, file) in files {
            let grants = match &grants {
                Ok(grants) => grants,
                Err(error) => {
                    plugins.refuse(&file.path, Refusal::Grants(error.clone()));
                    continue;
                }
            };
            match file.load(&grants.of(&file.digest), settings) {
                Ok(mut plugin) => {
                    plugin.programs = grants.programs_of(&file.digest);
                    plugins.loaded.insert(id, Arc::new(plugin));
                }
                Err(reason) => plugins.refuse(&file.path, reason),
            }
        }
        Ok(plugins)
    }

    /// All of them, by id.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.loaded.values()
    }

    /// The one of this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<Plugin>> {
        self.loaded.get(id)
    }

    /// The files that were refused.
    #[must_use]
    pub fn refused(&self) -> &[Arc<Refused>] {
        &self.refused
    }

    /// Whether the folder holds other files than when these were loaded.
    #[must_use]
    pub fn is_stale(&self, settings: &Settings) -> bool {
        self.stamp != stamp(settings)
    }

    fn refuse(&mut self, path: &Path, reason: Refusal) {
        let refused = Refused {
            path: path.to_owned(),
            reason,
        };
        tracing::error!(%refused, "a plugin is not loaded");
        self.refused.push(Arc::new(refused));
    }

    fn refuse_both(&mut self, id: &str, one: &Path, two: &Path) {
        for (path, other) in [(one, two), (two, one)] {
            let reason = Refusal::Twice {
                id: id.to_owned(),
                other: other.to_owned(),
            };
            self.refuse(path, reason);
        }
    }
}

fn linked() -> Result<BTreeMap<String, Arc<Plugin>>, PluginError> {
    contract::sink::set(|level, message, fields| {
        static LOG: LazyLock<PluginLog> = LazyLock::new(|| PluginLog::new("built in"));
        LOG.emit(level, message, fields);
    });
    let harnesses = registry::harnesses().map(|plugin| {
        let driver = Driver::Harness((plugin.create)().into());
        (plugin.manifest, Kind::Harness, driver)
    });
    let sandboxes = registry::sandboxes().map(|plugin| {
        let driver = Driver::Sandbox((plugin.create)().into());
        (plugin.manifest, Kind::SandboxProvider, driver)
    });
    let resolvers = registry::resolvers().map(|plugin| {
        let driver = Driver::Resolver((plugin.create)().into());
        (plugin.manifest, Kind::McpResolver, driver)
    });
    let mut loaded = BTreeMap::new();
    for (text, kind, driver) in harnesses.chain(sandboxes).chain(resolvers) {
        let plugin = Plugin::built_in(text, kind, driver)?;
        let id = plugin.manifest.id.clone();
        if loaded.insert(id.clone(), Arc::new(plugin)).is_some() {
            return Err(PluginError::Twice(id));
        }
    }
    Ok(loaded)
}

impl Plugin {
    /// What is kept of it with whatever it serves.
    #[must_use]
    pub fn identity(&self) -> PluginIdentity {
        PluginIdentity {
            id: self.manifest.id.clone(),
            version: self.manifest.version.clone(),
            digest: self.digest.clone(),
        }
    }

    /// A linked plugin. It was reviewed with this program, so it has everything that its manifest asks for.
    ///
    /// # Errors
    /// The manifest breaks a rule or is of another kind.
    pub(crate) fn built_in(text: &str, kind: Kind, driver: Driver) -> Result<Self, PluginError> {
        let manifest: Manifest = toml::from_str(text)?;
        manifest
            .check()
            .map_err(|error| PluginError::Manifest(manifest.id.clone(), error))?;
        if manifest.kind != kind {
            return Err(PluginError::Kind(manifest.id));
        }
        Ok(Self {
            granted: manifest.permissions.keys().copied().collect(),
            programs: BTreeMap::new(),
            manifest,
            transport: Transport::BuiltIn,
            digest: None,
            path: None,
            signed_by: None,
            health: Arc::default(),
            driver,
        })
    }
}

/// The files of the folder that could be plugins, in the order of their names.
fn candidates(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let plugin = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let visible = path
            .file_name()
            .is_some_and(|name| !name.to_string_lossy().starts_with('.'));
        visible && matches!(ending, Some("wasm" | "so" | "dylib")) && path.is_file()
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(plugin)
        .collect();
    found.sort();
    found
}

fn stamp(settings: &Settings) -> Stamp {
    let Some(folder) = &settings.folder else {
        return Stamp::new();
    };
    let mut files = candidates(folder);
    let signatures: Vec<_> = files.iter().map(|path| signature_of(path)).collect();
    files.extend(signatures);
    files.push(folder.join("grants.toml"));
    files.push(Trust::file(folder));
    let stamped = files.into_iter().filter_map(|path| {
        let data = std::fs::metadata(&path).ok()?;
        Some((path, (data.len(), data.modified().ok())))
    });
    stamped.collect()
}
