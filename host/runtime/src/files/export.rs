//! The capture of a Turn's outputs (RP-15.14 to RP-15.20).

use std::{collections::HashMap, io::Read as _, path::Path};

use domain::run::RefusalCode;
use machine::files::{ExportError, ExportFile, ExportLimits, Folder};
use protocol::wire::{HaveFile, limits::CHUNK};
use sha2::{Digest as _, Sha256};

/// Below the workspace.
const OUTPUTS: &str = "outputs";

/// Nobody takes the bytes any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Where a capture goes.
pub trait Sink {
    /// A file begins.
    ///
    /// # Errors
    /// [`Gone`].
    fn entry(&mut self, path: &str, size: u64) -> Result<(), Gone>;
    /// Its next bytes, 1 to 64 KiB; waits for credit (RP-15.18).
    ///
    /// # Errors
    /// [`Gone`].
    fn bytes(&mut self, bytes: &[u8], last: bool) -> Result<(), Gone>;
    /// It is complete.
    ///
    /// # Errors
    /// [`Gone`].
    fn end(&mut self, sha256: String, skipped: bool) -> Result<(), Gone>;
}

/// Why there is no capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFailure {
    /// The outputs cannot be captured as they are (RP-15.16).
    Refused(RefusalCode),
    /// The connection or the binding ended.
    Gone,
}

impl From<Gone> for ExportFailure {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<ExportError> for ExportFailure {
    fn from(error: ExportError) -> Self {
        Self::Refused(match error {
            ExportError::NotDirectory | ExportError::SpecialFile | ExportError::Name => {
                RefusalCode::OutputsUnusable
            }
            ExportError::Changed => RefusalCode::SourceChanged,
            ExportError::Limit(_) => RefusalCode::LimitExceeded,
            ExportError::Io(_) => RefusalCode::Unavailable,
        })
    }
}

impl From<std::io::Error> for ExportFailure {
    fn from(_: std::io::Error) -> Self {
        Self::Refused(RefusalCode::Unavailable)
    }
}

/// Copies every regular file below `outputs/` into the sink; answers files and bytes. Blocks.
///
/// # Errors
/// See [`ExportFailure`]; what the sink has by then is no capture (RP-15.19).
pub fn export(
    workspace: &Path,
    have: &[HaveFile],
    sink: &mut dyn Sink,
) -> Result<(u64, u64), ExportFailure> {
    let folder = Folder::open(workspace)?;
    let known: HashMap<&str, &str> = have
        .iter()
        .map(|file| (file.path.as_str(), file.sha256.as_str()))
        .collect();
    let mut export = folder.export(Path::new(OUTPUTS), ExportLimits::default())?;
    let (mut files, mut bytes) = (0, 0);
    while let Some(mut file) = next(&mut export)? {
        sink.entry(file.path(), file.size())?;
        match unchanged(&mut file, &known)? {
            Some(digest) => sink.end(digest, true)?,
            None => {
                let digest = copy(&mut file, Some(sink))?;
                sink.end(digest, false)?;
            }
        }
        files += 1;
        bytes += file.size();
        file.finish()?;
    }
    Ok((files, bytes))
}

fn next(export: &mut Option<machine::files::Export>) -> Result<Option<ExportFile>, ExportError> {
    export
        .as_mut()
        .map_or(Ok(None), machine::files::Export::next)
}

/// The digest of a file whose bytes Core has (RP-15.20). Any other is as if nothing of it had been read.
fn unchanged(
    file: &mut ExportFile,
    known: &HashMap<&str, &str>,
) -> Result<Option<String>, ExportFailure> {
    let Some(expected) = known.get(file.path()) else {
        return Ok(None);
    };
    let digest = copy(file, None)?;
    if digest == **expected {
        return Ok(Some(digest));
    }
    file.rewind()?;
    Ok(None)
}

/// Reads a file to its end and answers its digest; never hands on more than its announced size.
fn copy(file: &mut ExportFile, mut sink: Option<&mut dyn Sink>) -> Result<String, ExportFailure> {
    let size = file.size();
    let (mut hash, mut sent, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        if filled == 0 {
            break;
        }
        sent += filled as u64;
        if sent > size {
            return Err(ExportError::Changed.into());
        }
        hash.update(&buffer[..filled]);
        if let Some(sink) = &mut sink {
            sink.bytes(&buffer[..filled], sent == size)?;
        }
    }
    if sent == size {
        Ok(hex::encode(hash.finalize()))
    } else {
        Err(ExportError::Changed.into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[derive(Default)]
    struct Kept(Vec<(String, Vec<u8>, String, bool)>);

    impl Sink for Kept {
        fn entry(&mut self, path: &str, _size: u64) -> Result<(), Gone> {
            self.0
                .push((path.to_owned(), Vec::new(), String::new(), false));
            Ok(())
        }
        fn bytes(&mut self, bytes: &[u8], _last: bool) -> Result<(), Gone> {
            self.0.last_mut().unwrap().1.extend_from_slice(bytes);
            Ok(())
        }
        fn end(&mut self, sha256: String, skipped: bool) -> Result<(), Gone> {
            let entry = self.0.last_mut().unwrap();
            (entry.2, entry.3) = (sha256, skipped);
            Ok(())
        }
    }

    fn sha(bytes: &[u8]) -> String {
        hex::encode(Sha256::digest(bytes))
    }

    // RP-15.14, 15.15, 15.17, 15.20
    #[test]
    fn regular_files_are_copied_links_are_not_and_known_bytes_stay_here() {
        let folder = tempfile::tempdir().unwrap();
        let mut none = Kept::default();
        assert_eq!(export(folder.path(), &[], &mut none), Ok((0, 0)));
        let outputs = folder.path().join("outputs");
        std::fs::create_dir_all(outputs.join("deep/er")).unwrap();
        let big = vec![7; CHUNK + 1];
        std::fs::write(outputs.join("a"), b"").unwrap();
        std::fs::write(outputs.join("deep/er/b"), &big).unwrap();
        std::fs::hard_link(outputs.join("deep/er/b"), outputs.join("z")).unwrap();
        symlink("/etc/passwd", outputs.join("link")).unwrap();
        symlink("/etc", outputs.join("folder")).unwrap();
        let have = vec![
            HaveFile {
                path: "z".into(),
                sha256: sha(&big),
            },
            HaveFile {
                path: "a".into(),
                sha256: sha(b"other"),
            },
            // It has changed since.
            HaveFile {
                path: "deep/er/b".into(),
                sha256: sha(b"before"),
            },
            HaveFile {
                path: "gone".into(),
                sha256: sha(b""),
            },
        ];
        let mut kept = Kept::default();
        assert_eq!(
            export(folder.path(), &have, &mut kept),
            Ok((3, 2 * (CHUNK as u64 + 1)))
        );
        kept.0.sort();
        let expected = vec![
            ("a".to_owned(), vec![], sha(b""), false),
            ("deep/er/b".to_owned(), big.clone(), sha(&big), false),
            ("z".to_owned(), vec![], sha(&big), true),
        ];
        assert_eq!(kept.0, expected);
    }

    // RP-15.16
    #[test]
    fn what_is_no_folder_of_plain_files_fails_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = folder.path().join("outputs");
        std::fs::write(&outputs, b"file").unwrap();
        let refused = Err(ExportFailure::Refused(RefusalCode::OutputsUnusable));
        assert_eq!(export(folder.path(), &[], &mut Kept::default()), refused);
        std::fs::remove_file(&outputs).unwrap();
        symlink("/tmp", &outputs).unwrap();
        assert_eq!(export(folder.path(), &[], &mut Kept::default()), refused);
        std::fs::remove_file(&outputs).unwrap();
        std::fs::create_dir(&outputs).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(outputs.join("socket")).unwrap();
        assert_eq!(export(folder.path(), &[], &mut Kept::default()), refused);
    }
}
