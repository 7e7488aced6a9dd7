//! Data of the capability `machine`: an isolated, long-lived process tree on Core's own host (LOC-025).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::{Extra, Pair};
use super::sandbox_types::Allocation;

/// What this host can do; the level is the operator's choice (LOC-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
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
    #[cfg_attr(feature = "component", component(name = "memory-mib"))]
    pub memory_mib: u32,
}

/// Where something that is visible inside comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum MountSource {
    /// A folder or file of the host; must be in the manifest's list. A link stays a link.
    #[cfg_attr(feature = "component", component(name = "system"))]
    System(String),
    /// Every further path that the operator exposes, at its own place (`--local-expose`, LOC-005).
    #[cfg_attr(feature = "component", component(name = "exposed"))]
    Exposed,
    /// The installed harnesses.
    #[cfg_attr(feature = "component", component(name = "harnesses"))]
    Harnesses,
    /// This allocation's workspace folder; the host chooses where it is (LOC-010).
    #[cfg_attr(feature = "component", component(name = "workspace"))]
    Workspace,
    /// This allocation's private home.
    #[cfg_attr(feature = "component", component(name = "home"))]
    Home,
    /// This allocation's state folder: bootstrap file and the daemon's own data; the daemon hides it from harnesses (LOC-009).
    #[cfg_attr(feature = "component", component(name = "state"))]
    State,
    /// An empty, fresh file system in memory of at most so many MiB.
    #[cfg_attr(feature = "component", component(name = "scratch"))]
    Scratch(u32),
    /// A file that the host writes from the account: `passwd`, `group` or `hosts`.
    #[cfg_attr(feature = "component", component(name = "generated"))]
    Generated(String),
    /// Our own program, read-only: the daemon, the supervisor and the MCP helper are its sub-commands.
    #[cfg_attr(feature = "component", component(name = "own-program"))]
    OwnProgram,
    /// A fresh `/proc` of the inside.
    #[cfg_attr(feature = "component", component(name = "proc"))]
    Proc,
    /// `/dev` with null, zero, full, random, urandom, tty and fresh `shm` and `pts`.
    #[cfg_attr(feature = "component", component(name = "devices"))]
    Devices,
    /// A later source; a host that does not know it refuses the start.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// One thing that is visible inside; nothing else is (LOC-001, LOC-005).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
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
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct MachineLimits {
    /// Processes and threads.
    pub processes: Option<u32>,
    /// MiB of memory.
    #[cfg_attr(feature = "component", component(name = "memory-mib"))]
    pub memory_mib: Option<u32>,
    /// Processors.
    pub cpus: Option<u32>,
    /// Open files of each process.
    #[cfg_attr(feature = "component", component(name = "open-files"))]
    pub open_files: Option<u32>,
}

/// What to start: an init that is process 1 inside, starts the daemon and starts it again when it dies (LOC-020).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct MachineSpec {
    /// What can be seen.
    pub view: Vec<Mount>,
    /// Account name inside (LOC-006).
    pub account: String,
    /// Account number inside; the real one is the host's choice and never root.
    pub uid: u32,
    /// True: no interface but loopback. False: the host's network (LOC-007).
    #[cfg_attr(feature = "component", component(name = "network-off"))]
    pub network_off: bool,
    /// Limits.
    pub limits: MachineLimits,
    /// Environment of the daemon; init itself has none (LOC-009).
    pub env: Vec<Pair>,
    /// Absolute path inside of the bootstrap file that the host writes with mode 0600 (SP-5.2).
    #[cfg_attr(feature = "component", component(name = "bootstrap-path"))]
    pub bootstrap_path: String,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct MachineStatus {
    /// Whether init lives, checked by a process handle and not by a number (LOC-021).
    pub running: bool,
    /// Level it was started with.
    pub level: String,
    /// When init was started, milliseconds since 1970.
    #[cfg_attr(feature = "component", component(name = "started-at-ms"))]
    pub started_at_ms: u64,
    /// Whether the daemon was started with its bootstrap file.
    pub bootstrapped: bool,
    /// How often init had to start the daemon again.
    pub restarts: u32,
    /// Resident memory of the tree, if it could be read.
    #[cfg_attr(feature = "component", component(name = "memory-bytes"))]
    pub memory_bytes: Option<u64>,
    /// Processor time of the tree in milliseconds, if it could be read.
    #[cfg_attr(feature = "component", component(name = "cpu-ms"))]
    pub cpu_ms: Option<u64>,
}

/// Why there is no status; the same meanings as the results of a provider (SP-3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum MachineRefusal {
    /// The allocation's folder is already there (LOC-022).
    #[cfg_attr(feature = "component", component(name = "exists"))]
    Exists,
    /// No record. One of an earlier boot is a status with `running` false (LOC-021).
    #[cfg_attr(feature = "component", component(name = "not-found"))]
    NotFound,
    /// A record that names another installation, tenant or environment.
    #[cfg_attr(feature = "component", component(name = "not-ours"))]
    NotOurs,
    /// Certainly nothing was started or changed; a fixed code.
    #[cfg_attr(feature = "component", component(name = "refused"))]
    Refused(String),
    /// Anything else; a fixed code.
    #[cfg_attr(feature = "component", component(name = "unknown"))]
    Unknown(String),
}

/// Whether a start may make the allocation's folders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum MachineStart {
    /// The first start: the folder is made with an exclusive create.
    #[cfg_attr(feature = "component", component(name = "first"))]
    First,
    /// After `stop`, with the folders that are there.
    #[cfg_attr(feature = "component", component(name = "again"))]
    Again,
}

#[cfg(target_arch = "wasm32")]
impl MachineStart {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::First,
            _ => Self::Again,
        }
    }
}

/// What stays after a stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum MachineKeep {
    /// Workspace, home and record.
    #[cfg_attr(feature = "component", component(name = "folders"))]
    Folders,
    /// Nothing: done only when processes and folders are gone (LOC-023).
    #[cfg_attr(feature = "component", component(name = "nothing"))]
    Nothing,
}

#[cfg(target_arch = "wasm32")]
impl MachineKeep {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Folders,
            _ => Self::Nothing,
        }
    }
}

/// One record of `owned`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct MachineEntry {
    /// Whose it is.
    pub allocation: Allocation,
    /// What was found.
    pub status: MachineStatus,
}

/// A page of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct MachinePage {
    /// At most 100.
    pub entries: Vec<MachineEntry>,
    /// Where to go on, or none.
    pub next: Option<String>,
}
