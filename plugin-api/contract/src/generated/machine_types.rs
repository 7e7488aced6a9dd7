//! Data of the capability `machine`: an isolated, long-lived process tree on Core's own host (LOC-025).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};

use super::common::{Extra, Pair};
use super::sandbox_types::Allocation;

/// What this host can do; the level is the operator's choice (LOC-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineFacts {
    /// `namespaces`, `landlock`, `none`, or empty when nothing allowed works.
    pub level: String,
    /// Limits that are really enforced: `processes`, `memory`, `cpus`, `open_files` (LOC-008, SP-2.5).
    pub enforced: Vec<String>,
    /// Fixed code of what is missing, for `check` (LOC-002, SP-12.1).
    pub problem: Option<String>,
    /// Processors of the host.
    pub cpus: u32,
    /// Memory of the host in MiB.
    pub memory_mib: u32,
}

/// Where something that is visible inside comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountSource {
    /// A folder or file of the host; must be in the manifest's list. A link stays a link.
    System(String),
    /// Every further path that the operator exposes, at its own place (`--local-expose`, LOC-005).
    Exposed,
    /// The installed harnesses.
    Harnesses,
    /// This allocation's workspace folder; the host chooses where it is (LOC-010).
    Workspace,
    /// This allocation's private home.
    Home,
    /// This allocation's state folder: bootstrap file and the daemon's own data; the daemon hides it from harnesses (LOC-009).
    State,
    /// An empty, fresh file system in memory of at most so many MiB.
    Scratch(u32),
    /// A file that the host writes from the account: `passwd`, `group` or `hosts`.
    Generated(String),
    /// Our own program, read-only: the daemon, the supervisor and the MCP helper are its sub-commands.
    OwnProgram,
    /// A fresh `/proc` of the inside.
    Proc,
    /// `/dev` with null, zero, full, random, urandom, tty and fresh `shm` and `pts`.
    Devices,
    /// A later source; a host that does not know it refuses the start.
    Other(Extra),
}

/// One thing that is visible inside; nothing else is (LOC-001, LOC-005).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Mount {
    /// Absolute path inside; ignored for `exposed`.
    pub inside: String,
    /// Where it comes from.
    pub source: MountSource,
    /// Whether it can be written; refused for `system`, `exposed` and `harnesses`.
    pub writable: bool,
}

/// Limits of the tree; absent = the host's default, a positive one only if it is in `enforced`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineLimits {
    /// Processes and threads.
    pub processes: Option<u32>,
    /// MiB of memory.
    pub memory_mib: Option<u32>,
    /// Processors.
    pub cpus: Option<u32>,
    /// Open files of each process.
    pub open_files: Option<u32>,
}

/// What to start: an init that is process 1 inside, starts the daemon and starts it again when it dies (LOC-020).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineSpec {
    /// What can be seen.
    pub view: Vec<Mount>,
    /// Account name inside (LOC-006).
    pub account: String,
    /// Account number inside; the real one is the host's choice and never root.
    pub uid: u32,
    /// True: no interface but loopback. False: the host's network (LOC-007).
    pub network_off: bool,
    /// Limits.
    pub limits: MachineLimits,
    /// Environment of the daemon; init itself has none (LOC-009).
    pub env: Vec<Pair>,
    /// Absolute path inside of the bootstrap file that the host writes with mode 0600 (SP-5.2).
    pub bootstrap_path: String,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineStatus {
    /// Whether init lives, checked by a process handle and not by a number (LOC-021).
    pub running: bool,
    /// Level it was started with.
    pub level: String,
    /// When init was started, milliseconds since 1970.
    pub started_at_ms: u64,
    /// Whether the daemon was started with its bootstrap file.
    pub bootstrapped: bool,
    /// How often init had to start the daemon again.
    pub restarts: u32,
    /// Resident memory of the tree, if it could be read.
    pub memory_bytes: Option<u64>,
    /// Processor time of the tree in milliseconds, if it could be read.
    pub cpu_ms: Option<u64>,
}

/// Why there is no status; the same meanings as the results of a provider (SP-3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineRefusal {
    /// The allocation's folder is already there (LOC-022).
    Exists,
    /// No record. One of an earlier boot is a status with `running` false (LOC-021).
    NotFound,
    /// A record that names another installation, tenant or environment.
    NotOurs,
    /// Certainly nothing was started or changed; a fixed code.
    Refused(String),
    /// Anything else; a fixed code.
    Unknown(String),
}

/// Whether a start may make the allocation's folders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum MachineStart {
    /// The first start: the folder is made with an exclusive create.
    First,
    /// After `stop`, with the folders that are there.
    Again,
}

/// What stays after a stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum MachineKeep {
    /// Workspace, home and record.
    Folders,
    /// Nothing: done only when processes and folders are gone (LOC-023).
    Nothing,
}

/// One record of `owned`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineEntry {
    /// Whose it is.
    pub allocation: Allocation,
    /// What was found.
    pub status: MachineStatus,
}

/// A page of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachinePage {
    /// At most 100.
    pub entries: Vec<MachineEntry>,
    /// Where to go on, or none.
    pub next: Option<String>,
}
