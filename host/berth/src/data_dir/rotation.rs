//! The files of a rotation of the service key (KEY-005).
//!
//! `credential.key.next` is the new key before it counts, `credential.key.former` the old one until nothing needs it. Each step
//! is one file that appears, is renamed or goes, so that a start after a crash finds one of four states:
//!
//! ```text
//! key=A                      nothing begun           key=A former=A next=B   B can take over now
//! key=A next=B               B was made              key=B former=A          everything is moving to B
//! ```

use super::publish;
use super::secrets::{CREDENTIAL_KEY, new_service_key, read_secret, service_key};
use anyhow::Context;
use domain::Secret;
use std::io::ErrorKind;
use std::path::Path;

const NEXT: &str = "credential.key.next";
const FORMER: &str = "credential.key.former";

/// The former key, if a rotation is not complete.
pub(super) fn former(folder: &Path) -> anyhow::Result<Option<Secret>> {
    let path = folder.join(FORMER);
    match path.try_exists() {
        Ok(false) => Ok(None),
        _ => service_key(&path, "the former service key cannot be found").map(Some),
    }
}

/// Makes a new service key the one that seals and keeps the former one beside it; finds a rotation that is under way and
/// leaves it. The caller holds the folder's lock.
///
/// # Errors
/// A file cannot be read or written. Whatever was done is continued by the next call.
pub fn begin(folder: &Path) -> anyhow::Result<()> {
    let failed = |name: &str| format!("cannot write {}", folder.join(name).display());
    let key = folder.join(CREDENTIAL_KEY);
    let current = read_secret(&key)?;
    let kept = folder.join(FORMER);
    if kept.exists() && read_secret(&kept)? != current {
        return Ok(());
    }
    appear(folder, NEXT, new_service_key).with_context(|| failed(NEXT))?;
    berth_core::crash::visit("rotation.key_made");
    appear(folder, FORMER, || Ok(current)).with_context(|| failed(FORMER))?;
    berth_core::crash::visit("rotation.former_kept");
    std::fs::rename(folder.join(NEXT), &key)
        .and_then(|()| sync(folder))
        .with_context(|| failed(CREDENTIAL_KEY))?;
    berth_core::crash::visit("rotation.key_switched");
    Ok(())
}

/// Forgets the former key: nothing needs it any more.
///
/// # Errors
/// What the system says.
pub fn complete(folder: &Path) -> std::io::Result<()> {
    berth_core::crash::visit("rotation.complete");
    match std::fs::remove_file(folder.join(FORMER)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    sync(folder)
}

/// A file that a killed call has made already stays.
fn appear(
    folder: &Path,
    name: &str,
    content: impl FnOnce() -> anyhow::Result<Secret>,
) -> anyhow::Result<()> {
    if folder.join(name).exists() {
        return Ok(());
    }
    Ok(publish(folder, name, content()?.expose())?)
}

fn sync(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::Secrets;

    fn keys(folder: &Path) -> (Secret, Option<Secret>) {
        let secrets = Secrets::open(folder, false).unwrap();
        (secrets.credential_key, secrets.former_key)
    }

    #[test]
    fn a_new_key_takes_over_and_the_old_one_stays_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (first, none) = keys(folder);
        assert_eq!(none, None);
        begin(folder).unwrap();
        let (second, former) = keys(folder);
        assert_ne!(second, first);
        assert_eq!(former, Some(first));
        // A second call does not begin another one.
        begin(folder).unwrap();
        assert_eq!(keys(folder).0, second);
        complete(folder).unwrap();
        complete(folder).unwrap();
        assert_eq!(keys(folder), (second, None));
    }

    #[test]
    fn a_rotation_that_was_killed_goes_on_from_every_state() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (first, _) = keys(folder);
        // Killed after the new key was made: the Core still starts, and that key is taken.
        appear(folder, NEXT, new_service_key).unwrap();
        let next = service_key(&folder.join(NEXT), "").unwrap();
        assert_eq!(keys(folder), (first.clone(), None));
        // Killed after the old one was kept.
        let text = read_secret(&folder.join(CREDENTIAL_KEY)).unwrap();
        appear(folder, FORMER, || Ok(text)).unwrap();
        assert_eq!(keys(folder), (first.clone(), Some(first.clone())));
        begin(folder).unwrap();
        assert_eq!(keys(folder), (next, Some(first)));
        assert!(!folder.join(NEXT).exists());
    }
}
