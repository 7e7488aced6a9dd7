//! Which plugin did it.

use serde::{Deserialize, Serialize};

/// A plugin as it was loaded: what a Run or a machine keeps of the adapter or provider that serves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginIdentity {
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its file; none if it is linked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}
