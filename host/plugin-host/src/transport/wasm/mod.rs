//! Plugins that are WASM components: sandboxed, bounded, and the default for everything that is not built in.
//!
//! - [`engine`]: the one engine of the process and the clock that interrupts a component;
//! - [`imports`]: what is linked, which is only what was granted;
//! - [`code`]: a component, compiled and checked, and one call of it;
//! - [`cache`]: compiled components on disk;
//! - [`drivers`]: the driver traits over it.

mod bridge;
mod cache;
mod code;
mod drivers;
mod engine;
mod imports;

pub(crate) use cache::Cache;
pub(crate) use code::{Code, CodeError, Limits};
pub(crate) use drivers::{Harness, Resolver, Sandbox};
