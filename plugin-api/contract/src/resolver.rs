//! `interface mcp-resolver`: a pure function. It holds no credential and reads nothing.

use crate::mcp_types::{McpBinding, Refusal, ResolveRequest};

/// Turns declared and installed MCP servers into bindings (environments.md 15).
pub trait McpResolver: Send + Sync {
    /// Names of optional abilities of this plugin; unknown names are ignored.
    fn features(&self) -> Vec<String>;

    /// All servers in a fixed order, declared ones first.
    ///
    /// # Errors
    /// The first refusal.
    fn resolve(&self, request: &ResolveRequest) -> Result<Vec<McpBinding>, Refusal>;
}
