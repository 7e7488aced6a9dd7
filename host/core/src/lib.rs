//! Berth Core: the HTTP API, the scheduler and the gateway over one store.
//!
//! [`serve`] is the only entrance. Inside, data flows one way: `api` parses and answers, `domain` decides, `store` persists;
//! the scheduler and the gateway act on what is committed. Memory holds caches, sockets and hints only.

#[cfg(test)]
#[macro_use]
mod testing;

mod api;
#[cfg(feature = "crash-points")]
pub mod check;
mod deployment;
mod execution;
mod first_start;
mod gateway;
mod harnesses;
mod http;
mod hub;
mod issuers;
mod keys;
pub mod peer;
mod plugins;
mod provider_memory;
mod rotation;
pub mod scheduler;
mod serve;
mod settings;
mod state;

pub use api::{Operation, operations};
/// Named crash points, for what the binary does around the store.
pub use crash;
pub use execution::{ExecutionError, socket};
pub use first_start::FirstStartError;
pub use harnesses::UnknownHarness;
pub use issuers::IssuerSettings;
pub use rotation::{Rotated, RotationError, RotationSettings, Unfinished, rotate};
pub use serve::{Ready, ServeError, serve};
pub use settings::{CoreSettings, Database, FirstProject, ShownSetting};
