//! Uploaded Files of a Project (`files-skills-vaults.md` 1).

use crate::blob::BlobRef;
use crate::{FileId, Timestamp};

/// Largest File, in bytes (SRC-004).
pub const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// Longest filename, in bytes (SRC-006).
pub const MAX_FILENAME: usize = 1024;
/// The one purpose that is stored (SRC-003).
pub const PURPOSE: &str = "user_data";
/// What the `purpose` filter of the list takes (SRC-013).
pub const PURPOSES: &[&str] = &[
    PURPOSE,
    "assistants",
    "batch",
    "fine-tune",
    "vision",
    "evals",
    "assistants_output",
    "batch_output",
    "fine-tune-results",
];

/// A stored File. Its name is never a path (SRC-010).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its id.
    pub id: FileId,
    /// Upload time.
    pub created_at: Timestamp,
    /// The caller's name for it.
    pub filename: String,
    /// Its bytes.
    pub content: BlobRef,
}

/// May a File have this name? SRC-006; what is no UTF-8 never gets here.
pub fn is_filename(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_FILENAME && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filenames() {
        // SRC-006, SRC-010
        for name in ["a", "../../etc/passwd", "\u{e9}", &"x".repeat(1024)] {
            assert!(is_filename(name), "{name}");
        }
        for name in ["", "a\0b", &"x".repeat(1025), &"\u{e9}".repeat(513)] {
            assert!(!is_filename(name), "{name:?}");
        }
    }
}
