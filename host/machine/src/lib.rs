//! What touches the operating system, so that no other room has to: processes, sandboxes and anchored files.
//!
//! - [`process`]: a tree of processes as one value that can be written to, stopped and awaited (the daemon's side);
//! - [`supervisor`]: the small parent of each such tree (a hidden sub-command of our own program);
//! - [`sandbox`]: starts, finds and ends isolated daemons on this machine (what the provider `local` stands on);
//! - [`init`]: process 1 of such a sandbox (a hidden sub-command too);
//! - [`socket`]: where Core waits for the Runtimes of this machine;
//! - [`files`]: reading, writing and removing below an opened folder, never following a link out of it;
//! - `sys`: every system call that needs `unsafe` or differs between platforms.

#[cfg(target_os = "linux")]
mod allowed;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(unix)]
pub mod files;
#[cfg(target_os = "linux")]
pub mod init;
#[cfg(unix)]
pub mod process;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod socket;
#[cfg(target_os = "linux")]
pub mod supervisor;
#[cfg(target_os = "linux")]
mod sys;
