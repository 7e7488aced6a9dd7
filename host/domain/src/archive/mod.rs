//! Archives from strangers: one reader for Skills, Plugins and installed snapshots.
//!
//! Nothing an archive says about itself is believed: bytes are counted as they come out, names are checked before
//! anything is kept, and whatever is no plain file or folder is refused. The result is a clean tree in memory, bounded by
//! [`Limits`], which is written again by [`Archive::pack`]; a stranger's archive itself is never stored.

mod path;
mod tree;
mod zipped;

pub use tree::{Archive, ArchiveFile, TreeBuilder};
pub use zipped::unpack;

/// What an archive may cost (SKL-017, ENV-531).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the ZIP.
    pub compressed: u64,
    /// Bytes of all files together.
    pub expanded: u64,
    /// Regular files.
    pub files: usize,
    /// Entries, folders included.
    pub entries: usize,
}

impl Limits {
    /// Of one Skill or Plugin.
    pub const BUNDLE: Self = Self {
        compressed: 5 * 1024 * 1024,
        expanded: 20 * 1024 * 1024,
        files: 500,
        entries: 1000,
    };
}

/// Why an archive is refused. The text may be shown: it repeats nothing of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// No readable ZIP, or one that contradicts itself.
    #[error("The archive is not a valid ZIP file.")]
    Malformed,
    /// More compressed bytes than allowed.
    #[error("The archive exceeds {limit} compressed bytes.")]
    Compressed {
        /// The limit.
        limit: u64,
    },
    /// More bytes came out than allowed.
    #[error("The archive expands to more than {limit} bytes.")]
    Expanded {
        /// The limit.
        limit: u64,
    },
    /// Too many files.
    #[error("The archive holds more than {limit} files.")]
    Files {
        /// The limit.
        limit: usize,
    },
    /// Too many entries.
    #[error("The archive holds more than {limit} entries.")]
    Entries {
        /// The limit.
        limit: usize,
    },
    /// A name that is no clean relative path.
    #[error("The archive holds an entry whose name is not a clean relative path.")]
    Path,
    /// A link, device or other special entry, or an encrypted one.
    #[error("The archive holds an entry that is neither a regular file nor a directory.")]
    Special,
    /// Two entries of one name, also by case or Unicode form, or a file in the place of a folder.
    #[error("The archive holds two entries of one name.")]
    Duplicate,
    /// Not everything is in one top-level folder.
    #[error("The archive must hold exactly one top-level directory.")]
    Root,
}
