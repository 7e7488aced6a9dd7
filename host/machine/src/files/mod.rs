//! Files below one opened folder. Every path is relative to it, and no link leads out of it (architecture 8): access
//! is by handles of the folders on the way, never by comparing path text.
//!
//! Two writers with two meanings, never mixed (RP-15.13): [`Folder::replace`] for what we own (initial files, private
//! homes), [`Folder::create`] for what a caller adds beside files of the agent. All calls block.

mod export;
mod lack;
mod look;
mod owner;
mod remove;
mod write;

use std::io::{self, Read};
use std::path::{Component, Path};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};

pub use export::{Export, ExportError, ExportFile, ExportLimits};
pub use lack::is_lack;
pub use look::Part;
pub use owner::is_ours_alone;
pub use write::{CreateError, Rejection};

/// A folder of the machine, held open: renaming or replacing the path it was opened by does not move it.
#[derive(Debug)]
pub struct Folder {
    dir: Dir,
}

/// One regular file of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Last change, milliseconds since 1970.
    pub modified_ms: i64,
}

/// Why there is no listing.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// Missing, a file, or a link on the way (RP-15.2).
    #[error("the path is no folder")]
    NotDirectory,
    /// More entries of any kind than a listing may have (RP-15.3).
    #[error("the folder has too many entries")]
    TooManyEntries,
    /// The system refused it.
    #[error("the folder could not be read")]
    Io(#[from] io::Error),
}

/// Most entries of one listing (RP-15.3).
pub const LIST_ENTRIES: usize = 1024;

impl Folder {
    /// Opens a folder by its absolute path, following links: the path is the operator's or our own.
    ///
    /// # Errors
    /// It is not there, no folder, or may not be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            dir: Dir::open_ambient_dir(path, ambient_authority())?,
        })
    }

    /// Opens a folder of ours whose agent may have taken the rights of their common account away: they are taken back.
    ///
    /// # Errors
    /// As [`Folder::open`]; or it is another account's.
    pub fn open_unlocked(path: &Path) -> io::Result<Self> {
        remove::unlock_path(path)?;
        Self::open(path)
    }

    /// Opens a folder below, following no link.
    ///
    /// # Errors
    /// As [`Folder::open`]; a path with `..` or a root is refused.
    pub fn folder(&self, path: &Path) -> io::Result<Self> {
        Ok(Self {
            dir: self.walk(path)?,
        })
    }

    /// The whole of a regular file of at most `limit` bytes, following no link.
    ///
    /// # Errors
    /// As [`Folder::folder`]; `InvalidInput` if it is no regular file, `FileTooLarge` if it is larger.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (parent, name) = self.parent(path)?;
        let file = open_regular(&parent, name)?;
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    /// The regular files of one folder by name, following no link (RP-15.1, RP-15.2). Names that are not UTF-8 are
    /// left out: no answer could hold them.
    ///
    /// # Errors
    /// See [`ListError`].
    pub fn list(&self, path: &Path) -> Result<Vec<Entry>, ListError> {
        let folder = self.walk(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ListError::NotDirectory,
            _ => ListError::Io(error),
        })?;
        let mut entries = Vec::new();
        for (seen, entry) in folder.entries()?.enumerate() {
            if seen == LIST_ENTRIES {
                return Err(ListError::TooManyEntries);
            }
            let entry = entry?;
            let found = match entry.metadata() {
                Ok(found) if found.is_file() => found,
                Ok(_) => continue,
                // It went away between the two calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry {
                    name,
                    bytes: found.len(),
                    modified_ms: modified_ms(&found)?,
                });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// A folder below by the handles of its ancestors, no link among them.
    fn walk(&self, path: &Path) -> io::Result<Dir> {
        let mut dir = self.dir.try_clone()?;
        for part in path.components() {
            match part {
                Component::Normal(name) => dir = open_folder(&dir, Path::new(name))?,
                Component::CurDir => {}
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        Ok(dir)
    }

    /// The folder that holds the path's last part, and that part.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(Dir, &'a Path)> {
        let (parent, name) = split(path)?;
        Ok((self.walk(parent)?, name))
    }
}

/// A path's folder and last part; the last part must be a name.
fn split(path: &Path) -> io::Result<(&Path, &Path)> {
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Ok((parent, Path::new(name))),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// One step down. A link answers "not a folder" on every system, whatever the kernel calls it.
fn open_folder(dir: &Dir, name: &Path) -> io::Result<Dir> {
    dir.open_dir_nofollow(name).map_err(|error| {
        let link = dir
            .symlink_metadata(name)
            .is_ok_and(|found| found.is_symlink());
        if link {
            io::ErrorKind::NotADirectory.into()
        } else {
            error
        }
    })
}

/// Opens a regular file, neither following a link nor waiting for the writer of a FIFO.
fn open_regular(dir: &Dir, name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    options.custom_flags(NONBLOCK);
    let file = dir.open_with(name, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

#[allow(
    clippy::cast_possible_wrap,
    reason = "the flag is a small positive number on every system"
)]
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

fn modified_ms(found: &cap_std::fs::Metadata) -> io::Result<i64> {
    let time = found.modified()?.into_std();
    let since =
        |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Ok(match time.duration_since(std::time::UNIX_EPOCH) {
        Ok(after) => since(after),
        Err(before) => -since(before.duration()),
    })
}

#[cfg(test)]
mod tests;
