//! Messages to the host's log. The only import of a harness adapter and of an MCP resolver.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};

/// How much it matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Off by default.
    Debug,
    /// Normal operation.
    Info,
    /// Something was worked around.
    Warn,
    /// Something failed.
    Error,
}
