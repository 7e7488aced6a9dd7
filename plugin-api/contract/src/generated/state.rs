//! Small durable records of a provider, sealed in Core's database (SP-14.2, SP-14.3).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};

/// Whose record it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The allocation of the present call; removed when it is released.
    Allocation,
    /// The whole plugin under the present installation.
    Plugin,
}
