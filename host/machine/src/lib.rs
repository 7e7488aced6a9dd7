//! What touches the operating system, so that no other room has to: processes, sandboxes and anchored files.
//!
//! - [`process`]: a tree of processes as one value that can be written to, stopped and awaited (the daemon's side);
//! - [`supervisor`]: the small parent of each such tree (a hidden sub-command of our own program);
//! - [`init`]: process 1 of a `local` sandbox and the capability that starts, finds and ends it;
//! - [`files`]: reading, writing and removing below an opened folder, never following a link out of it;
//! - `sys`: every system call that needs `unsafe` or differs between platforms.

#[cfg(unix)]
pub mod files;
#[cfg(unix)]
pub mod process;
#[cfg(target_os = "linux")]
pub mod supervisor;
#[cfg(target_os = "linux")]
mod sys;
