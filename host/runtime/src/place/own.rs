//! The daemon's own machine as a [`Place`].

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use machine::process::{Exit, Order, Spawner, StartError, Stopper};
use plugin_host::contract::harness_launch::{LookAnswer, LookQuery};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    Command, End, HomeEntry, HomeError, Life, Place, Process, SpawnError,
    home::{HARNESS, Home},
};
use crate::relay::{Grant, Relay, RelayError, Route};

/// Of each Executor, what its programs wrote to standard error: never read by us, kept for the operator.
const DIAGNOSTICS: u64 = 1024 * 1024;

/// What all Sessions of one daemon share.
#[derive(Clone)]
pub struct Machine {
    /// Starts process trees, which do not see the daemon's own state (LOC-009).
    pub spawner: Spawner,
    /// The model relay.
    pub relay: Arc<Relay>,
    /// Absolute folder that holds one folder per Session.
    pub homes: PathBuf,
    /// Absolute folder of what programs wrote to standard error, one file per Session. Hidden from them: a name in a
    /// folder that an agent writes may be a link (LOC-009).
    pub diagnostics: PathBuf,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("homes", &self.homes)
            .finish_non_exhaustive()
    }
}

/// One Session on the daemon's own machine.
#[derive(Debug)]
pub struct OwnPlace {
    machine: Machine,
    /// `<homes>/<session>/harness`.
    path: PathBuf,
    diagnostics: PathBuf,
    home: Arc<Home>,
    workspace: Option<PathBuf>,
}

impl OwnPlace {
    /// Opens the place of the Session `name`, making its home if it is new.
    ///
    /// # Errors
    /// The home cannot be made or opened.
    pub fn open(machine: Machine, name: &str, workspace: Option<PathBuf>) -> io::Result<Self> {
        let home = Arc::new(Home::open(&machine.homes, name)?);
        Ok(Self {
            path: machine.homes.join(name).join(HARNESS),
            diagnostics: machine.diagnostics.join(format!("{name}.log")),
            machine,
            home,
            workspace,
        })
    }
}

impl Place for OwnPlace {
    fn home(&self) -> &Path {
        &self.path
    }

    fn workspace(&self) -> Option<&Path> {
        self.workspace.as_deref()
    }

    fn relay(&self, route: Route) -> Result<(String, Grant), RelayError> {
        Ok((self.machine.relay.url(), self.machine.relay.open(route)?))
    }

    fn put_home(&self, entry: HomeEntry) -> BoxFuture<'_, Result<(), HomeError>> {
        let home = Arc::clone(&self.home);
        Box::pin(async move { blocking(move || home.put(&entry)).await? })
    }

    fn look(&self, query: LookQuery) -> BoxFuture<'_, LookAnswer> {
        let home = Arc::clone(&self.home);
        let failed = |_: io::Error| LookAnswer::Failed("unreadable".to_owned());
        Box::pin(async move {
            blocking(move || home.look(&query))
                .await
                .unwrap_or_else(failed)
        })
    }

    fn spawn(&self, command: Command) -> BoxFuture<'_, Result<Process, SpawnError>> {
        Box::pin(async move {
            let mut order = Order::new(command.program, command.directory).args(command.args);
            for (name, value) in command.env {
                use std::os::unix::ffi::OsStrExt as _;
                order = order.env(name, std::ffi::OsStr::from_bytes(value.expose()));
            }
            // Files that an agent makes are its user's, readable like any others.
            order.umask = 0o022;
            let mut child =
                self.machine
                    .spawner
                    .start(order)
                    .await
                    .map_err(|error| match error {
                        StartError::ProgramMissing => SpawnError::Missing,
                        other => SpawnError::Io(io::Error::other(other)),
                    })?;
            let lost = || SpawnError::Io(io::ErrorKind::BrokenPipe.into());
            let input = child.stdin.take().ok_or_else(lost)?;
            let output = child.stdout.take().ok_or_else(lost)?;
            if let Some(stderr) = child.stderr.take() {
                tokio::spawn(keep_diagnostics(stderr, self.diagnostics.clone()));
            }
            let life = Arc::new(Tree(child.stopper()));
            Ok(Process {
                input: Box::new(input),
                output: Box::new(output),
                life,
            })
        })
    }

    fn remove_home(&self) -> BoxFuture<'_, Result<(), HomeError>> {
        let (home, diagnostics) = (Arc::clone(&self.home), self.diagnostics.clone());
        Box::pin(async move {
            let removed = blocking(move || {
                home.remove()?;
                match std::fs::remove_file(diagnostics) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    removed => removed,
                }
            });
            removed.await?.map_err(HomeError::Io)
        })
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}

/// Copies what fits, then reads on without keeping, so that the program never blocks on it.
async fn keep_diagnostics(mut stderr: impl AsyncRead + Unpin, path: PathBuf) {
    if let Some(folder) = path.parent() {
        // Without it there is no file, and that is told by its absence.
        let _ = tokio::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .await;
    }
    let file = tokio::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .await;
    if let Ok(mut file) = file {
        let copied = tokio::io::copy(&mut (&mut stderr).take(DIAGNOSTICS), &mut file).await;
        if copied.is_ok() {
            let _ = file.flush().await;
        }
    }
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
}

struct Tree(Stopper);

impl Life for Tree {
    fn stop(&self, grace: Duration) {
        self.0.request_stop(grace);
    }

    fn is_alone(&self) -> BoxFuture<'static, bool> {
        let tree = self.0.clone();
        Box::pin(async move { tree.others().await == Some(0) })
    }

    fn end(&self) -> BoxFuture<'static, End> {
        let tree = self.0.clone();
        Box::pin(async move {
            let ended = tree.wait().await;
            let (exit_code, signal) = match ended.exit {
                Some(Exit::Code(code)) => (Some(code), None),
                Some(Exit::Signal(signal)) => (None, Some(signal)),
                None => (None, None),
            };
            // Killing what a harness left behind is how its tree is ended (TRN-010), so that alone leaves no doubt.
            End {
                exit_code,
                signal,
                clean: ended.exit.is_some() && ended.scope_empty,
                empty: ended.scope_empty,
            }
        })
    }
}
