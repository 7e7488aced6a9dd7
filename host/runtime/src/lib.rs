//! The Runtime: what `berth daemon` runs on the machine that owns a workspace.
//!
//! ```text
//! Core ◄── link ──► router ──► bind (one task per Session) ──► execute (one task per Executor) ──► place ──► processes
//!                                 │                                │
//!                                 └─► prepare, files               └─► relay ──► model provider
//! ```
//!
//! [`daemon`] puts it together. [`link`] is the pump around the protocol's machine, [`bind`] holds what a Session has here,
//! [`execute`] drives a harness adapter, [`place`] is the port to the machine, [`harness`] knows what is installed,
//! [`prepare`] and [`files`] are the workspace's initialization and outputs, [`relay`] keeps the model key out of reach.

pub mod bind;
pub mod daemon;
pub mod execute;
pub mod files;
pub mod harness;
pub mod link;
pub mod place;
pub mod prepare;
pub mod relay;
