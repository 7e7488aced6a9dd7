//! What a daemon is started with.

use std::{io, path::PathBuf};

use protocol::bootstrap::BadBootstrap;

use crate::{link::DialError, relay::RelayError};

/// What `berth daemon` is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The bootstrap file; its folder is the daemon's private state, which no harness sees (LOC-009).
    pub bootstrap: PathBuf,
    /// Installed harnesses, `<folder>/<name>/<version>/…`.
    pub harness_dir: PathBuf,
    /// Plugin files, and whether native ones may be loaded.
    pub plugins: plugin_host::Settings,
    /// Folder of the Sessions' private homes; beside the state folder, `home`, if not given.
    pub home: Option<PathBuf>,
    /// Our own program, for supervisors.
    pub own_program: PathBuf,
    /// Build, for Core and people.
    pub build: String,
    /// Runs at a time of an engine host; a dedicated Runtime has one.
    pub engine_runs: u32,
}

/// Why the daemon could not start. Each says what to do about it where that is not obvious.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The file cannot be read.
    #[error("the bootstrap file {0} cannot be read")]
    Bootstrap(PathBuf, #[source] io::Error),
    /// The file is not what it should be.
    #[error(transparent)]
    BadBootstrap(#[from] BadBootstrap),
    /// Another daemon serves this home (RP-3.17).
    #[error("another daemon already serves {0}")]
    Taken(PathBuf),
    /// The state folder or the lock.
    #[error("the state folder {0} cannot be used")]
    State(PathBuf, #[source] io::Error),
    /// The workspace is not there.
    #[error("the workspace {0} cannot be used")]
    Workspace(PathBuf, #[source] io::Error),
    /// A linked plugin is broken.
    #[error(transparent)]
    Plugin(#[from] plugin_host::PluginError),
    /// The model relay.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// Core's address.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Only test builds have them.
    #[error("{0}")]
    CrashPoint(String),
    /// The system refuses what a parent of processes needs.
    #[error("this process cannot look after its children")]
    Processes(#[source] io::Error),
}
