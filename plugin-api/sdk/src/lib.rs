//! What a plugin author writes against.
//!
//! - The contract's types and traits, each re-exported once, from its own interface.
//! - [`harness_plugin!`], [`sandbox_plugin!`] and [`resolver_plugin!`]: what makes a plugin of a crate. One line, three
//!   packagings: linked in, a native library (the crate's feature `native`), a component (target wasm32).
//! - [`log_line`]: the log, for a plugin that has no host at hand.
//! - [`declare`]: a declaration from the little that differs.
//! - [`json`]: reading the JSON of a foreign program without trusting it.
//!
//! A plugin crate depends on this crate and on nothing of the host.

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
pub mod declare;
pub mod json;
#[cfg(all(feature = "native", not(target_arch = "wasm32")))]
#[doc(hidden)]
pub mod native;
mod register;

pub use contract::manifest;
pub use contract::sink::emit as log_line;
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
    pub use contract::native;
    pub use contract::registry;
    pub use inventory;

    /// The bytes of a text, for the section that holds it.
    pub const fn bytes<const N: usize>(text: &str) -> [u8; N] {
        let mut copy = [0; N];
        let mut at = 0;
        while at < N {
            copy[at] = text.as_bytes()[at];
            at += 1;
        }
        copy
    }
}
