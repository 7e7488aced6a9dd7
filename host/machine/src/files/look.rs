//! Looking at what an agent may have made in a folder of ours: bounded, and neither following links nor waiting.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, PermissionsExt};

use super::{Folder, open_folder, open_regular};

/// Which part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its first bytes.
    Head,
    /// Its last bytes.
    Tail,
}

impl Folder {
    /// Whether a regular file has these bytes and these permission bits. One that cannot be looked at has not.
    pub fn holds(&self, path: &Path, bytes: &[u8], mode: u32) -> bool {
        let same = || -> io::Result<bool> {
            let (parent, name) = self.parent(path)?;
            let file = open_regular(&parent, name)?;
            let found = file.metadata()?;
            if found.len() != bytes.len() as u64 || found.permissions().mode() & 0o7777 != mode {
                return Ok(false);
            }
            let mut known = Vec::with_capacity(bytes.len());
            file.take(found.len() + 1).read_to_end(&mut known)?;
            Ok(known == bytes)
        };
        same().unwrap_or(false)
    }

    /// At most `limit` bytes of a regular file.
    ///
    /// # Errors
    /// As [`Folder::read`]; a larger file is no error.
    pub fn part(&self, path: &Path, part: Part, limit: u64) -> io::Result<Vec<u8>> {
        let (parent, name) = self.parent(path)?;
        let mut file = open_regular(&parent, name)?;
        if part == Part::Tail {
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(size.saturating_sub(limit)))?;
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Paths and sizes of the regular files in a folder and in so many levels of folders below it, by path; at most `most`
    /// of them. Names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// As [`Folder::folder`], or a folder below cannot be read.
    pub fn files(&self, path: &Path, levels: u32, most: usize) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        collect(&self.walk(path)?, Path::new(""), levels, most, &mut files)?;
        files.sort();
        Ok(files)
    }
}

fn collect(
    folder: &Dir,
    prefix: &Path,
    levels: u32,
    most: usize,
    files: &mut Vec<(String, u64)>,
) -> io::Result<()> {
    for entry in folder.entries()? {
        if files.len() >= most {
            return Ok(());
        }
        let entry = entry?;
        let kind = entry.file_type()?;
        let path: PathBuf = prefix.join(entry.file_name());
        let Some(text) = path.to_str() else { continue };
        if kind.is_file() {
            let size = match entry.metadata() {
                Ok(found) => found.len(),
                // It went away between the two calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            files.push((text.to_owned(), size));
        } else if kind.is_dir() && levels > 0 {
            match open_folder(folder, Path::new(&entry.file_name())) {
                Ok(below) => collect(&below, &path, levels - 1, most, files)?,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
