//! The MCP resolver: declared servers to bindings, or the first typed refusal (`environments.md` 15). A pure function
//! that holds no credential; it is told which credential ids can be used and hands them on by name.
//!
//! Declarations are judged again here although admission judged them: the Runtime is another process and may be another
//! version (ENV-594). MCP files of installed Plugins are refused by name: no server of theirs is left out in silence.

use std::collections::BTreeSet;

use sdk::McpResolver;
use sdk::mcp_types::{
    Authority, DeclaredHttp, DeclaredServer, DeclaredStdio, DeclaredTransport, HttpBinding,
    McpBinding, Origin, Refusal, ResolveRequest, StdioBinding, Transport,
};
use url::Url;

/// The resolver.
pub struct Bindings;

/// Text of this plugin's `plugin.toml`.
pub const MANIFEST: &str = include_str!("../plugin.toml");

sdk::resolver_plugin!(MANIFEST, || Box::new(Bindings));

impl McpResolver for Bindings {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    fn resolve(&self, request: &ResolveRequest) -> Result<Vec<McpBinding>, Refusal> {
        let mut labels = BTreeSet::new();
        let mut bindings = Vec::new();
        for server in &request.declared {
            // ENV-571, ENV-602
            if server.label.is_empty() || !labels.insert(server.label.as_str()) {
                return Err(refused("duplicate_label", server));
            }
            bindings.push(binding(server, request)?);
        }
        if let Some(plugin) = request
            .plugins
            .iter()
            .find(|plugin| !plugin.files.is_empty())
        {
            return Err(Refusal {
                code: "transport_unsupported".to_owned(),
                label: None,
                plugin: Some(plugin.name.clone()),
                detail: Some(
                    "The MCP files of installed Plugins are not read by this resolver.".to_owned(),
                ),
            });
        }
        Ok(bindings)
    }
}

fn refused(code: &str, server: &DeclaredServer) -> Refusal {
    Refusal {
        code: code.to_owned(),
        label: Some(server.label.clone()),
        plugin: None,
        detail: Some(explained(code).to_owned()),
    }
}

/// What whoever declared the server can do about it.
fn explained(code: &str) -> &'static str {
    match code {
        "duplicate_label" => "Every server needs a label of its own.",
        "credential_unavailable" => {
            "The credential did not come with the request, or cannot be used."
        }
        "variable_missing" => {
            "A variable that the server gets is not in the initialized environment."
        }
        "origin_not_allowed" => "Servers are not reached from this origin here.",
        _ => {
            "The harness does not speak to servers over this transport here, or the address is none."
        }
    }
}

fn binding(server: &DeclaredServer, request: &ResolveRequest) -> Result<McpBinding, Refusal> {
    let unsupported = || refused("transport_unsupported", server);
    let able = |ability: &str| request.abilities.iter().any(|known| known == ability);
    // ENV-592, ENV-593: never another origin instead of the given one (ENV-591).
    let ability = match &server.origin {
        Origin::Service => "mcp_service_origin",
        Origin::Environment => "mcp_environment_origin",
        Origin::Other(_) => return Err(refused("origin_not_allowed", server)),
    };
    if !request.origins.contains(&server.origin) || !able(ability) {
        return Err(refused("origin_not_allowed", server));
    }
    let transport = match &server.transport {
        DeclaredTransport::Http(http) => {
            let allowed = able("mcp_http_tools") && (!server.required || able("mcp_http_required"));
            if !allowed {
                return Err(unsupported());
            }
            Transport::Http(resolved(http, server, request)?)
        }
        DeclaredTransport::Stdio(stdio) => {
            // It starts in the workspace, so it is reached from there and nowhere else.
            let local = server.origin == Origin::Environment;
            if !able("mcp_stdio") || !local || stdio.command.is_empty() {
                return Err(unsupported());
            }
            Transport::Stdio(launched(stdio, server, request)?)
        }
        DeclaredTransport::Other(_) => return Err(unsupported()),
    };
    Ok(McpBinding {
        label: server.label.clone(),
        plugin: None,
        origin: server.origin.clone(),
        transport,
        allowed_tools: server.allowed_tools.clone(),
        required: server.required,
    })
}

fn resolved(
    http: &DeclaredHttp,
    server: &DeclaredServer,
    request: &ResolveRequest,
) -> Result<HttpBinding, Refusal> {
    let unsupported = || refused("transport_unsupported", server);
    let url = Url::parse(&http.url).map_err(|_| unsupported())?;
    // ENV-602
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !plain {
        return Err(unsupported());
    }
    let authority = match &http.credential {
        None => Authority::Anonymous,
        Some(credential) => {
            // ENV-599: no anonymous fallback.
            if !request.credentials.contains(credential) {
                return Err(refused("credential_unavailable", server));
            }
            let bearer = request
                .abilities
                .iter()
                .any(|known| known == "mcp_http_bearer_auth");
            // ENV-596
            if !bearer || url.scheme() != "https" {
                return Err(unsupported());
            }
            Authority::ProjectVault(credential.clone())
        }
    };
    Ok(HttpBinding {
        url: http.url.clone(),
        headers: Vec::new(),
        authority,
    })
}

fn launched(
    stdio: &DeclaredStdio,
    server: &DeclaredServer,
    request: &ResolveRequest,
) -> Result<StdioBinding, Refusal> {
    // ENV-565
    if stdio
        .variables
        .iter()
        .any(|name| !request.variables.contains(name))
    {
        return Err(refused("variable_missing", server));
    }
    Ok(StdioBinding {
        command: stdio.command.clone(),
        args: stdio.args.clone(),
        cwd: None,
        literal_env: Vec::new(),
        variables: stdio.variables.clone(),
    })
}
