//! One account of the host for each sandbox, when Core is root (LOC-006).

use std::collections::HashSet;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::places::PARTS;
use super::record;
use super::types::Settings;
use crate::sys;

/// Held while an account is chosen and its record is written, so that two starts never choose the same.
pub(super) struct Choice {
    _lock: fs::File,
    /// The free account; none when Core is no root and has only its own.
    pub(super) real_uid: Option<u32>,
}

/// Chooses an account that neither a sandbox of ours has nor any process of this machine. The kernel counts processes by
/// account, so two Cores must not give away the same one: each begins at its own place of the range, and what another one's
/// sandboxes run under is seen in the process table.
pub(super) fn choose(settings: &Settings, installation: &str) -> io::Result<Option<Choice>> {
    super::places::private_folder(&settings.root)?;
    let lock = fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(settings.root.join(".lock"))?;
    lock.lock()?;
    if !rustix::process::geteuid().is_root() {
        return Ok(Some(Choice {
            _lock: lock,
            real_uid: None,
        }));
    }
    let mut taken = HashSet::new();
    for tenant in folders(&settings.root)? {
        for sandbox in folders(&tenant)? {
            match record::read(&sandbox) {
                Ok(record) => taken.extend(record.and_then(|record| record.real_uid)),
                Err(error) => {
                    tracing::error!(sandbox = %sandbox.display(), %error, "the record of a sandbox cannot be read");
                    taken.extend(owners(&sandbox)?);
                }
            }
        }
    }
    taken.extend(sys::accounts()?);
    let free = from(&settings.accounts, installation).find(|uid| *uid != 0 && !taken.contains(uid));
    Ok(free.map(|uid| Choice {
        _lock: lock,
        real_uid: Some(uid),
    }))
}

/// Who owns the parts of a sandbox, whatever its record says.
fn owners(sandbox: &Path) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for part in PARTS {
        match fs::symlink_metadata(sandbox.join(part)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            part => found.push(part?.uid()),
        }
    }
    Ok(found)
}

/// Every account of the range once, beginning at the installation's place. The place need not be the same in the next
/// version: an account that was given is on record.
fn from(accounts: &RangeInclusive<u32>, installation: &str) -> impl Iterator<Item = u32> {
    let mut hash = std::hash::DefaultHasher::new();
    installation.hash(&mut hash);
    let (first, last) = (*accounts.start(), *accounts.end());
    let count = u64::from(last.saturating_sub(first)) + 1;
    let place = u32::try_from(hash.finish() % count).unwrap_or(0);
    (first + place..=last).chain(first..first + place)
}

/// The folders in a folder, sorted; none if it is missing.
pub(super) fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_account_comes_once_wherever_an_installation_begins(first in 1..u32::MAX - 100, more in 0u32..100, installation in ".*") {
            let range = first..=first + more;
            let mut all: Vec<u32> = from(&range, &installation).collect();
            all.sort_unstable();
            prop_assert_eq!(all, range.collect::<Vec<_>>());
        }
    }

    #[test]
    fn installations_begin_at_different_places() {
        let range = 61184..=65519;
        let places: HashSet<_> = (0..64)
            .map(|number| from(&range, &format!("installation {number}")).next())
            .collect();
        assert!(places.len() > 56, "{} places", places.len());
    }

    #[test]
    fn the_account_of_a_living_process_is_seen() {
        assert!(
            sys::accounts()
                .unwrap()
                .contains(&rustix::process::getuid().as_raw())
        );
    }
}
