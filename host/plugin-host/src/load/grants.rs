//! What the operator granted, by the digest of the file: a changed file has to be granted again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use contract::manifest::Capability;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const FILE: &str = "grants.toml";

/// The grants of one plugin folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Grants {
    /// Digest of a plugin file to what it may use.
    #[serde(default)]
    granted: BTreeMap<String, BTreeSet<Capability>>,
    /// Digest of a plugin file to the programs behind the names of its manifest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    programs: BTreeMap<String, BTreeMap<String, GrantedProgram>>,
}

/// A program of this machine that a plugin may start, and no other one in its place (SP section 15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GrantedProgram {
    /// Absolute.
    pub path: PathBuf,
    /// SHA-256 of the file, in hexadecimal; looked at before every start.
    pub digest: String,
}

impl GrantedProgram {
    /// The file as it is now.
    ///
    /// # Errors
    /// It cannot be read, or the path is not absolute.
    pub fn at(path: &Path) -> std::io::Result<Self> {
        if !path.is_absolute() {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        Ok(Self {
            path: path.to_owned(),
            digest: digest(path)?,
        })
    }

    /// Whether the file is still the one that was granted.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        digest(&self.path).is_ok_and(|now| now == self.digest)
    }
}

fn digest(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash) = (std::fs::File::open(path)?, Sha256::new());
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&piece[..read]),
        }
    }
}

/// Why the grants cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum GrantsError {
    /// The file.
    #[error("{0} cannot be used: {1}")]
    File(PathBuf, #[source] std::io::Error),
    /// Its text.
    #[error("{0} is damaged ({1}); mend it, or remove it and install the plugins again")]
    Damaged(PathBuf, String),
}

impl Grants {
    /// Those of a folder; none if it has no such file.
    ///
    /// # Errors
    /// The file is there and cannot be read: no grant is guessed.
    pub fn read(folder: &Path) -> Result<Self, GrantsError> {
        let path = folder.join(FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                toml::from_str(&text).map_err(|error| GrantsError::Damaged(path, error.to_string()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(GrantsError::File(path, error)),
        }
    }

    /// Writes them whole, or leaves the old ones.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), GrantsError> {
        let path = folder.join(FILE);
        let text = toml::to_string(self)
            .map_err(|error| GrantsError::Damaged(path.clone(), error.to_string()))?;
        super::folder::publish(&path, text.as_bytes())
            .map_err(|error| GrantsError::File(path, error))
    }

    /// What the file of this digest may use.
    #[must_use]
    pub fn of(&self, digest: &str) -> BTreeSet<Capability> {
        self.granted.get(digest).cloned().unwrap_or_default()
    }

    /// Whether the operator has installed this very file.
    #[must_use]
    pub fn knows(&self, digest: &str) -> bool {
        self.granted.contains_key(digest)
    }

    /// Grants; an earlier grant of the digest is replaced.
    pub fn grant(&mut self, digest: &str, capabilities: BTreeSet<Capability>) {
        self.granted.insert(digest.to_owned(), capabilities);
    }

    /// The programs of the file of this digest.
    #[must_use]
    pub fn programs_of(&self, digest: &str) -> BTreeMap<String, GrantedProgram> {
        self.programs.get(digest).cloned().unwrap_or_default()
    }

    /// Grants programs; an earlier grant of the digest is replaced.
    pub fn grant_programs(&mut self, digest: &str, programs: BTreeMap<String, GrantedProgram>) {
        if programs.is_empty() {
            self.programs.remove(digest);
        } else {
            self.programs.insert(digest.to_owned(), programs);
        }
    }

    /// Takes back.
    pub fn revoke(&mut self, digest: &str) {
        self.granted.remove(digest);
        self.programs.remove(digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_read_back_and_a_damaged_file_grants_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut grants = Grants::read(folder.path()).unwrap();
        assert!(!grants.knows("d"));
        grants.grant("d", [Capability::Machine, Capability::State].into());
        grants.write(folder.path()).unwrap();
        assert_eq!(Grants::read(folder.path()).unwrap(), grants);
        grants.revoke("d");
        assert_eq!(grants.of("d"), BTreeSet::new());
        std::fs::write(folder.path().join(FILE), "granted = [").unwrap();
        assert!(matches!(
            Grants::read(folder.path()),
            Err(GrantsError::Damaged(..))
        ));
    }
}
