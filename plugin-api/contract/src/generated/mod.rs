//! Written by `cargo xtask contract`; edit the WIT instead.

pub mod common;
pub mod harness_declaration;
pub mod harness_events;
pub mod harness_io;
pub mod harness_launch;
pub mod harness_session;
pub mod host_types;
pub mod log;
pub mod machine_types;
pub mod mcp_types;
pub mod sandbox_types;
pub mod state;
