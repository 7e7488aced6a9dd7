//! Whether a data folder is the one that its owner id was made in. Where several Cores share a database, the id says whose
//! sandboxes and native histories those are, so two folders must never have the same one.

use super::{OWNER, publish};
use anyhow::{Context, bail};
use domain::OwnerId;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The owner id with its place: number and birth of its file, which no copy keeps.
const PLACE: &str = "owner-place";

/// Refuses a copy of a data folder. The caller holds the folder's lock and has read `owner` from it.
///
/// # Errors
/// The id's file is another one than when its place was written down.
pub fn check(folder: &Path, owner: OwnerId) -> anyhow::Result<()> {
    let path = folder.join(PLACE);
    let here = format!("{owner} {}", place(folder)?);
    let known = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        read => Some(read.with_context(|| format!("cannot read {}", path.display()))?),
    };
    match known.as_deref() {
        Some(known) if known == here => return Ok(()),
        Some(known) if known.split(' ').next() == Some(&owner.to_string()) => bail!(
            "{} is a copy of another data folder, or was put back from one. Remove `{PLACE}` in it if it takes the other one's place, \
             or `{OWNER}` if both are to serve the database",
            folder.display()
        ),
        // Of an id that was removed.
        Some(_) => std::fs::remove_file(&path),
        None => Ok(()),
    }
    .and_then(|()| publish(folder, PLACE, here.as_bytes()))
    .with_context(|| format!("cannot write {}", path.display()))
}

fn place(folder: &Path) -> anyhow::Result<String> {
    let path = folder.join(OWNER);
    let found = path.metadata();
    let found = found.with_context(|| format!("cannot read {}", path.display()))?;
    // Not every file system knows the birth.
    let born = found.created().ok();
    let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.unwrap_or_default().as_nanos();
    Ok(format!("{} {born}", found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::Secrets;

    fn start(folder: &Path) -> anyhow::Result<OwnerId> {
        let owner = Secrets::open(folder, false)?.owner;
        check(folder, owner).map(|()| owner)
    }

    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }

    // D31, SP-3.2
    #[test]
    fn a_copy_is_refused_until_it_is_said_what_it_is() {
        let (folder, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, second) = (folder.path(), second.path());
        let owner = start(folder).unwrap();
        assert_eq!(start(folder).unwrap(), owner);
        copy(folder, second);
        let said = start(second).unwrap_err().to_string();
        assert!(said.contains(PLACE) && said.contains(OWNER), "{said}");
        assert!(start(second).is_err(), "and stays so");
        assert_eq!(start(folder).unwrap(), owner, "the original goes on");

        std::fs::remove_file(second.join(OWNER)).unwrap();
        let another = start(second).unwrap();
        assert_ne!(another, owner);
        assert_eq!(start(second).unwrap(), another);

        copy(folder, second);
        assert!(start(second).is_err());
        std::fs::remove_file(second.join(PLACE)).unwrap();
        assert_eq!(start(second).unwrap(), owner, "it takes its place");
        assert_eq!(start(second).unwrap(), owner);
    }
}
