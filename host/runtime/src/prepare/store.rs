//! The records of initializations, in the daemon's private state.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use domain::{EnvironmentId, Secret, SessionId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Most variables of one Session.
const VARIABLES: usize = 1000;
/// Names that a Session may not set (RP-9.18).
const RESERVED: [&str; 2] = ["PATH", "OPENAI_API_KEY"];
const RESERVED_PREFIXES: [&str; 2] = ["OAC_", "CODEX_"];

/// Why a step did not take effect. Nothing in it names a variable, a value or a path (RP-9.12).
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The step says something that it may not say; nothing was written.
    #[error("the step is not acceptable")]
    Refused,
    /// What is there contradicts the step; it is left alone (RP-9.24).
    #[error("the state on this machine contradicts the step")]
    Conflict,
    /// The file system failed, so an effect is possible.
    #[error("the state could not be written")]
    Io(#[source] io::Error),
}

/// Why an installed snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is missing, incomplete, foreign, or was removed.
    #[error("there is no complete snapshot of this Environment")]
    Unusable,
    /// The file system failed.
    #[error("the snapshot could not be read")]
    Io(#[from] io::Error),
}

/// All records below one folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: Arc<PathBuf>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prepared {
    version: u32,
    session: SessionId,
    environment: EnvironmentId,
    env: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Installed {
    version: u32,
    session: SessionId,
    environment: EnvironmentId,
    /// SHA-256 of the ordered source selection.
    selection: String,
}

impl Store {
    /// Below this folder, which is made when it is needed.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self {
            root: Arc::new(root),
        }
    }

    /// Writes the private prepared snapshot: the Session's variables.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn configure(
        &self,
        session: SessionId,
        environment: EnvironmentId,
        env: Vec<(String, String)>,
    ) -> Result<(), StepError> {
        let unique: BTreeMap<String, String> = env.iter().cloned().collect();
        let fits = env.len() <= VARIABLES
            && unique.len() == env.len()
            && unique.iter().all(|(n, v)| is_allowed(n, v));
        if !fits {
            return Err(StepError::Refused);
        }
        let prepared = Prepared {
            version: 1,
            session,
            environment,
            env: unique,
        };
        self.on_disk(move |store| {
            let _lock = store.lock(environment).map_err(StepError::Io)?;
            if store.completion(environment).exists() || store.installed(environment).exists() {
                return Err(StepError::Conflict);
            }
            publish(&store.prepared(environment), &prepared).map_err(StepError::Io)
        })
        .await
    }

    /// Publishes the snapshot of an empty selection.
    ///
    /// # Errors
    /// See [`StepError`].
    pub async fn finalize(
        &self,
        session: SessionId,
        environment: EnvironmentId,
    ) -> Result<(), StepError> {
        let installed = of_nothing(session, environment);
        self.on_disk(move |store| {
            let _lock = store.lock(environment).map_err(StepError::Io)?;
            let there: Option<Installed> =
                read(&store.installed(environment)).map_err(|_| StepError::Conflict)?;
            match there {
                Some(there) if there != installed => return Err(StepError::Conflict),
                Some(_) => {}
                None if store.completion(environment).exists() => return Err(StepError::Conflict),
                None => {
                    publish(&store.installed(environment), &installed).map_err(StepError::Io)?
                }
            }
            publish(&store.completion(environment), &installed).map_err(StepError::Io)
        })
        .await
    }

    /// The variables of a completely initialized Environment.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub async fn load(
        &self,
        session: SessionId,
        environment: EnvironmentId,
    ) -> Result<Vec<(String, Secret)>, LoadError> {
        let expected = of_nothing(session, environment);
        let store = self.clone();
        let loaded = tokio::task::spawn_blocking(move || {
            for record in [store.installed(environment), store.completion(environment)] {
                if read::<Installed>(&record)?.as_ref() != Some(&expected) {
                    return Err(LoadError::Unusable);
                }
            }
            match read::<Prepared>(&store.prepared(environment))? {
                None => Ok(Vec::new()),
                Some(prepared)
                    if prepared.session == session && prepared.environment == environment =>
                {
                    Ok(prepared
                        .env
                        .into_iter()
                        .map(|(name, value)| (name, Secret::from(value)))
                        .collect())
                }
                Some(_) => Err(LoadError::Unusable),
            }
        });
        loaded
            .await
            .map_err(|error| LoadError::Io(io::Error::other(error)))?
    }

    async fn on_disk(
        &self,
        work: impl FnOnce(Self) -> Result<(), StepError> + Send + 'static,
    ) -> Result<(), StepError> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(store));
        done.await
            .map_err(|error| StepError::Io(io::Error::other(error)))?
    }

    fn folder(&self, environment: EnvironmentId) -> PathBuf {
        self.root.join(environment.to_string())
    }

    fn prepared(&self, environment: EnvironmentId) -> PathBuf {
        self.folder(environment).join("prepared.json")
    }

    fn installed(&self, environment: EnvironmentId) -> PathBuf {
        self.folder(environment).join("installed.json")
    }

    /// Beside the folder: it stays when the folder is removed.
    fn completion(&self, environment: EnvironmentId) -> PathBuf {
        self.root.join(format!("{environment}.completed.json"))
    }

    /// Stops a concurrent installation (RP-9.23) for as long as the file is held.
    fn lock(&self, environment: EnvironmentId) -> io::Result<File> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.folder(environment))?;
        let path = self.root.join(format!("{environment}.lock"));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.lock()?;
        Ok(file)
    }
}

fn of_nothing(session: SessionId, environment: EnvironmentId) -> Installed {
    Installed {
        version: 1,
        session,
        environment,
        selection: hex::encode(Sha256::digest(b"[]")),
    }
}

/// RP-9.18
fn is_allowed(name: &str, value: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let well_formed = name.bytes().next().is_some_and(letter)
        && name.bytes().all(|b| letter(b) || b.is_ascii_digit());
    let reserved = RESERVED.contains(&name)
        || RESERVED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix));
    well_formed && !reserved && !value.contains('\0')
}

/// A record that is not there is none; one that cannot be read as what it should be is an error.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Durable before it is visible: a reader sees all of it or nothing, also after a power cut.
fn publish<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn ids() -> (SessionId, EnvironmentId) {
        (
            SessionId::new(Uuid::new_v4()),
            EnvironmentId::new(Uuid::new_v4()),
        )
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("initialization"));
        (folder, store)
    }

    fn env(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    // RP-9.21, RP-9.25
    #[tokio::test]
    async fn an_empty_selection_is_published_and_loads_with_the_variables() {
        let (_folder, store) = store();
        let (session, environment) = ids();
        assert!(matches!(
            store.load(session, environment).await,
            Err(LoadError::Unusable)
        ));
        store
            .configure(session, environment, env("A", "canary"))
            .await
            .unwrap();
        assert!(
            matches!(
                store.load(session, environment).await,
                Err(LoadError::Unusable)
            ),
            "not finalized"
        );
        store.finalize(session, environment).await.unwrap();
        store.finalize(session, environment).await.unwrap();
        let loaded = store.load(session, environment).await.unwrap();
        assert_eq!(
            loaded,
            vec![("A".to_owned(), Secret::from("canary".to_owned()))]
        );
        assert!(matches!(
            store.configure(session, environment, vec![]).await,
            Err(StepError::Conflict)
        ));
    }

    // RP-9.23, RP-9.24
    #[tokio::test]
    async fn a_removed_or_foreign_snapshot_fails_and_is_not_repaired() {
        let (_folder, store) = store();
        let (session, environment) = ids();
        store.finalize(session, environment).await.unwrap();
        let (stranger, _) = ids();
        assert!(matches!(
            store.load(stranger, environment).await,
            Err(LoadError::Unusable)
        ));
        assert!(matches!(
            store.finalize(stranger, environment).await,
            Err(StepError::Conflict)
        ));
        fs::remove_file(store.installed(environment)).unwrap();
        assert!(matches!(
            store.load(session, environment).await,
            Err(LoadError::Unusable)
        ));
        assert!(matches!(
            store.finalize(session, environment).await,
            Err(StepError::Conflict)
        ));
        assert!(!store.installed(environment).exists());
    }

    // RP-9.12, RP-9.18
    #[tokio::test]
    async fn reserved_and_malformed_names_are_refused_without_being_named() {
        let (_folder, store) = store();
        let (session, environment) = ids();
        for (name, value) in [
            ("PATH", "x"),
            ("OPENAI_API_KEY", "x"),
            ("OAC_X", "x"),
            ("CODEX_HOME", "x"),
            ("1A", "x"),
            ("A-B", "x"),
            ("", "x"),
            ("A=B", "x"),
            ("A", "nul\0"),
        ] {
            let refused = store
                .configure(session, environment, env(name, value))
                .await
                .unwrap_err();
            assert!(matches!(refused, StepError::Refused), "{name}");
        }
        let twice = [env("A", "canary"), env("A", "canary")].concat();
        let refused = store
            .configure(session, environment, twice)
            .await
            .unwrap_err();
        assert!(!format!("{refused:?} {refused}").contains("canary"));
    }
}
