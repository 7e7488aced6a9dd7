//! Plugins from the host's side.
//!
//! - [`load`]: all plugins of a process, linked in or from files, judged and loaded.
//! - [`transport`]: how a plugin that is a file is called.
//! - [`harnesses`]: the harness adapters, checked.
//! - [`providers`]: the sandbox providers, checked, granted and called.
//! - [`translate`]: between the plugin contract and the domain's own words; nothing else knows both.
//! - [`contract`]: re-exported for the two places that carry out what a plugin asks for, the Runtime's Executor and Core's
//!   provider calls; everything else sees only translated values.

mod harnesses;
pub mod load;
pub mod providers;
pub mod translate;
pub mod transport;

pub use contract;
pub use harnesses::{Harness, PluginError};
pub use load::{Driver, Plugin, Plugins, Settings, Transport};
