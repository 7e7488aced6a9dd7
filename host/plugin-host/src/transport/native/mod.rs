//! Plugins that are native libraries. They run with all rights of this process and without limits of time and memory:
//! trusted code, off unless the operator allows it.

mod drivers;
mod host;
mod table;

pub(crate) use drivers::{Harness, Resolver, Sandbox};
pub(crate) use table::Library;
