//! Removing whatever an agent may have made: unreadable folders, endless depth, names of any bytes.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, Permissions, PermissionsExt};

use super::{Folder, open_folder};

/// Folders deeper than this are moved up before they are emptied, so that neither the stack nor the open files grow
/// with what an agent made.
const DEEPEST: usize = 32;

impl Folder {
    /// Removes a file, link or folder with all that is in it, following no link. Removing nothing is success, and so
    /// is a second call after an interruption (LOC-023).
    ///
    /// # Errors
    /// The system refuses it; some of it may be gone.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = match self.parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        match parent.symlink_metadata(name) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return gone(parent.remove_file(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        let top = enter(&parent, name)?;
        empty(&top, &top, 0)?;
        gone(parent.remove_dir(name))
    }
}

/// Empties a folder. What lies too deep goes to the top, where the loop finds it again.
fn empty(top: &Dir, dir: &Dir, depth: usize) -> io::Result<()> {
    loop {
        let mut moved = false;
        for entry in dir.entries()? {
            let name = PathBuf::from(entry?.file_name());
            let found = match dir.symlink_metadata(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                found => found?,
            };
            if !found.is_dir() {
                gone(dir.remove_file(&name))?;
            } else if depth == DEEPEST {
                let aside = format!(
                    ".berth-{:016x}",
                    getrandom::u64().map_err(io::Error::other)?
                );
                // Its entry `..` changes, and only who may write in it may do that.
                unlock(dir, &name)?;
                dir.rename(&name, top, aside)?;
            } else {
                let below = enter(dir, &name)?;
                empty(top, &below, depth + 1)?;
                gone(dir.remove_dir(&name))?;
                moved = true;
            }
        }
        // Only the top can have received something; it is done when a pass found no folder.
        if depth > 0 || !moved {
            return Ok(());
        }
    }
}

/// Opens a folder whose entries can be listed, made and removed.
pub(super) fn enter(parent: &Dir, name: &Path) -> io::Result<Dir> {
    unlock(parent, name)?;
    open_folder(parent, name)
}

/// The same for a folder that is reached by its own path.
pub(super) fn unlock_path(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o700 != 0o700 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Makes sure that a folder can be listed, emptied and moved. The account owns what its agent made, so the right to do so
/// can always be taken.
fn unlock(parent: &Dir, name: &Path) -> io::Result<()> {
    let found = parent.symlink_metadata(name)?;
    if found.is_dir() && found.permissions().mode() & 0o700 != 0o700 {
        parent.set_permissions(name, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
