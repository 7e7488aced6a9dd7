//! One account of the host for each sandbox, when Core is root (LOC-006).

use std::collections::HashSet;
use std::fs;
use std::io;

use super::record;
use super::types::Settings;

/// Held while an account is chosen and its record is written, so that two starts never choose the same.
pub(super) struct Choice {
    _lock: fs::File,
    /// The free account; none when Core is no root and has only its own.
    pub(super) real_uid: Option<u32>,
}

/// Chooses the lowest account that no sandbox has.
pub(super) fn choose(settings: &Settings) -> io::Result<Option<Choice>> {
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
            // One that cannot be read may have any account: then none can be given safely.
            taken.extend(record::read(&sandbox)?.and_then(|record| record.real_uid));
        }
    }
    let free = settings
        .accounts
        .clone()
        .find(|uid| *uid != 0 && !taken.contains(uid));
    Ok(free.map(|uid| Choice {
        _lock: lock,
        real_uid: Some(uid),
    }))
}

/// The folders in a folder, sorted; none if it is missing.
pub(super) fn folders(path: &std::path::Path) -> io::Result<Vec<std::path::PathBuf>> {
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
