//! The port between an Executor and the machine it works on.
//!
//! An Executor never opens a file, a process or a socket itself: it asks the [`Place`] of its Session. The daemon's own
//! machine is one implementation; another could stand elsewhere, and tests put a scripted one here.

mod home;
mod own;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use domain::Secret;
use futures_util::future::BoxFuture;
use plugin_host::contract::harness_launch::{LookAnswer, LookQuery};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::relay::{Grant, RelayError, Route};

pub use own::{Machine, OwnPlace};

/// Where one Session's Executor lives.
pub trait Place: Send + Sync + std::fmt::Debug {
    /// Absolute path of the private home, as a process started here sees it. Mode 0700, only this Session's.
    fn home(&self) -> &Path;
    /// Absolute path of the workspace, or none for Environment type `none`.
    fn workspace(&self) -> Option<&Path>;
    /// Opens the model relay for this Session; the address is for processes started here.
    ///
    /// # Errors
    /// No random bytes for a token.
    fn relay(&self, route: Route) -> Result<(String, Grant), RelayError>;
    /// Writes one entry of the private home.
    fn put_home(&self, entry: HomeEntry) -> BoxFuture<'_, Result<(), HomeError>>;
    /// Answers a question about the private home.
    fn look(&self, query: LookQuery) -> BoxFuture<'_, LookAnswer>;
    /// Starts a process tree under a supervisor (RP-16); within seconds it runs or certainly does not.
    fn spawn(&self, command: Command) -> BoxFuture<'_, Result<Process, SpawnError>>;
    /// Removes the private home and all that belongs to the Session here (RP-8.5); the workspace stays.
    fn remove_home(&self) -> BoxFuture<'_, Result<(), HomeError>>;
}

/// One entry of a private home, with every value filled in.
#[derive(Debug)]
pub struct HomeEntry {
    /// Relative, clean path.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// What it is.
    pub content: HomeContent,
}

/// What an entry of a private home is.
#[derive(Debug)]
pub enum HomeContent {
    /// A file; written beside and renamed, an equal one is left alone.
    File(Secret),
    /// A folder.
    Folder,
    /// Nothing: what is there is removed.
    Absent,
}

/// A private home could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The path leaves the home, or has a link on the way.
    #[error("a path of the private home is not clean")]
    Path,
    /// The file system refused.
    #[error("the private home could not be changed")]
    Io(#[from] std::io::Error),
}

/// A program to start. Nothing of the daemon's own environment is inherited (RP-16.7).
#[derive(Debug)]
pub struct Command {
    /// Absolute path.
    pub program: PathBuf,
    /// Arguments; never a secret.
    pub args: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, Secret)>,
    /// Working directory.
    pub directory: PathBuf,
}

/// A process that runs.
pub struct Process {
    /// Its standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Its life.
    pub life: std::sync::Arc<dyn Life>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Process")
    }
}

/// How a process tree is ended and observed.
pub trait Life: Send + Sync {
    /// Ends the whole tree: TERM, then KILL after `grace`. Returns at once; `end` tells when it is done.
    fn stop(&self, grace: Duration);
    /// Whether nothing of the tree lives beside its leader; false when that cannot be told.
    fn is_alone(&self) -> BoxFuture<'static, bool>;
    /// Waits until the leader has exited and the tree is empty.
    fn end(&self) -> BoxFuture<'static, End>;
}

/// How a process tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Exit code of the leader.
    pub exit_code: Option<i32>,
    /// Signal that ended the leader.
    pub signal: Option<i32>,
    /// Leader exit and an empty tree are both confirmed (RP-16.2).
    pub clean: bool,
    /// Nothing of the tree is left. Known also where the supervisor was killed and the leader's exit was seen by nobody:
    /// all its orphans were waited for.
    pub empty: bool,
}

/// A process was certainly not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program is not there or not executable.
    #[error("the program is missing")]
    Missing,
    /// The system refused.
    #[error("the program could not be started")]
    Io(#[from] std::io::Error),
}
