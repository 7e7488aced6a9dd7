//! The vocabulary of [`super::Sandboxes`].

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How strongly a sandbox is separated, best first (LOC-002).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// User, mount, pid, ipc and uts namespaces.
    Namespaces,
    /// An allow-list of paths; other processes are visible but out of reach (Linux 6.12 and newer).
    Landlock,
    /// A plain process.
    None,
}

impl Level {
    /// Its name in declarations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }
}

/// The operator's choice (`--local-isolation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The best that the probe proves; never [`Level::None`].
    Auto,
    /// This one or nothing.
    Only(Level),
}

/// What the deployment decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of all sandboxes, `<root>/<tenant>/<session>/…`; made if it is missing (LOC-010, LOC-012).
    pub root: PathBuf,
    /// Our own program.
    pub own_program: PathBuf,
    /// Arguments of the daemon before the bootstrap path; `{harnesses}`, `{plugins}` and `{home}` are where it sees the
    /// installed harnesses, the plugin folder (empty where there is none) and its private home.
    pub daemon_args: Vec<String>,
    /// The installed harnesses.
    pub harnesses: PathBuf,
    /// The plugin folder, if this deployment has one.
    pub plugins: Option<PathBuf>,
    /// Folder of Core's socket ([`crate::socket`]), which the daemon sees in its state folder; none where Core has only a URL.
    pub core: Option<PathBuf>,
    /// Further paths that are visible, read-only (`--local-expose`).
    pub exposed: Vec<PathBuf>,
    /// Level.
    pub isolation: Isolation,
    /// Real accounts when Core is root (LOC-006).
    pub accounts: RangeInclusive<u32>,
    /// How long a start may take before it is undone.
    pub starts_within: Duration,
}

impl Settings {
    /// The usual settings over these places.
    pub fn new(
        root: impl Into<PathBuf>,
        own_program: impl Into<PathBuf>,
        harnesses: impl Into<PathBuf>,
    ) -> Self {
        Self {
            root: root.into(),
            own_program: own_program.into(),
            daemon_args: [
                "daemon",
                "--harness-dir",
                "{harnesses}",
                "--home",
                "{home}",
                "--bootstrap",
            ]
            .map(String::from)
            .to_vec(),
            harnesses: harnesses.into(),
            plugins: None,
            core: None,
            exposed: Vec::new(),
            isolation: Isolation::Auto,
            accounts: 61184..=65519,
            starts_within: Duration::from_secs(20),
        }
    }
}

/// Whose sandbox it is; stored with it and compared on every operation (SP-3.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// This installation.
    pub installation: String,
    /// The Project.
    pub tenant: String,
    /// The Session; names the folder (LOC-010).
    pub session: String,
    /// The Environment.
    pub environment: String,
    /// The allocation.
    pub allocation: String,
    /// Of the deployment selection it was made under.
    pub generation: u32,
    /// DNS label: host name inside and name of the cgroup.
    pub name: String,
}

/// What this machine can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The level that is used; none = no sandbox can be started.
    pub level: Option<Level>,
    /// Limits that are really enforced.
    pub enforced: Enforced,
    /// Those of them that a control group enforces.
    pub(super) grouped: Enforced,
    /// Fixed code of what is missing.
    pub problem: Option<&'static str>,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
}

/// Which limits are enforced (LOC-008). Open files always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enforced {
    /// Number of processes and threads.
    pub processes: bool,
    /// Memory.
    pub memory: bool,
    /// Processors.
    pub cpus: bool,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Everything that is visible inside.
    pub view: Vec<Mount>,
    /// Account name inside.
    pub account: String,
    /// Account number inside.
    pub uid: u32,
    /// Limits; absent = the default.
    pub limits: Limits,
    /// Environment of the daemon.
    pub env: Vec<(String, String)>,
    /// Absolute path inside of the bootstrap file, below the state folder.
    pub bootstrap_path: PathBuf,
}

/// Limits of one sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads; default 512.
    pub processes: Option<u64>,
    /// MiB of memory; default unlimited.
    pub memory_mib: Option<u64>,
    /// Processors; default all.
    pub cpus: Option<u64>,
    /// Open files of each process; default 4096.
    pub open_files: Option<u64>,
}

/// Places that a bootstrap file names, as the daemon sees them (LOC-011).
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The workspace.
    pub workspace: &'a str,
    /// Core's socket, if it has one for this machine.
    pub core: Option<&'a str>,
}

/// One visible thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Absolute path inside; ignored for [`Source::Exposed`].
    pub inside: PathBuf,
    /// Where it comes from.
    pub source: Source,
    /// Can be written; refused for what is the host's.
    pub writable: bool,
}

/// Where a visible thing comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder or file of the host; missing ones are left out, links stay links.
    System(PathBuf),
    /// All paths that the operator exposes.
    Exposed,
    /// The installed harnesses.
    Harnesses,
    /// The plugin folder; left out where this deployment has none.
    Plugins,
    /// The workspace.
    Workspace,
    /// The private home.
    Home,
    /// The daemon's state.
    State,
    /// Fresh memory of so many MiB.
    Scratch(u32),
    /// `passwd`, `group` or `hosts`, written from the account.
    Generated(String),
    /// Our own program.
    OwnProgram,
    /// Processes of the inside.
    Proc,
    /// The usual devices.
    Devices,
}

/// Whether a start may make the folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first start of this allocation.
    First,
    /// With the folders that are there.
    Again,
}

/// What stays after a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The folders.
    Folders,
    /// Nothing.
    Nothing,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The init lives, by a process handle and not by a number (LOC-021).
    pub running: bool,
    /// Level it was started with.
    pub level: Level,
    /// When it was started, milliseconds since 1970; 0 = never.
    pub started_at_ms: u64,
    /// The daemon was started with its bootstrap file.
    pub bootstrapped: bool,
    /// How often the daemon was started again.
    pub restarts: u32,
    /// Resident bytes of the tree.
    pub memory_bytes: Option<u64>,
    /// Processor time of the tree in milliseconds.
    pub cpu_ms: Option<u64>,
}

/// A page of [`super::Sandboxes::owned`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPage {
    /// At most 100.
    pub entries: Vec<(Identity, Status)>,
    /// Where to go on.
    pub next: Option<String>,
}

/// Why there is no status (SP-3.6).
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The folder is there already.
    #[error("the sandbox exists")]
    Exists,
    /// Nothing of it is there.
    #[error("there is no such sandbox")]
    NotFound,
    /// The folder belongs to another identity; it was not touched.
    #[error("the folder belongs to another sandbox")]
    NotOurs,
    /// Certainly nothing was started or changed.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// Anything else.
    #[error("not known: {code}")]
    Unknown {
        /// Fixed code.
        code: &'static str,
        /// For the log.
        #[source]
        cause: std::io::Error,
    },
}

impl Refusal {
    pub(super) fn unknown(code: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::Unknown { code, cause }
    }
}
