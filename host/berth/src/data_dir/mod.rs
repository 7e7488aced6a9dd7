//! The private folder of a Core: its secrets, its lock, where it answers, and everything it stores.
//!
//! ```text
//! D/credential.key   seals every secret in the database      D/berth.db     the database, unless PostgreSQL is used
//! D/core-key         administration                          D/server.json  address and pid of the running Core
//! D/api-key          the first Project's key                 D/lock         held by the running Core
//! D/installation-id  ties database and folder together       D/harnesses/   installed harness programs
//! D/owner-id         which Core of the database this one is, and where that was made (owner-place)
//! D/credential.key.former  the key before it, while a rotation is not complete
//!                                                            D/plugins/     plugin files and what they were granted
//! ```

mod lock;
pub mod place;
pub mod rotation;
mod secrets;

pub use lock::{Lock, Recorded, record, recorded};
use secrets::OWNER;
pub use secrets::{CORE_KEY, CREDENTIAL_KEY, INSTALLATION, Secrets, read_secret};

use anyhow::{Context, bail};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The folder that is used when none is named.
pub const DEFAULT: &str = "berth-data";

/// Where installed harness programs are.
pub const HARNESSES: &str = "harnesses";
/// Where plugin files are.
pub const PLUGINS: &str = "plugins";

/// Makes the folder if it is missing and checks that nobody else can look into it. Passing through is the operator's
/// decision (mode 0711): accounts of sandboxes without a view of their own need it to reach their workspace (LOC-006).
///
/// # Errors
/// It cannot be made, or others may read it.
pub fn open(folder: &Path) -> anyhow::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make the data folder {}", folder.display()))?;
    let folder = folder
        .canonicalize()
        .with_context(|| format!("cannot find the data folder {}", folder.display()))?;
    let mode = folder.metadata()?.permissions().mode();
    if mode & 0o066 != 0 {
        bail!(
            "others may look into the data folder {} (mode {:o}), and it holds keys; run `chmod 700 {}`",
            folder.display(),
            mode & 0o777,
            folder.display()
        );
    }
    Ok(folder)
}

/// Publishes a new private file (0600) whole and durable, or not at all. Never replaces one.
///
/// # Errors
/// The file exists, or the disk refuses.
fn publish(folder: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let target = folder.join(name);
    let temporary = folder.join(format!(".{name}.new"));
    // Left by a start that was killed.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    // A link never replaces, a rename would.
    std::fs::hard_link(&temporary, &target)?;
    std::fs::remove_file(&temporary)?;
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_file_is_private_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        publish(folder.path(), "x", b"one").unwrap();
        assert_eq!(
            publish(folder.path(), "x", b"two").unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(std::fs::read(folder.path().join("x")).unwrap(), b"one");
        assert_eq!(
            folder
                .path()
                .join("x")
                .metadata()
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o600
        );
    }

    #[test]
    fn a_folder_that_others_may_look_into_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("d");
        open(&folder).unwrap();
        assert_eq!(
            folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        for mode in [0o755, 0o750, 0o722, 0o704] {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(open(&folder).unwrap_err().to_string().contains("chmod 700"));
        }
        // Passing through shows nothing.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o711)).unwrap();
        open(&folder).unwrap();
    }
}
