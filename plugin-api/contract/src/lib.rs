//! The plugin contract `berth:plugin@0.2.0`: what the host and a plugin say to each other.
//!
//! `wit/` is the source. [`generated`] holds its data as plain serde structs, one module for each interface;
//! [`adapter`], [`provider`], [`resolver`] and [`host`] hold its functions as object-safe traits, the form in
//! which plugins that are compiled into the binary are called; [`registry`] finds those, [`manifest`] is what each
//! says about itself before it runs; [`native`] is the table of a native library, `guest` the bindings of a component. No host type ever appears here: the host
//! translates, so a plugin never sees the daemon's protocol or the store.

pub mod adapter;
pub mod catalogue;
pub mod generated;
#[cfg(target_arch = "wasm32")]
pub mod guest;
pub mod host;
pub mod manifest;
pub mod native;
pub mod provider;
pub mod registry;
pub mod resolver;
pub mod sink;

pub use adapter::{HarnessAdapter, HarnessSession};
pub use generated::{
    common, harness_declaration, harness_events, harness_io, harness_launch, harness_session,
    host_types, log, machine_types, mcp_types, sandbox_types, state,
};
pub use host::{Clock, Host, Http, Log, Machine, Program, Random, State};
pub use provider::SandboxProvider;
pub use resolver::McpResolver;

/// Version of this contract, as a manifest names it.
pub const VERSION: &str = "0.2.0";

macro_rules! wit {
    ($name:literal) => {
        ($name, include_str!(concat!("../wit/", $name)))
    };
}

/// The WIT files by name: what a plugin in a language without an SDK of ours is built against.
pub const WIT: &[(&str, &str)] = &[
    wit!("common.wit"),
    wit!("harness-declaration.wit"),
    wit!("harness-events.wit"),
    wit!("harness-launch.wit"),
    wit!("harness-session.wit"),
    wit!("harness.wit"),
    wit!("host.wit"),
    wit!("machine.wit"),
    wit!("mcp.wit"),
    wit!("sandbox.wit"),
    wit!("worlds.wit"),
];
