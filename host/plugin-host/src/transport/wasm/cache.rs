//! Compiled components in a folder of our own: loading one takes a millisecond, compiling it half a second and more.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};

use machine::files::is_ours_alone;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::CodeError;
use crate::load::folder;

/// The folder, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache(Option<PathBuf>);

impl Cache {
    /// A folder that only this account and root can write, because what is loaded from it runs as native code; made if it
    /// is missing. One that cannot be used is no cache.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        let usable = folder.filter(|folder| {
            // One that cannot be made, as in a read-only folder, may be there already.
            let _ = folder::prepare(folder);
            is_ours_alone(folder)
        });
        Self(usable)
    }

    /// The compiled component of these bytes.
    ///
    /// # Errors
    /// It is no component.
    pub(super) fn component(
        &self,
        engine: &Engine,
        bytes: &[u8],
        digest: &str,
    ) -> Result<Component, CodeError> {
        let path = self.path(engine, digest);
        if let Some(found) = path.as_deref().and_then(|path| read(engine, path)) {
            return Ok(found);
        }
        let invalid = |error: wasmtime::Error| CodeError::Invalid(format!("{error:#}"));
        let component = Component::from_binary(engine, bytes).map_err(invalid)?;
        if let Some(path) = path
            && let Err(error) = write(&component, &path)
        {
            // A read-only folder is the ordinary case inside a sandbox.
            tracing::debug!(path = %path.display(), %error, "a compiled plugin is not kept");
        }
        Ok(component)
    }

    fn path(&self, engine: &Engine, digest: &str) -> Option<PathBuf> {
        let folder = self.0.as_ref()?;
        // Another version or setting of the engine is another name.
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let settings = hasher.hash_one(engine.precompile_compatibility_hash());
        Some(folder.join(format!("{digest}-{settings:016x}.cwasm")))
    }
}

fn read(engine: &Engine, path: &Path) -> Option<Component> {
    if !path.is_file() {
        return None;
    }
    // SAFETY: the file is in a folder that only this account and root can write (`Cache::new`; inside a sandbox, only
    // Core), it was written there by `write`, whole, from what this engine compiled; its name holds the digest of the
    // source and the settings of the engine.
    let found = unsafe { Component::deserialize_file(engine, path) };
    found
        .inspect_err(|error| {
            tracing::warn!(path = %path.display(), error = format!("{error:#}"), "a compiled plugin cannot be used and is made again");
        })
        .ok()
}

fn write(component: &Component, path: &Path) -> std::io::Result<()> {
    let bytes = component
        .serialize()
        .map_err(|error| std::io::Error::other(format!("{error:#}")))?;
    folder::publish(path, &bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_folder_that_others_may_write_is_no_cache() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("compiled");
        let usable = || Cache::new(Some(folder.clone())).0.is_some();
        assert!(usable());
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o775)).unwrap();
        assert!(!usable());
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(usable());
        // Only root can give a folder away; who is not root has the same test by the rule's own (`is_ours_alone`).
        if chown(&folder, Some(1234), None).is_ok() {
            assert!(!usable());
        }
    }
}
