//! Plugins from the host's side.
//!
//! - [`translate`]: between the plugin contract and the domain's own words; nothing else knows both.
//! - [`contract`]: re-exported for the two places that carry out what a plugin asks for, the Runtime's Executor and Core's
//!   provider calls; everything else sees only translated values.

pub mod translate;

pub use contract;
