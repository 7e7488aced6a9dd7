//! One plugin file: read, judged by what it says about itself, and only then loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::manifest::{Capability, Kind, Manifest};
use semver::Version;
use sha2::{Digest as _, Sha256};

use super::section::{self, Format};
use super::{Driver, MOST_BYTES, Plugin, Refusal, Settings, Transport, Trust};
use crate::translate::dialect::Dialect;
use crate::transport::{Health, PluginLog};

/// A plugin file and what it says about itself; nothing of it has run.
pub struct PluginFile {
    /// Where it is.
    pub path: PathBuf,
    /// Component or library.
    pub transport: Transport,
    /// Its `plugin.toml`.
    pub manifest: Manifest,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
    text: String,
    /// The manifest is inside the file.
    embedded: bool,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for PluginFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginFile")
            .field("path", &self.path)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl PluginFile {
    /// Reads it and judges its manifest.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn read(path: &Path) -> Result<Self, Refusal> {
        let bytes = bytes(path)?;
        let transport = match section::format(&bytes) {
            Format::Component => Transport::Component,
            Format::Library => Transport::Native,
            Format::CoreModule => return Err(Refusal::CoreModule),
            Format::Unknown => return Err(Refusal::NoPlugin),
        };
        let inside = section::manifest(&bytes);
        let embedded = inside.is_some();
        let text = inside.map_or_else(|| beside(path), Ok)?;
        Ok(Self {
            path: path.to_owned(),
            transport,
            manifest: judged(&text)?,
            digest: hex::encode(Sha256::digest(&bytes)),
            text,
            embedded,
            bytes,
        })
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Everything that it asks for.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<Capability> {
        self.manifest.permissions.keys().copied().collect()
    }

    /// Whose signature it has, by the operator's name for the key; none = none that was looked at.
    ///
    /// # Errors
    /// It is signed by nobody who is trusted, or not at all where that is required.
    pub fn signer(&self, settings: &Settings) -> Result<Option<String>, Refusal> {
        let trust = match &settings.folder {
            Some(folder) => Trust::read(folder),
            None => Ok(Trust::default()),
        };
        let trust = trust.map_err(|error| Refusal::Grants(error.to_string()))?;
        let file = (self.path.as_path(), self.bytes.as_slice(), self.embedded);
        trust.judge(file, settings.require_signed)
    }

    /// Loads it with these grants; this runs it for the first time.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn load(
        &self,
        granted: &BTreeSet<Capability>,
        settings: &Settings,
    ) -> Result<Plugin, Refusal> {
        let signed_by = self.signer(settings)?;
        if let Some(missing) = self.asked().difference(granted).next() {
            return Err(Refusal::NotGranted(name(*missing)));
        }
        let health = Arc::new(Health::default());
        let log = Arc::new(PluginLog::new(&self.manifest.id));
        let driver = match self.transport {
            Transport::Native if !settings.allow_native => return Err(Refusal::NativeNotAllowed),
            Transport::Native => self.native(settings, log, Arc::clone(&health))?,
            _ => self.component(granted, settings, log, Arc::clone(&health))?,
        };
        Ok(Plugin {
            manifest: self.manifest.clone(),
            transport: self.transport,
            digest: Some(self.digest.clone()),
            path: Some(self.path.clone()),
            granted: self.asked(),
            programs: BTreeMap::new(),
            signed_by,
            health,
            driver,
        })
    }

    #[cfg(feature = "wasm")]
    fn component(
        &self,
        granted: &BTreeSet<Capability>,
        settings: &Settings,
        log: Arc<PluginLog>,
        health: Arc<Health>,
    ) -> Result<Driver, Refusal> {
        use crate::transport::wasm::{Cache, Code, CodeError, Harness, Limits, Resolver, Sandbox};

        let kind = self.manifest.kind;
        let cache = Cache::new(settings.cache());
        let load = || -> Result<Driver, CodeError> {
            let permissions = (&self.asked(), granted);
            let limits = Limits::default();
            let file = (self.bytes.as_slice(), self.digest.as_str());
            let code = Code::load(file, kind, permissions, limits, (log, health), &cache)?;
            Ok(match kind {
                Kind::Harness => Driver::Harness(Arc::new(Harness::new(code)?)),
                Kind::SandboxProvider => Driver::Sandbox(Arc::new(Sandbox::new(code)?)),
                Kind::McpResolver => Driver::Resolver(Arc::new(Resolver::new(code)?)),
            })
        };
        load().map_err(|error| Refusal::Transport(error.to_string()))
    }

    #[cfg(not(feature = "wasm"))]
    fn component(
        &self,
        _granted: &BTreeSet<Capability>,
        _settings: &Settings,
        _log: Arc<PluginLog>,
        _health: Arc<Health>,
    ) -> Result<Driver, Refusal> {
        Err(Refusal::NotBuiltIn("components"))
    }

    #[cfg(feature = "native")]
    fn native(
        &self,
        settings: &Settings,
        log: Arc<PluginLog>,
        health: Arc<Health>,
    ) -> Result<Driver, Refusal> {
        use crate::transport::native::{Harness, Library, Resolver, Sandbox};

        if !section::is_whole(&self.bytes) {
            return Err(Refusal::CutShort);
        }
        let copy = super::copy::of(self, settings).map_err(Refusal::Unreadable)?;
        let opened = Library::open(&copy.path, (self.manifest.kind, &self.text), log, health);
        let library = Arc::new(opened.map_err(|error| Refusal::Transport(error.to_string()))?);
        Ok(match self.manifest.kind {
            Kind::Harness => Driver::Harness(Arc::new(Harness(library))),
            Kind::SandboxProvider => Driver::Sandbox(Arc::new(Sandbox(library))),
            Kind::McpResolver => Driver::Resolver(Arc::new(Resolver(library))),
        })
    }

    #[cfg(not(feature = "native"))]
    fn native(
        &self,
        _settings: &Settings,
        _log: Arc<PluginLog>,
        _health: Arc<Health>,
    ) -> Result<Driver, Refusal> {
        Err(Refusal::NotBuiltIn("native libraries"))
    }
}

/// Its name in a manifest.
fn name(capability: Capability) -> String {
    toml::Value::try_from(capability)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The manifest behind its text, as far as the types and its own rules go.
///
/// # Errors
/// See [`Refusal`].
pub fn judged(text: &str) -> Result<Manifest, Refusal> {
    let manifest: Manifest =
        toml::from_str(text).map_err(|error| Refusal::Toml(error.to_string()))?;
    manifest.check()?;
    let version =
        |key, text: &str| Version::parse(text).map_err(|_| Refusal::Version(key, text.to_owned()));
    version("version", &manifest.version)?;
    version("contract", &manifest.contract)?;
    if Dialect::of(&manifest.contract).is_none() {
        return Err(Refusal::Contract(manifest.contract));
    }
    Ok(manifest)
}

fn bytes(path: &Path) -> Result<Vec<u8>, Refusal> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?
            .take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(Refusal::Unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Refusal::TooLarge);
    }
    Ok(bytes)
}

fn beside(path: &Path) -> Result<String, Refusal> {
    match std::fs::read_to_string(path.with_extension("toml")) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Refusal::NoManifest),
        Err(error) => Err(Refusal::Unreadable(error)),
    }
}
