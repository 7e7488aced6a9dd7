//! Agents, saved and of a Session (api-surface 3 to 5).

use domain::agent::tools::{ConnectionOrigin, ContextSize, Location, SearchMode, Transport};
use domain::agent::{
    AgentConfiguration, AgentExtension, Format, MultiAgent, Reasoning, SavedAgent, ServiceTier,
    Text, Tool, Verbosity,
};
use domain::configuration::{SessionConfiguration, Source};
use domain::json::Opaque;
use domain::metadata::Metadata;
use domain::model::ProviderView;
use serde::Serialize;

/// A saved Agent.
#[derive(Serialize)]
pub(crate) struct AgentJson<'a> {
    id: String,
    object: &'static str,
    created_at: i64,
    updated_at: i64,
    model: &'a str,
    name: Option<&'a str>,
    instructions: Option<&'a str>,
    metadata: &'a Metadata,
    multi_agent: MultiAgent,
    reasoning: Reasoning,
    service_tier: ServiceTier,
    text: TextJson<'a>,
    tools: Vec<ToolJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_agents_core: Option<ExtensionJson<'a>>,
}

/// The Agent of a Session: no metadata, no extension (S-SES-1).
#[derive(Serialize)]
pub(crate) struct SessionAgentJson<'a> {
    id: String,
    name: Option<&'a str>,
    model: &'a str,
    instructions: Option<&'a str>,
    multi_agent: MultiAgent,
    reasoning: Reasoning,
    service_tier: ServiceTier,
    text: TextJson<'a>,
    tools: Vec<ToolJson<'a>>,
}

/// `x_agents_core` of a response: never a key (MDL-027).
#[derive(Serialize)]
pub(crate) struct ExtensionJson<'a> {
    harness: Option<&'a str>,
    model_provider: Option<ProviderJson<'a>>,
    harness_config: Option<&'a Opaque>,
}

/// A provider that may be shown.
#[derive(Serialize)]
pub(crate) struct ProviderJson<'a> {
    protocol: &'static str,
    base_url: &'a str,
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
    api_key_configured: bool,
}

#[derive(Serialize)]
struct TextJson<'a> {
    format: FormatJson<'a>,
    verbosity: Verbosity,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FormatJson<'a> {
    Text,
    JsonSchema { schema: &'a Opaque },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolJson<'a> {
    Function {
        name: &'a str,
        description: &'a str,
        parameters: &'a Opaque,
        defer_loading: bool,
    },
    ToolSearch,
    ProgrammaticToolCalling {
        enabled: bool,
    },
    Mcp {
        server_label: &'a str,
        transport: TransportJson<'a>,
        allowed_tools: Option<&'a [String]>,
        connection_origin: ConnectionOrigin,
        credential_id: Option<&'a str>,
        request_metadata: &'a Opaque,
        required: bool,
    },
    WebSearch {
        allowed_domains: Option<&'a [String]>,
        context_size: ContextSize,
        location: Option<&'a Location>,
        mode: SearchMode,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TransportJson<'a> {
    Http {
        server_url: &'a str,
        /// Only saved Agents show headers.
        #[serde(skip_serializing_if = "Option::is_none")]
        headers: Option<&'a Opaque>,
    },
    Stdio {
        command: &'a str,
        cwd: &'a str,
        args: &'a [String],
        env_vars: &'a [String],
    },
}

/// Whose tools are shown: the two response unions differ (api-surface 3.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Saved,
    Session,
}

/// Shows a saved Agent.
pub(crate) fn saved(agent: &SavedAgent) -> AgentJson<'_> {
    let configuration = &agent.configuration;
    AgentJson {
        id: agent.id.to_string(),
        object: "agent",
        created_at: agent.created_at.seconds(),
        updated_at: agent.updated_at.seconds(),
        model: &configuration.model,
        name: agent.name.as_deref(),
        instructions: configuration.instructions.as_deref(),
        metadata: &agent.metadata,
        multi_agent: configuration.multi_agent,
        reasoning: configuration.reasoning,
        service_tier: configuration.service_tier,
        text: text(&configuration.text),
        tools: tools(configuration, View::Saved),
        x_agents_core: (!agent.extension.is_empty()).then(|| extension(&agent.extension)),
    }
}

/// Shows the Agent of a Session.
pub(crate) fn of_session(frozen: &SessionConfiguration) -> SessionAgentJson<'_> {
    let configuration = &frozen.agent;
    SessionAgentJson {
        id: frozen.agent_id.to_string(),
        name: frozen.agent_name.as_deref(),
        model: &configuration.model,
        instructions: configuration.instructions.as_deref(),
        multi_agent: configuration.multi_agent,
        reasoning: configuration.reasoning,
        service_tier: configuration.service_tier,
        text: text(&configuration.text),
        tools: tools(configuration, View::Session),
    }
}

/// Shows the extension of a Session, if its effective Agent carries it (S-SES-6). What the deployment chose stays private.
pub(crate) fn session_extension(frozen: &SessionConfiguration) -> Option<ExtensionJson<'_>> {
    let own = matches!(frozen.provider_source, Source::Session | Source::Agent);
    frozen.shows_extension.then(|| ExtensionJson {
        harness: Some(frozen.harness.as_str()),
        model_provider: frozen.provider.as_ref().filter(|_| own).map(provider),
        harness_config: Some(&frozen.harness_config),
    })
}

fn extension(extension: &AgentExtension) -> ExtensionJson<'_> {
    ExtensionJson {
        harness: extension.harness.as_deref(),
        model_provider: extension.model_provider.as_ref().map(provider),
        harness_config: extension.harness_config.as_ref(),
    }
}

/// Shows a provider.
pub(crate) fn provider(view: &ProviderView) -> ProviderJson<'_> {
    ProviderJson {
        protocol: view.protocol.as_str(),
        base_url: &view.base_url,
        context_window: view.context_window,
        max_output_tokens: view.max_output_tokens,
        api_key_configured: true,
    }
}

fn text(text: &Text) -> TextJson<'_> {
    let format = match &text.format {
        Format::Text => FormatJson::Text,
        Format::JsonSchema(schema) => FormatJson::JsonSchema { schema },
    };
    TextJson {
        format,
        verbosity: text.verbosity,
    }
}

fn tools(configuration: &AgentConfiguration, view: View) -> Vec<ToolJson<'_>> {
    configuration
        .tools
        .iter()
        .filter_map(|shown| tool(shown, view))
        .collect()
}

fn tool(tool: &Tool, view: View) -> Option<ToolJson<'_>> {
    Some(match tool {
        Tool::Function(function) => ToolJson::Function {
            name: &function.name,
            description: &function.description,
            parameters: &function.parameters,
            defer_loading: function.defer_loading,
        },
        // S-SES-2: the Session union has no such variant.
        Tool::ToolSearch if view == View::Session => return None,
        Tool::ToolSearch => ToolJson::ToolSearch,
        Tool::ProgrammaticToolCalling { enabled } => {
            ToolJson::ProgrammaticToolCalling { enabled: *enabled }
        }
        Tool::Mcp(mcp) => ToolJson::Mcp {
            server_label: &mcp.server_label,
            transport: transport(&mcp.transport, view),
            allowed_tools: mcp.allowed_tools.as_deref(),
            connection_origin: mcp.connection_origin,
            credential_id: mcp.credential_id.as_deref(),
            request_metadata: &mcp.request_metadata,
            required: mcp.required,
        },
        Tool::WebSearch(search) => ToolJson::WebSearch {
            allowed_domains: search.allowed_domains.as_deref(),
            context_size: search.context_size,
            location: search.location.as_ref(),
            mode: search.mode,
        },
    })
}

fn transport(transport: &Transport, view: View) -> TransportJson<'_> {
    match transport {
        Transport::Http {
            server_url,
            headers,
        } => TransportJson::Http {
            server_url,
            headers: (view == View::Saved).then_some(headers),
        },
        Transport::Stdio {
            command,
            cwd,
            args,
            env_vars,
        } => TransportJson::Stdio {
            command,
            cwd,
            args,
            env_vars,
        },
    }
}
