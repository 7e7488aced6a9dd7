//! What Core tells the init, through a socket and never by arguments or environment.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::Level;

/// For the first stage.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outer {
    pub(crate) level: Level,
}

/// For the second stage. Every path is as it is on the host, links resolved, unless it says *inside*.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) level: Level,
    /// Any folder of the host; the new root is mounted there before it becomes the root.
    pub(crate) stage: PathBuf,
    pub(crate) mounts: Vec<Bind>,
    pub(crate) hostname: String,
    /// Account inside.
    pub(crate) uid: u32,
    /// Account on the host; none = the one that Core has.
    pub(crate) real_uid: Option<u32>,
    pub(crate) open_files: Option<u64>,
    pub(crate) processes: Option<u64>,
    /// Where restarts are counted; none only for a probe, which starts no daemon.
    pub(crate) status: Option<PathBuf>,
    pub(crate) daemon: Daemon,
}

/// How the daemon is started; paths as the daemon sees them.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Daemon {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: PathBuf,
    /// Its standard output and error, bounded (LOC-011).
    pub(crate) log: PathBuf,
}

/// One thing in the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) struct Bind {
    /// Absolute path inside.
    pub(crate) inside: PathBuf,
    pub(crate) what: What,
}

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum What {
    /// A folder or file of the host.
    Host {
        from: PathBuf,
        writable: bool,
    },
    /// A link that stays a link.
    Link {
        target: PathBuf,
    },
    /// A fresh file system in memory; `instead` is its stand-in where there is no mount namespace.
    Scratch {
        mib: u32,
        instead: PathBuf,
    },
    /// A file with these bytes.
    Text {
        content: String,
    },
    Proc,
    Devices,
}

/// What the init tells Core.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// The second stage exists, with this process id on the host.
    Spawned { pid: u32 },
    /// The view is built and the account is assumed.
    Ready,
    /// The daemon was started with its bootstrap file.
    Started,
    /// Something could not be done; nothing runs.
    Refused {
        stage: Stage,
        errno: Option<i32>,
        detail: String,
    },
}

/// The part of a start that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Namespaces,
    View,
    Limits,
    Account,
    Daemon,
}

/// Core's leave to start the daemon: the record is durable.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Go {}

/// What the init writes about itself; readable by Core alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counted {
    /// The daemon was started at least once.
    pub(crate) bootstrapped: bool,
    /// How often it had to be started again.
    pub(crate) restarts: u32,
}
