//! A library is opened from a copy that nobody replaces: the system maps the file, so a change of it would change code
//! that is running. The copy's name is the digest, so that a new version is another library.

use std::path::PathBuf;

use super::{PluginFile, Settings, folder};

/// Where the copy is.
pub(super) struct Copy {
    pub(super) path: PathBuf,
    /// The folder of a copy that is only needed until the library is open.
    _folder: Option<tempfile::TempDir>,
}

/// The copy; made if it is missing.
pub(super) fn of(file: &PluginFile, settings: &Settings) -> std::io::Result<Copy> {
    let name = format!("{}.so", file.digest);
    if let Some(cache) = settings.cache() {
        let path = cache.join(&name);
        if std::fs::read(&path).is_ok_and(|found| found == file.bytes()) {
            return Ok(Copy {
                path,
                _folder: None,
            });
        }
        if folder::prepare(&cache).is_ok() && folder::publish(&path, file.bytes()).is_ok() {
            return Ok(Copy {
                path,
                _folder: None,
            });
        }
    }
    // A read-only folder, as inside a sandbox.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(&name);
    std::fs::write(&path, file.bytes())?;
    Ok(Copy {
        path,
        _folder: Some(folder),
    })
}
