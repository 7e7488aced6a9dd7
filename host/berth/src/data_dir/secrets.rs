//! The secrets of an installation: made once, on the first start, and never again (OPS-130, OPS-140).

use super::{publish, rotation};
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::{InstallationId, OwnerId, Secret, key};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// File of the Core key.
pub const CORE_KEY: &str = "core-key";
pub const CREDENTIAL_KEY: &str = "credential.key";
const API_KEY: &str = "api-key";
const DATABASE: &str = "berth.db";
/// Written last: a folder that has it has had its first start.
pub const INSTALLATION: &str = "installation-id";
/// Stands for this folder among the Cores of one database. Made again when it is missing: it proves less then, not more.
pub(super) const OWNER: &str = "owner-id";

/// What a start reads from the folder.
pub struct Secrets {
    /// The service key, 32 bytes.
    pub credential_key: Secret,
    /// The service key before it, while a rotation is not complete.
    pub former_key: Option<Secret>,
    /// The Core key.
    pub core_key: Secret,
    /// Who we are.
    pub installation: InstallationId,
    /// Who this folder's Core is among those of one database (D31).
    pub owner: OwnerId,
    /// The first Project's key, as long as its file is there; somebody who took it away does not want it back.
    pub api_key: Option<Secret>,
    /// Its file.
    pub api_key_file: PathBuf,
}

impl Secrets {
    /// Reads the secrets, or makes them in a folder that has never been used. The caller holds the folder's lock.
    ///
    /// # Errors
    /// One is missing from a folder that has been used: a new one would not fit the database. Or the database is, which
    /// `holds_database` says is in the folder: an empty one in its place would hide the loss.
    pub fn open(folder: &Path, holds_database: bool) -> anyhow::Result<Self> {
        if !folder.join(INSTALLATION).exists() {
            make_all(folder, holds_database)?;
        } else if holds_database && !folder.join(DATABASE).exists() {
            bail!(
                "{} has been used, and its database `{DATABASE}` is missing; put it back from a back-up, name its server with --database-url, or begin anew with another --data-dir",
                folder.display()
            );
        }
        let credential_key = service_key(
            &folder.join(CREDENTIAL_KEY),
            "the service key is missing; without it the stored secrets cannot be opened, so put the file back from the back-up of this folder",
        )?;
        let installation = std::fs::read_to_string(folder.join(INSTALLATION))
            .with_context(|| format!("cannot read {}", folder.join(INSTALLATION).display()))?;
        let api_key_file = folder.join(API_KEY);
        Ok(Self {
            credential_key,
            former_key: rotation::former(folder)?,
            core_key: core_key(folder)?,
            installation: installation.trim().parse().map_err(|_| {
                anyhow::anyhow!("{} is no UUID", folder.join(INSTALLATION).display())
            })?,
            owner: owner(folder)?,
            api_key: if api_key_file.exists() {
                Some(read_secret(&api_key_file)?)
            } else {
                None
            },
            api_key_file,
        })
    }
}

/// A file of a service key (KEY-004).
pub(super) fn service_key(path: &Path, missing: &str) -> anyhow::Result<Secret> {
    let text = kept_secret(path, missing)?;
    let bytes = STANDARD.decode(text.expose());
    let bytes = bytes.ok().filter(|bytes| bytes.len() == 32);
    let bytes = bytes.with_context(|| format!("{} is not 32 bytes in Base64", path.display()))?;
    Ok(Secret::new(bytes))
}

/// The text of a new service key.
pub(super) fn new_service_key() -> anyhow::Result<Secret> {
    Ok(Secret::from(STANDARD.encode(random()?)))
}

fn owner(folder: &Path) -> anyhow::Result<OwnerId> {
    let path = folder.join(OWNER);
    match std::fs::read_to_string(&path) {
        Ok(text) => text
            .trim()
            .parse()
            .map_err(|_| anyhow::anyhow!("{} is no UUID; remove it", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let owner = OwnerId::new(uuid::Uuid::new_v4());
            publish(folder, OWNER, owner.to_string().as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
            Ok(owner)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn core_key(folder: &Path) -> anyhow::Result<Secret> {
    let path = folder.join(CORE_KEY);
    let missing = format!(
        "the Core key is missing; put {} back, or write a new one there",
        path.display()
    );
    let key = kept_secret(&path, &missing)?;
    // OPS-004
    if key.len() < 32 || key.expose().iter().any(u8::is_ascii_whitespace) {
        bail!(
            "{} must hold at least 32 characters without blanks",
            path.display()
        );
    }
    Ok(key)
}

fn make_all(folder: &Path, holds_database: bool) -> anyhow::Result<()> {
    let database = folder.join(DATABASE);
    if database.metadata().is_ok_and(|data| data.len() > 0) {
        bail!(
            "{} holds a database but no `{INSTALLATION}`; put that file and `{CREDENTIAL_KEY}` back from a back-up",
            folder.display()
        );
    }
    let make = |name: &str, content: &[u8]| match publish(folder, name, content) {
        // A first start that was killed made it; no database can depend on anything yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => result.with_context(|| format!("cannot write {}", folder.join(name).display())),
    };
    make(CREDENTIAL_KEY, new_service_key()?.expose())?;
    make(CORE_KEY, key::core_key(random()?).expose())?;
    make(API_KEY, key::api_key(random()?).expose())?;
    if holds_database {
        // An empty file is an empty database: from now on one that is missing was lost.
        make(DATABASE, b"")?;
    }
    make(INSTALLATION, uuid::Uuid::new_v4().to_string().as_bytes())
}

fn random() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    Ok(bytes)
}

/// A secret that this folder must have: says what to do if it is not there, and what is wrong with it if it is.
fn kept_secret(path: &Path, missing: &str) -> anyhow::Result<Secret> {
    if path.try_exists().unwrap_or(true) {
        read_secret(path)
    } else {
        bail!("{missing}");
    }
}

/// Reads a file that holds one secret; a line end after it does not count.
///
/// # Errors
/// It cannot be read, is empty, or others may read it.
pub fn read_secret(path: &Path) -> anyhow::Result<Secret> {
    let mode = std::fs::metadata(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        bail!(
            "others may read {} (mode {:o}), and it holds a secret; run `chmod 600 {}`",
            path.display(),
            mode & 0o777,
            path.display()
        );
    }
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = text.trim_ascii();
    if text.is_empty() {
        bail!("{} is empty", path.display());
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    // OPS-140
    #[test]
    fn the_first_start_makes_secrets_and_the_second_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let first = Secrets::open(folder.path(), true).unwrap();
        let second = Secrets::open(folder.path(), true).unwrap();
        assert_eq!(first.credential_key.len(), 32);
        assert_eq!(first.credential_key, second.credential_key);
        assert_eq!(first.installation, second.installation);
        assert_eq!(first.core_key, second.core_key);
        assert_eq!(first.api_key, second.api_key);
        for name in [CREDENTIAL_KEY, CORE_KEY, API_KEY, INSTALLATION] {
            assert_eq!(
                folder
                    .path()
                    .join(name)
                    .metadata()
                    .unwrap()
                    .permissions()
                    .mode()
                    & 0o777,
                0o600,
                "{name}"
            );
        }
    }

    #[test]
    fn a_lost_service_key_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        Secrets::open(folder.path(), true).unwrap();
        std::fs::remove_file(folder.path().join(CREDENTIAL_KEY)).unwrap();
        assert!(Secrets::open(folder.path(), true).is_err());
        assert!(!folder.path().join(CREDENTIAL_KEY).exists());
    }

    #[test]
    fn a_kept_secret_is_missing_only_when_it_is_not_there() {
        for name in [CREDENTIAL_KEY, CORE_KEY] {
            let folder = tempfile::tempdir().unwrap();
            Secrets::open(folder.path(), true).unwrap();
            let path = folder.path().join(name);
            let said = || {
                Secrets::open(folder.path(), true)
                    .err()
                    .unwrap()
                    .to_string()
            };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(said().contains("chmod 600"), "{}", said());
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::write(&path, "").unwrap();
            assert!(said().contains("is empty"), "{}", said());
            std::fs::remove_file(&path).unwrap();
            assert!(said().contains("is missing"), "{}", said());
        }
    }

    #[test]
    fn a_database_without_its_secrets_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(DATABASE), "rows").unwrap();
        assert!(Secrets::open(folder.path(), true).is_err());
        assert!(!folder.path().join(CREDENTIAL_KEY).exists());
    }

    #[test]
    fn a_lost_database_is_not_replaced_by_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        Secrets::open(folder.path(), true).unwrap();
        std::fs::remove_file(folder.path().join(DATABASE)).unwrap();
        let said = Secrets::open(folder.path(), true)
            .err()
            .unwrap()
            .to_string();
        assert!(said.contains("back-up"), "{said}");
        // With a server, the file is not needed.
        Secrets::open(folder.path(), false).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        Secrets::open(elsewhere.path(), false).unwrap();
        assert!(!elsewhere.path().join(DATABASE).exists());
    }

    #[test]
    fn a_killed_first_start_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let key = Secrets::open(folder.path(), true).unwrap().core_key;
        std::fs::remove_file(folder.path().join(INSTALLATION)).unwrap();
        let again = Secrets::open(folder.path(), true).unwrap();
        assert_eq!(again.core_key, key);
    }

    #[test]
    fn a_removed_api_key_stays_removed() {
        let folder = tempfile::tempdir().unwrap();
        Secrets::open(folder.path(), true).unwrap();
        std::fs::remove_file(folder.path().join(API_KEY)).unwrap();
        assert_eq!(Secrets::open(folder.path(), true).unwrap().api_key, None);
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        std::fs::write(&path, "secret\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            read_secret(&path)
                .unwrap_err()
                .to_string()
                .contains("chmod 600")
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_secret(&path).unwrap().expose(), b"secret");
    }
}
