//! What a Runtime must offer for one Session (RP-7.3, RP-7.4): checked at device choice and again just before the claim.

use crate::agent::Verbosity;
use crate::agent::tools::{ConnectionOrigin, Mcp, Tool, Transport};
use crate::configuration::{EnvironmentConfiguration, SessionConfiguration};
use crate::run::{Capability, EXECUTION_NEEDS, History};

/// Every capability that running this Session takes.
pub fn needs(configuration: &SessionConfiguration, history: &History) -> Vec<Capability> {
    let mut needs = EXECUTION_NEEDS.to_vec();
    match configuration.environment {
        EnvironmentConfiguration::None => needs.push(Capability::EnvironmentNone),
        EnvironmentConfiguration::OpenaiHosted(_) => {
            needs.extend([
                Capability::LocalEnvironment,
                Capability::WorkspaceOutputExport,
            ]);
        }
    }
    if *history == History::Recover {
        needs.push(Capability::NativeSessionRecovery);
    }
    if configuration.agent.text.verbosity != Verbosity::Medium {
        needs.push(Capability::TextVerbosity);
    }
    if configuration.agent.multi_agent.enabled {
        needs.push(Capability::SubagentObservations);
    }
    for tool in &configuration.agent.tools {
        needs.push(match tool {
            Tool::Function(function) if function.defer_loading => Capability::ToolSearch,
            Tool::Function(_) => Capability::FunctionTools,
            Tool::ToolSearch => Capability::ToolSearch,
            Tool::ProgrammaticToolCalling { .. } => Capability::ProgrammaticToolCallingDisable,
            Tool::Mcp(server) => {
                needs.extend(reaching(server));
                continue;
            }
            Tool::WebSearch(_) => Capability::WebSearchControl,
        });
    }
    needs
}

/// What one MCP server takes: its transport, its origin (RP-10.14), its Credential (SEL-020).
fn reaching(server: &Mcp) -> impl Iterator<Item = Capability> {
    let transport = match (&server.transport, server.required) {
        (Transport::Stdio { .. }, _) => Capability::McpStdio,
        (Transport::Http { .. }, true) => Capability::McpHttpRequired,
        (Transport::Http { .. }, false) => Capability::McpHttpTools,
    };
    let origin = match server.connection_origin {
        ConnectionOrigin::Service => Capability::McpServiceOrigin,
        ConnectionOrigin::Environment => Capability::McpEnvironmentOrigin,
    };
    let bearer = server.credential_id.is_some();
    let bearer = bearer.then_some(Capability::McpHttpBearerAuth);
    [transport, origin].into_iter().chain(bearer)
}
