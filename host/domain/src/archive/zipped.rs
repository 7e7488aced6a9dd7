//! ZIP files of strangers.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::read::ZipFile;

use super::{Archive, ArchiveError, Limits, TreeBuilder};

/// Type bits of a Unix mode and the two types that are taken.
const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
/// Signature of an end of central directory: a comment that holds one hides a second archive.
const END: &[u8] = b"PK\x05\x06";

/// Reads a ZIP.
///
/// # Errors
/// [`ArchiveError`] for the first thing wrong with it.
pub fn unpack(bytes: &[u8], limits: &Limits) -> Result<Archive, ArchiveError> {
    if bytes.len() as u64 > limits.compressed {
        let limit = limits.compressed;
        return Err(ArchiveError::Compressed { limit });
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| ArchiveError::Malformed)?;
    if archive.has_duplicate_names() {
        return Err(ArchiveError::Duplicate);
    }
    if archive.len() > limits.entries {
        let limit = limits.entries;
        return Err(ArchiveError::Entries { limit });
    }
    let hidden = archive.comment().windows(END.len()).any(|part| part == END);
    if archive.offset() != 0 || hidden || archive.validate_header_consistency().is_err() {
        return Err(ArchiveError::Malformed);
    }
    let mut tree = TreeBuilder::new(*limits);
    for index in 0..archive.len() {
        let entry = archive
            .by_index(index)
            .map_err(|_| ArchiveError::Malformed)?;
        add(&mut tree, entry, limits)?;
    }
    tree.finish()
}

fn add<R: Read>(
    tree: &mut TreeBuilder,
    mut entry: ZipFile<'_, R>,
    limits: &Limits,
) -> Result<(), ArchiveError> {
    let name = std::str::from_utf8(entry.name_raw()).map_err(|_| ArchiveError::Path)?;
    let name = name.to_owned();
    let mode = entry.unix_mode().unwrap_or(0);
    let is_folder = name.ends_with('/');
    let expected = if is_folder { FOLDER } else { REGULAR };
    let plain = matches!(mode & TYPE, 0) || mode & TYPE == expected;
    if !plain || entry.encrypted() {
        return Err(ArchiveError::Special);
    }
    if is_folder {
        return match entry.size() {
            0 => tree.folder(&name),
            _ => Err(ArchiveError::Malformed),
        };
    }
    tree.file(&name)?;
    // What comes out counts; what the archive says about it must agree.
    let declared = entry.size();
    let room = tree.room();
    let mut bytes = Vec::new();
    let read = (&mut entry)
        .take(room.saturating_add(1))
        .read_to_end(&mut bytes);
    if bytes.len() as u64 > room {
        let limit = limits.expanded;
        return Err(ArchiveError::Expanded { limit });
    }
    if read.is_err() || bytes.len() as u64 != declared {
        return Err(ArchiveError::Malformed);
    }
    tree.keep(&name, bytes, mode & 0o111 != 0)
}

#[cfg(test)]
mod tests;
