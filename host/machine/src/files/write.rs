//! The two writers: replace what is ours, or create and never replace.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Component, Path};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt};

use super::remove::enter;
use super::{Folder, open_folder, split};

/// Why a file was not created; nothing was changed (RP-15.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A file, link or other entry has the name.
    DestinationExists,
    /// A folder has the name.
    DestinationDirectory,
    /// A parent is a regular file or a link that leads outside.
    ParentUnusable,
}

/// Why [`Folder::create`] did not.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Certainly nothing was created.
    #[error("the destination cannot be used: {0:?}")]
    Rejected(Rejection),
    /// The system failed; empty parents may have been made, the file was not published.
    #[error("the file could not be written")]
    Io(#[from] io::Error),
}

impl Folder {
    /// Writes a whole file in one step: readers see the old or the new bytes. Makes missing parents (mode 0700), follows
    /// no link, replaces a file or link of that name, and is durable when it returns (RP-15.13).
    ///
    /// # Errors
    /// A parent is no folder, or the name is a folder's.
    pub fn replace(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let (parent, name) = split(path)?;
        let parent = self.make(parent)?;
        let temporary = Temporary::write(&parent, bytes, mode)?;
        parent.rename(&temporary.name, &parent, name)?;
        temporary.published();
        sync(&parent)
    }

    /// Makes a folder, and its missing parents with mode 0700, following no link. One that is there is left as it is.
    ///
    /// # Errors
    /// A part of the path is something else.
    pub fn create_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (parent, name) = split(path)?;
        let parent = self.make(parent)?;
        match open_folder(&parent, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folder(&parent, name, mode)?;
                sync(&parent)
            }
            opened => opened.map(drop),
        }
    }

    /// Opens a folder that is ours whatever an agent made of it: a part of the path that is missing, or something else
    /// than a folder, becomes one (mode 0700), following no link, and rights that were taken from our account are taken
    /// back.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn claim(&self, path: &Path) -> io::Result<Self> {
        let mut dir = self.dir.try_clone()?;
        for part in path.components() {
            let Component::Normal(name) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let name = Path::new(name);
            let missing = match dir.symlink_metadata(name) {
                Ok(found) if found.is_dir() => false,
                Ok(_) => {
                    dir.remove_file(name)?;
                    true
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(error) => return Err(error),
            };
            if missing {
                make_folder(&dir, name, 0o700)?;
                sync(&dir)?;
            }
            dir = enter(&dir, name)?;
        }
        Ok(Self { dir })
    }

    /// Creates a file (mode 0600) and never replaces anything: the bytes are published by a hard link, which fails if
    /// the name is taken. Missing parents are made with mode 0700; a parent link to a folder inside is followed
    /// (RP-15.8, RP-15.9).
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(&self, path: &Path, bytes: &[u8]) -> Result<(), CreateError> {
        let (parent, name) = split(path)?;
        let parent = self.usable_parent(parent)?;
        if let Some(taken) = taken(&parent, name)? {
            return Err(CreateError::Rejected(taken));
        }
        let temporary = Temporary::write(&parent, bytes, 0o600)?;
        match parent.hard_link(&temporary.name, &parent, name) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let taken = taken(&parent, name)?.unwrap_or(Rejection::DestinationExists);
                return Err(CreateError::Rejected(taken));
            }
            Err(error) => return Err(error.into()),
        }
        drop(temporary);
        Ok(sync(&parent)?)
    }

    /// Walks down without following links and makes what is missing.
    fn make(&self, path: &Path) -> io::Result<Dir> {
        let mut dir = self.dir.try_clone()?;
        for part in path.components() {
            let name = match part {
                Component::Normal(name) => Path::new(name),
                Component::CurDir => continue,
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            };
            dir = match open_folder(&dir, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make_folder(&dir, name, 0o700)?;
                    sync(&dir)?;
                    open_folder(&dir, name)?
                }
                opened => opened?,
            };
        }
        Ok(dir)
    }

    /// Walks down following links that stay inside, and makes what is missing.
    fn usable_parent(&self, path: &Path) -> Result<Dir, CreateError> {
        let unusable = CreateError::Rejected(Rejection::ParentUnusable);
        let mut whole = std::path::PathBuf::new();
        for part in path.components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
            };
            whole.push(name);
            match self.dir.metadata(&whole) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(unusable),
                // Missing, or a link whose target is: only the former can be made.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match make_folder(&self.dir, &whole, 0o700) {
                        Ok(()) => {}
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                            return Err(unusable);
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                // The way of `cap-std` to say that a link leads outside; a folder that we may not search says the same.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(unusable);
                }
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(unusable),
                Err(error) => return Err(error.into()),
            }
        }
        if whole.as_os_str().is_empty() {
            Ok(self.dir.try_clone()?)
        } else {
            Ok(self.dir.open_dir(&whole)?)
        }
    }
}

fn taken(parent: &Dir, name: &Path) -> io::Result<Option<Rejection>> {
    match parent.symlink_metadata(name) {
        Ok(found) if found.is_dir() => Ok(Some(Rejection::DestinationDirectory)),
        Ok(_) => Ok(Some(Rejection::DestinationExists)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn make_folder(dir: &Dir, path: &Path, mode: u32) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(mode);
    dir.create_dir_with(path, &builder)
}

/// Makes the names in a folder durable. The handle of a `Dir` only names the folder, so it is opened once more.
fn sync(dir: &Dir) -> io::Result<()> {
    dir.open(".")?.sync_all()
}

/// A written, synced file under a name that nobody else uses; removed on drop unless it was published.
struct Temporary<'a> {
    parent: &'a Dir,
    name: OsString,
    kept: bool,
}

impl<'a> Temporary<'a> {
    fn write(parent: &'a Dir, bytes: &[u8], mode: u32) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let name = OsString::from(format!(
            ".berth-{:016x}",
            getrandom::u64().map_err(io::Error::other)?
        ));
        let mut file = parent.open_with(&name, &options)?;
        let temporary = Self {
            parent,
            name,
            kept: false,
        };
        // The umask may have taken bits away; the mode is what was asked for.
        file.set_permissions(cap_std::fs::PermissionsExt::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(temporary)
    }

    fn published(mut self) {
        self.kept = true;
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // Left behind, it is a hidden file of ours in a folder of the agent; nothing depends on its absence.
            let _ = self.parent.remove_file(&self.name);
        }
    }
}
