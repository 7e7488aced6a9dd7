//! A resolver of contract 0.1, kept as it was built: `resolver-0.1.wasm`.

use sdk::McpResolver;
use sdk::log::Level;
use sdk::mcp_types::{
    Authority, DeclaredTransport, HttpBinding, McpBinding, Refusal, ResolveRequest, Transport,
};

/// The resolver.
pub struct Former;

sdk::resolver_plugin!(include_str!("../plugin.toml"), || Box::new(Former));

impl McpResolver for Former {
    fn features(&self) -> Vec<String> {
        vec!["of-0.1".to_owned()]
    }

    /// Every HTTP server without a bearer; the first other one is refused.
    fn resolve(&self, request: &ResolveRequest) -> Result<Vec<McpBinding>, Refusal> {
        sdk::log_line(Level::Info, "resolving", &[]);
        let mut bindings = Vec::new();
        for server in &request.declared {
            let DeclaredTransport::Http(http) = &server.transport else {
                return Err(Refusal {
                    code: "transport_unsupported".to_owned(),
                    label: Some(server.label.clone()),
                    plugin: None,
                });
            };
            bindings.push(McpBinding {
                label: server.label.clone(),
                plugin: None,
                origin: server.origin.clone(),
                transport: Transport::Http(HttpBinding {
                    url: http.url.clone(),
                    headers: Vec::new(),
                    authority: Authority::Anonymous,
                }),
                allowed_tools: server.allowed_tools.clone(),
                required: server.required,
            });
        }
        Ok(bindings)
    }
}
