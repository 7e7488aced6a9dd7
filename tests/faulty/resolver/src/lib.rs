//! An MCP resolver that breaks as the name of the first variable says.

use breaking::{break_at, large};
use sdk::McpResolver;
use sdk::log::Level;
use sdk::mcp_types::{McpBinding, Refusal, ResolveRequest};

/// The resolver.
pub struct Faulty;

sdk::resolver_plugin!(include_str!("../plugin.toml"), || Box::new(Faulty));

impl McpResolver for Faulty {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    fn resolve(&self, request: &ResolveRequest) -> Result<Vec<McpBinding>, Refusal> {
        for fault in &request.variables {
            break_at(fault, &|line| sdk::log_line(Level::Info, line, &[]));
            if let Some(code) = large(fault) {
                return Err(Refusal {
                    code,
                    label: None,
                    plugin: None,
                    detail: None,
                });
            }
        }
        Ok(Vec::new())
    }
}
