//! What a plugin author writes against.
//!
//! - The contract's types and traits, each re-exported once, from its own interface.
//! - [`harness_plugin!`], [`sandbox_plugin!`] and [`resolver_plugin!`]: registration of a plugin that is linked in.
//! - [`json`]: reading the JSON of a foreign program without trusting it.
//!
//! A plugin crate depends on this crate and on nothing of the host.

pub mod json;
mod register;

pub use contract::manifest;
pub use contract::{
    Clock, HarnessAdapter, HarnessSession, Host, Http, Log, Machine, McpResolver, Program, Random,
    SandboxProvider, State,
};
pub use contract::{
    common, harness_declaration, harness_events, harness_io, harness_launch, harness_session,
    host_types, log, machine_types, mcp_types, sandbox_types, state,
};

/// For the registration macros only.
#[doc(hidden)]
pub mod private {
    pub use contract::registry;
    pub use inventory;
}
