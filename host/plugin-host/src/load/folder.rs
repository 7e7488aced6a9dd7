//! Files of the plugin folder. Daemons in sandboxes read them under other accounts, so they can be read by all; only our own
//! account writes them, whole and by rename.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Grants, GrantsError};

/// Makes a plugin folder, or one below it, that everybody may read.
///
/// # Errors
/// The system refuses.
pub fn prepare(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Puts a file there whole and durable, or leaves what is there.
///
/// # Errors
/// The system refuses.
pub fn publish(target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}

/// Makes whoever watches the folder load its plugins again.
///
/// # Errors
/// The file of grants cannot be read or written.
pub fn touch(folder: &Path) -> Result<(), GrantsError> {
    Grants::read(folder)?.write(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_can_be_read_by_all_and_written_by_us_alone() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("plugins");
        prepare(&folder).unwrap();
        publish(&folder.join("x"), b"one").unwrap();
        publish(&folder.join("x"), b"two").unwrap();
        assert_eq!(std::fs::read(folder.join("x")).unwrap(), b"two");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("x"))), (0o755, 0o644));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}
