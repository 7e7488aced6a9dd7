//! A process tree as one value: start it, talk to it, stop it, learn how it ended (RP-16).
//!
//! Every tree has a supervisor for its parent ([`crate::supervisor`]); this is the client of that supervisor.
//! The three facts of RP-16.2 reach the caller apart: the leader's exit and the empty scope in [`Ended`], the end of
//! output as the end of [`Output`].
//!
//! ```no_run
//! # async fn example() -> Result<(), berth_machine::process::StartError> {
//! use berth_machine::process::{Order, Spawner};
//! let spawner = Spawner::new("/usr/bin/berth");
//! let mut child = spawner.start(Order::new("/bin/sh", "/workspace").args(["-c", "echo ready"])).await?;
//! let ended = child.wait().await;
//! assert!(ended.clean());
//! # Ok(())
//! # }
//! ```

mod child;
pub(crate) mod control;
mod govern;
mod open_files;
mod order;
mod output;
mod reaper;
mod spawner;

pub use child::{Child, Ended, Exit, Stopper};
pub use open_files::raise_open_files;
pub use order::{Limits, Order};
pub use output::Output;
pub use spawner::{Spawner, StartError};

/// Bytes into the program; dropping it closes the program's standard input.
pub type Input = tokio::net::unix::pipe::Sender;

/// Makes this process unreadable for others of its account: no core dump, no `/proc/self/mem`, no tracer (LOC-009).
///
/// # Errors
/// The system refuses it.
#[cfg(target_os = "linux")]
pub fn forbid_inspection() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
