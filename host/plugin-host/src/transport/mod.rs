//! How a plugin that is a file is called: as a component ([`wasm`]) or as a native library ([`native`]). Both are driver
//! traits to everybody else, like a plugin that is linked in.
//!
//! [`Fault`] is what goes wrong in the transport itself; [`Health`] counts faults and puts a plugin that keeps having them
//! into quarantine; [`PluginLog`] is what a plugin may write to the log.

mod fault;
mod health;
mod log;
#[cfg(feature = "native")]
pub(crate) mod native;
#[cfg(feature = "wasm")]
pub(crate) mod wasm;

pub(crate) use fault::Fault;
pub use health::Health;
pub(crate) use log::PluginLog;
