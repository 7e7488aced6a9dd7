//! The daemon's output in a file that cannot grow without bound (LOC-011).

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Two files of this size: the present one and the one before.
const HALF: u64 = 2 << 20;

/// Copies until nobody writes any more. What cannot be written is dropped: a full disk must not stop the daemon.
pub(super) fn copy(mut from: impl Read, to: &Path) {
    let mut log = Log::open(to).ok();
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if let Some(log) = &mut log {
            let _ = log.write(&buffer[..read]);
        }
    }
}

struct Log {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Log {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            size,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size + bytes.len() as u64 > HALF {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *self = Self::open(&self.path)?;
        }
        self.size += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_newest_bytes_within_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let line = [b'x'; 1023];
        let flood: Vec<u8> = (0..9000)
            .flat_map(|_| line.iter().copied().chain([b'\n']))
            .chain(*b"last")
            .collect();
        copy(flood.as_slice(), &path);
        let now = std::fs::read(&path).unwrap();
        let before = std::fs::metadata(folder.path().join("daemon.log.1"))
            .unwrap()
            .len();
        assert!(
            now.ends_with(b"last")
                && now.len() as u64 <= HALF
                && before <= HALF
                && before > HALF / 2
        );
    }
}
