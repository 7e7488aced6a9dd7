//! Messages to the host's log. The only import of a harness adapter and of an MCP resolver.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

/// How much it matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum Level {
    /// Off by default.
    #[cfg_attr(feature = "component", component(name = "debug"))]
    Debug,
    /// Normal operation.
    #[cfg_attr(feature = "component", component(name = "info"))]
    Info,
    /// Something was worked around.
    #[cfg_attr(feature = "component", component(name = "warn"))]
    Warn,
    /// Something failed.
    #[cfg_attr(feature = "component", component(name = "error"))]
    Error,
}

#[cfg(target_arch = "wasm32")]
impl Level {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Debug,
            1 => Self::Info,
            2 => Self::Warn,
            _ => Self::Error,
        }
    }
}
