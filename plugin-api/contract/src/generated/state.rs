//! Small durable records of a provider, sealed in Core's database (SP-14.2, SP-14.3).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

/// Whose record it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum Scope {
    /// The allocation of the present call; removed when it is released.
    #[cfg_attr(feature = "component", component(name = "allocation"))]
    Allocation,
    /// The whole plugin under the present installation.
    #[cfg_attr(feature = "component", component(name = "plugin"))]
    Plugin,
}

#[cfg(target_arch = "wasm32")]
impl Scope {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Allocation,
            _ => Self::Plugin,
        }
    }
}
