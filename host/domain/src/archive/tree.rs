//! A tree of files that was checked entry by entry, and its own clean ZIP.

use std::collections::HashMap;
use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::path::{components, folded};
use super::{ArchiveError, Limits};

/// One regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Clean path below the top-level folder.
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
    /// Somebody may execute it.
    pub executable: bool,
}

/// One top-level folder with its files, sorted by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// Name of the folder.
    pub root: String,
    /// Its files.
    pub files: Vec<ArchiveFile>,
}

impl Archive {
    /// The content of a file.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        let found = self.files.iter().find(|file| file.path == path)?;
        Some(&found.bytes)
    }

    /// Bytes of all files.
    pub fn expanded(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    /// Writes the tree as a ZIP: equal trees give equal bytes. Only files have entries; times and owners are left out.
    ///
    /// # Errors
    /// [`ArchiveError::Compressed`] if it is longer than the limit allows.
    pub fn pack(&self, limits: &Limits) -> Result<Vec<u8>, ArchiveError> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for file in &self.files {
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Deflated)
                .last_modified_time(DateTime::default())
                .unix_permissions(if file.executable { 0o755 } else { 0o644 });
            let name = format!("{}/{}", self.root, file.path);
            writer
                .start_file(name, options)
                .map_err(|_| ArchiveError::Malformed)?;
            writer
                .write_all(&file.bytes)
                .map_err(|_| ArchiveError::Malformed)?;
        }
        let packed = writer.finish().map_err(|_| ArchiveError::Malformed)?;
        let packed = packed.into_inner();
        let limit = limits.compressed;
        match packed.len() as u64 <= limit {
            true => Ok(packed),
            false => Err(ArchiveError::Compressed { limit }),
        }
    }
}

/// Collects entries and refuses the first one that does not belong into a clean tree.
pub struct TreeBuilder {
    limits: Limits,
    entries: usize,
    expanded: u64,
    files: Vec<ArchiveFile>,
    /// Folded path → spelling and kind of everything that exists, folders above entries included.
    taken: HashMap<String, (String, Kind)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

impl TreeBuilder {
    /// An empty tree.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: 0,
            expanded: 0,
            files: Vec::new(),
            taken: HashMap::new(),
        }
    }

    /// Bytes that may still come out.
    pub fn room(&self) -> u64 {
        self.limits.expanded.saturating_sub(self.expanded)
    }

    /// Adds a folder.
    ///
    /// # Errors
    /// [`ArchiveError`] for its name or the number of entries.
    pub fn folder(&mut self, name: &str) -> Result<(), ArchiveError> {
        self.count()?;
        let parts = components(name.strip_suffix('/').unwrap_or(name))?;
        self.take(&parts, Kind::Folder)
    }

    /// Checks the name of a file before its bytes are read.
    ///
    /// # Errors
    /// [`ArchiveError`] for its name or the number of entries.
    pub fn file(&mut self, name: &str) -> Result<(), ArchiveError> {
        self.count()?;
        if self.files.len() == self.limits.files {
            let limit = self.limits.files;
            return Err(ArchiveError::Files { limit });
        }
        let parts = components(name)?;
        self.take(&parts, Kind::File)
    }

    /// Keeps the bytes of the file that was announced last.
    ///
    /// # Errors
    /// [`ArchiveError::Expanded`].
    pub fn keep(
        &mut self,
        name: &str,
        bytes: Vec<u8>,
        executable: bool,
    ) -> Result<(), ArchiveError> {
        if bytes.len() as u64 > self.room() {
            let limit = self.limits.expanded;
            return Err(ArchiveError::Expanded { limit });
        }
        self.expanded += bytes.len() as u64;
        self.files.push(ArchiveFile {
            path: name.to_owned(),
            bytes,
            executable,
        });
        Ok(())
    }

    /// The tree, if everything is in one top-level folder.
    ///
    /// # Errors
    /// [`ArchiveError::Root`].
    pub fn finish(self) -> Result<Archive, ArchiveError> {
        let mut roots = self
            .taken
            .values()
            .filter(|(spelling, _)| !spelling.contains('/'));
        let root = match (roots.next(), roots.next()) {
            (Some((root, Kind::Folder)), None) => root.clone(),
            _ => return Err(ArchiveError::Root),
        };
        let mut files = self.files;
        for file in &mut files {
            file.path.drain(..=root.len());
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Archive { root, files })
    }

    fn count(&mut self) -> Result<(), ArchiveError> {
        if self.entries == self.limits.entries {
            let limit = self.limits.entries;
            return Err(ArchiveError::Entries { limit });
        }
        self.entries += 1;
        Ok(())
    }

    /// Claims a path and the folders above it. A folder may be named again in the same spelling, a file never.
    fn take(&mut self, parts: &[&str], kind: Kind) -> Result<(), ArchiveError> {
        for depth in 1..=parts.len() {
            let spelling = parts[..depth].join("/");
            let wanted = match depth == parts.len() {
                true => kind,
                false => Kind::Folder,
            };
            match self.taken.get(&folded(&spelling)) {
                None => {
                    self.taken.insert(folded(&spelling), (spelling, wanted));
                }
                Some((known, Kind::Folder)) if wanted == Kind::Folder && *known == spelling => {}
                Some(_) => return Err(ArchiveError::Duplicate),
            }
        }
        Ok(())
    }
}
