//! The capture of a Turn's outputs: every regular file below one folder (RP-15.14 to RP-15.17).

use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, File, FileTypeExt, Metadata};

use super::{Folder, open_folder, open_regular};

/// Bounds of one capture (RP-15.16).
#[derive(Clone, Copy, Debug)]
pub struct ExportLimits {
    /// Entries of any kind, folders and skipped links included.
    pub entries: usize,
    /// Folders below the exported one.
    pub depth: usize,
    /// Bytes of a path relative to the exported folder.
    pub path_bytes: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self {
            entries: 4096,
            depth: 64,
            path_bytes: 4096,
            file_bytes: 200 << 20,
            total_bytes: 500 << 20,
        }
    }
}

/// Why a capture failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// What should be exported is no folder; a link to one included.
    #[error("the exported path is no folder")]
    NotDirectory,
    /// A FIFO, socket or device.
    #[error("an entry is neither file nor folder nor link")]
    SpecialFile,
    /// Size or time of a file changed while it was read.
    #[error("a file changed while it was read")]
    Changed,
    /// A limit was exceeded.
    #[error("the limit of {0} is exceeded")]
    Limit(&'static str),
    /// A name that is not UTF-8 cannot become a path of an Artifact.
    #[error("a name is not UTF-8")]
    Name,
    /// The system refused it.
    #[error("an entry could not be read")]
    Io(#[from] io::Error),
}

/// A capture in progress: one file after another, in the order of their paths. Open are at most the folders on the way to
/// the present one, however many entries each has.
pub struct Export {
    limits: ExportLimits,
    /// Folders still to visit, last first, and the files of the present one.
    folders: Vec<Found>,
    files: Vec<Found>,
    entries: usize,
    bytes: u64,
}

/// An entry that was listed: the folder that has it, and its path below the exported one, whose last part is its name.
struct Found {
    parent: Arc<Dir>,
    path: PathBuf,
    depth: usize,
}

/// One file of a capture. Read it to its end through [`Read`], then call [`ExportFile::finish`].
pub struct ExportFile {
    path: String,
    file: io::Take<File>,
    found: Metadata,
    read: u64,
}

impl Folder {
    /// Starts the capture of a folder below; none when nothing has that name (RP-15.14).
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn export(&self, path: &Path, limits: ExportLimits) -> Result<Option<Export>, ExportError> {
        let dir = match self.walk(path) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(ExportError::NotDirectory);
            }
            Err(error) => return Err(error.into()),
        };
        let mut export = Export {
            limits,
            folders: Vec::new(),
            files: Vec::new(),
            entries: 0,
            bytes: 0,
        };
        export.visit(&Arc::new(dir), Path::new(""), 0)?;
        Ok(Some(export))
    }
}

impl Export {
    /// The next file, or none at the end. Files are named before their bytes are read, so a later file may differ from
    /// what it was when the capture began; each one is consistent in itself.
    ///
    /// # Errors
    /// See [`ExportError`]; the capture is over then.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator could not stop at its first error"
    )]
    pub fn next(&mut self) -> Result<Option<ExportFile>, ExportError> {
        loop {
            if let Some(found) = self.files.pop() {
                return self.file(&found).map(Some);
            }
            let Some(found) = self.folders.pop() else {
                return Ok(None);
            };
            let dir = open_folder(&found.parent, found.name()?).map_err(went_away)?;
            self.visit(&Arc::new(dir), &found.path, found.depth)?;
        }
    }

    /// Sorts the entries of one folder into files and folders still to visit.
    fn visit(&mut self, dir: &Arc<Dir>, path: &Path, depth: usize) -> Result<(), ExportError> {
        let mut names = Vec::new();
        for entry in dir.entries()? {
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(ExportError::Limit("entries"));
            }
            names.push(entry?.file_name());
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        for name in names {
            let kind = dir.symlink_metadata(&name).map_err(went_away)?.file_type();
            if kind.is_symlink() {
                continue;
            }
            let found = Found {
                parent: Arc::clone(dir),
                path: path.join(&name),
                depth: depth + 1,
            };
            if found.path.as_os_str().len() > self.limits.path_bytes {
                return Err(ExportError::Limit("path length"));
            }
            if kind.is_dir() {
                if depth == self.limits.depth {
                    return Err(ExportError::Limit("depth"));
                }
                self.folders.push(found);
            } else if kind.is_file() {
                self.files.push(found);
            } else {
                debug_assert!(
                    kind.is_fifo()
                        || kind.is_socket()
                        || kind.is_block_device()
                        || kind.is_char_device()
                );
                return Err(ExportError::SpecialFile);
            }
        }
        Ok(())
    }

    fn file(&mut self, listed: &Found) -> Result<ExportFile, ExportError> {
        let file = open_regular(&listed.parent, listed.name()?).map_err(went_away)?;
        let found = file.metadata()?;
        if found.len() > self.limits.file_bytes {
            return Err(ExportError::Limit("file size"));
        }
        self.bytes = self.bytes.saturating_add(found.len());
        if self.bytes > self.limits.total_bytes {
            return Err(ExportError::Limit("total size"));
        }
        let path = listed.path.to_str().ok_or(ExportError::Name)?.to_owned();
        // One byte more than the size: growth is seen, and never followed.
        let file = file.take(found.len() + 1);
        Ok(ExportFile {
            path,
            file,
            found,
            read: 0,
        })
    }
}

impl Found {
    fn name(&self) -> Result<&Path, ExportError> {
        let name = self.path.file_name().ok_or(ExportError::Name)?;
        Ok(Path::new(name))
    }
}

/// It was listed a moment ago, as what it is no longer.
fn went_away(error: io::Error) -> ExportError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
            ExportError::Changed
        }
        _ => ExportError::Io(error),
    }
}

impl ExportFile {
    /// Path relative to the exported folder, with `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.found.len()
    }

    /// Begins to read it again.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.file.get_mut().rewind()?;
        self.file.set_limit(self.found.len() + 1);
        self.read = 0;
        Ok(())
    }

    /// Checks after the last byte that the file did not change while it was read.
    ///
    /// # Errors
    /// [`ExportError::Changed`], or the file cannot be looked at.
    pub fn finish(self) -> Result<(), ExportError> {
        let now = self.file.into_inner().metadata()?;
        let same = self.read == self.found.len() && now.len() == self.found.len();
        if same && now.modified()? == self.found.modified()? {
            Ok(())
        } else {
            Err(ExportError::Changed)
        }
    }
}

impl Read for ExportFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}
