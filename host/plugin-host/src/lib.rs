//! Plugins from the host's side.
//!
//! - [`harnesses`]: the linked harness adapters, checked.
//! - [`providers`]: the linked sandbox providers, checked, granted and called.
//! - [`translate`]: between the plugin contract and the domain's own words; nothing else knows both.
//! - [`contract`]: re-exported for the two places that carry out what a plugin asks for, the Runtime's Executor and Core's
//!   provider calls; everything else sees only translated values.

mod harnesses;
pub mod providers;
pub mod translate;

pub use contract;
pub use harnesses::{Harness, PluginError, harnesses};
