//! One Core for each data folder, and how others find it.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const SERVER: &str = "server.json";

/// Where a Core answers; `D/server.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// `http://address:port`, reachable from this machine.
    pub url: String,
    /// Its process.
    pub pid: u32,
    /// The isolation of its Environments on this machine, as `--local-isolation` says it.
    pub local_isolation: String,
}

/// The folder is ours until this is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    // Closing the file is what unlocks.
    _file: File,
    folder: PathBuf,
}

impl Lock {
    /// Takes the folder.
    ///
    /// # Errors
    /// Another Core has it; the sentence names its process and address.
    pub fn take(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(LOCK);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {
                // Of a Core that was killed.
                let _ = std::fs::remove_file(folder.join(SERVER));
                Ok(Self {
                    _file: file,
                    folder: folder.to_path_buf(),
                })
            }
            Err(TryLockError::WouldBlock) => match recorded(folder) {
                Ok(Recorded { url, pid, .. }) => {
                    bail!(
                        "the data folder {} is in use by process {pid}, which answers at {url}; stop it first, or give this one another --data-dir",
                        folder.display()
                    )
                }
                Err(_) => bail!(
                    "the data folder {} is in use by another Core that is starting or stopping; wait for it, or give this one another --data-dir",
                    folder.display()
                ),
            },
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody answers there any more; a stale record is overwritten by the next start in any case.
        let _ = std::fs::remove_file(self.folder.join(SERVER));
    }
}

/// Says where this Core answers; only the holder of the lock may.
///
/// # Errors
/// The disk refuses.
pub fn record(lock: &Lock, at: &Recorded) -> anyhow::Result<()> {
    let path = lock.folder.join(SERVER);
    let temporary = lock.folder.join(".server.json.new");
    std::fs::write(&temporary, serde_json::to_vec(at)?)
        .with_context(|| format!("cannot write {}", temporary.display()))?;
    std::fs::rename(&temporary, &path).with_context(|| format!("cannot write {}", path.display()))
}

/// Where the Core of this folder answers.
///
/// # Errors
/// None has said so.
pub fn recorded(folder: &Path) -> anyhow::Result<Recorded> {
    let path = folder.join(SERVER);
    let text = std::fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "no Core runs on the data folder {} ({} is missing); start one with `berth serve --data-dir {}`, or name one with --url and --core-key-file",
            folder.display(),
            path.display(),
            folder.display()
        ),
        ErrorKind::PermissionDenied => anyhow::anyhow!(
            "{} may be read by the account that runs the Core only; run this command as that account, or name the Core with --url and --core-key-file",
            path.display()
        ),
        _ => anyhow::Error::new(error).context(format!("cannot read {}", path.display())),
    })?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is damaged; restart the Core", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_core_is_told_who_has_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        assert!(
            Lock::take(folder.path())
                .unwrap_err()
                .to_string()
                .contains("starting or stopping")
        );

        let at = Recorded {
            url: "http://127.0.0.1:1".into(),
            pid: 77,
            local_isolation: "auto".into(),
        };
        record(&lock, &at).unwrap();
        assert_eq!(recorded(folder.path()).unwrap(), at);
        let said = Lock::take(folder.path()).unwrap_err().to_string();
        assert!(
            said.contains("process 77") && said.contains("http://127.0.0.1:1"),
            "{said}"
        );

        drop(lock);
        assert!(
            recorded(folder.path())
                .unwrap_err()
                .to_string()
                .contains("berth serve --data-dir")
        );
        Lock::take(folder.path()).unwrap();
    }
}
