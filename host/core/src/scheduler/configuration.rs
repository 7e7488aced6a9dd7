//! From the frozen configuration of a Session to what `execution_prepare` carries (RP-10.14, RP-10.16).

use domain::agent::tools::{ConnectionOrigin, Tool, Transport};
use domain::agent::{AgentConfiguration, Verbosity};
use domain::configuration::{EnvironmentConfiguration, SessionConfiguration};
use domain::run::{
    Binding, DeclarationHash, ExecutionConfiguration, Function, History, McpOrigin, McpServer,
    McpTransport, Model, ModelOptions, PermissionPolicy, ToolControls, Workspace,
};
use domain::vault::MAX_BEARER;
use domain::{BindingId, CredentialId, PrepareId, Secret, SessionId};
use protocol::wire::{CoreFrame, Request, limits};
use store::configurations::ConfigurationSecrets;

/// Joins the configuration with its opened secrets. Only what the declaration took at admission is in it, so nothing here
/// refuses anything.
pub(super) fn execution_configuration(
    frozen: &SessionConfiguration,
    declaration_hash: DeclarationHash,
    history: History,
    secrets: ConfigurationSecrets,
) -> ExecutionConfiguration {
    let agent = &frozen.agent;
    let model = frozen
        .provider
        .as_ref()
        .zip(secrets.provider_key)
        .map(|(provider, api_key)| Model {
            id: agent.model.clone(),
            protocol: provider.protocol,
            base_url: provider.base_url.clone(),
            api_key,
            context_window: provider.context_window,
            max_output_tokens: provider.max_output_tokens,
        });
    ExecutionConfiguration {
        harness: frozen.harness.clone(),
        declaration_hash,
        workspace: match frozen.environment {
            EnvironmentConfiguration::None => Workspace::Absent,
            EnvironmentConfiguration::OpenaiHosted(_) => Workspace::Bound,
        },
        history,
        model,
        options: options(agent),
        parameters: frozen.harness_config.as_str().to_owned(),
        instructions: agent.instructions.clone(),
        platform_prompt: None,
        output_schema: None,
        functions: functions(agent),
        controls: controls(agent),
        mcp: servers(agent),
        bearers: Vec::new(),
        subagents: None,
        permissions: PermissionPolicy::Allow,
    }
}

/// What joins a configuration after its admission: the native history, and ids.
const LATER: usize = 64 * 1024;

/// The largest member of a configuration that no frame carries with the tokens and the history that join it later (RP-4); none if
/// it fits. One that does not could never be prepared, so it is refused at admission.
pub(crate) fn misfit(frozen: &SessionConfiguration, provider_key: &Secret) -> Option<&'static str> {
    let secrets = ConfigurationSecrets {
        provider_key: Some(provider_key.clone()),
        environment: None,
    };
    let hash = frozen.declaration_hash.clone();
    let configuration = execution_configuration(frozen, hash, History::Fresh, secrets);
    let bearer = |server: &&McpServer| matches!(&server.transport, McpTransport::Http { credential, .. } if credential.is_some());
    let bearers = configuration.mcp.iter().filter(bearer).count();
    let nobody = Binding {
        session: SessionId::NEVER,
        environment: None,
        id: BindingId::NEVER,
        epoch: 1,
    };
    let request = Request::prepare(nobody, PrepareId::NEVER, configuration);
    // A character of a token may be escaped.
    let later = LATER.saturating_add(bearers.saturating_mul(2 * MAX_BEARER + 256));
    let frame = CoreFrame::Request(Box::new(request)).encode();
    if frame.is_ok_and(|text| text.len().saturating_add(later) <= limits::TEXT_FRAME) {
        return None;
    }
    let size = |text: serde_json::Result<String>| text.map_or(usize::MAX, |text| text.len());
    let instructions = size(serde_json::to_string(&frozen.agent.instructions));
    let tools = size(serde_json::to_string(&frozen.agent.tools));
    let parameters = frozen.harness_config.as_str().len();
    Some(if instructions >= tools.max(parameters) {
        "agent.instructions"
    } else if tools >= parameters {
        "agent.tools"
    } else {
        "x_agents_core.harness_config"
    })
}

/// The declared functions, as they were written (S-FN-1).
fn functions(agent: &AgentConfiguration) -> Vec<Function> {
    let function = |tool: &Tool| match tool {
        Tool::Function(function) => Some(Function {
            name: function.name.clone(),
            description: function.description.clone(),
            parameters: function.parameters.as_str().to_owned(),
            deferred: function.defer_loading,
        }),
        _ => None,
    };
    agent.tools.iter().filter_map(function).collect()
}

/// The declared MCP servers; the Runtime resolves them (RP-10.14).
fn servers(agent: &AgentConfiguration) -> Vec<McpServer> {
    let server = |tool: &Tool| {
        let Tool::Mcp(server) = tool else { return None };
        let named = server.credential_id.as_ref();
        let transport = match &server.transport {
            Transport::Http { server_url, .. } => McpTransport::Http {
                url: server_url.clone(),
                credential: named.map(|id| id.parse().unwrap_or(CredentialId::NEVER)),
            },
            Transport::Stdio {
                command,
                args,
                env_vars,
                ..
            } => McpTransport::Stdio {
                command: command.clone(),
                args: args.clone(),
                variables: env_vars.clone(),
            },
        };
        Some(McpServer {
            label: server.server_label.clone(),
            transport,
            connection_origin: match server.connection_origin {
                ConnectionOrigin::Service => McpOrigin::Service,
                ConnectionOrigin::Environment => McpOrigin::Environment,
            },
            allowed_tools: server.allowed_tools.clone(),
            required: server.required,
        })
    };
    agent.tools.iter().filter_map(server).collect()
}

/// Only explicit options travel: omitted, null and `medium` verbosity are one configuration (S-ADM-2).
fn options(agent: &AgentConfiguration) -> ModelOptions {
    ModelOptions {
        verbosity: (agent.text.verbosity != Verbosity::Medium)
            .then(|| agent.text.verbosity.word().to_owned()),
        effort: None,
        summary: None,
        service_tier: None,
    }
}

/// Explicit controls only (S-POL-1).
fn controls(agent: &AgentConfiguration) -> ToolControls {
    let mut controls = ToolControls::default();
    for tool in &agent.tools {
        match tool {
            Tool::WebSearch(search) => controls.web_search = Some(search.mode.word().to_owned()),
            Tool::ProgrammaticToolCalling { enabled } => {
                controls.programmatic_calling = Some(*enabled)
            }
            Tool::ToolSearch => controls.tool_search = true,
            Tool::Function(_) | Tool::Mcp(_) => {}
        }
    }
    controls
}
