//! What an adapter is opened with.

use contract::common::{ContentPart, Pair};
use contract::harness_session as theirs;
use domain::ExecutorId;
use domain::run::{ExecutionConfiguration, History, MessagePart, PermissionPolicy, Workspace};

/// What the machine adds to the frozen configuration.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The new Executor.
    pub executor: ExecutorId,
    /// Version that the probe found.
    pub version: String,
    /// Absolute path of the private home.
    pub home: String,
    /// Absolute path of the workspace, if there is one.
    pub workspace: Option<String>,
    /// The plugin's settings, without the secret ones.
    pub settings: Vec<Pair>,
    /// Optional abilities of this host.
    pub host_features: Vec<String>,
}

/// The configuration of one Executor. MCP declarations are resolved elsewhere and not part of it.
#[must_use]
pub fn configuration(
    frozen: &ExecutionConfiguration,
    around: Surroundings,
) -> theirs::Configuration {
    let workspace = match (&frozen.workspace, around.workspace) {
        (Workspace::Bound, Some(path)) => theirs::Workspace::Here(path),
        (Workspace::Absent, _) | (Workspace::Bound, None) => theirs::Workspace::Absent,
    };
    let model = frozen.model.as_ref().map(|model| theirs::Model {
        id: model.id.clone(),
        protocol: model.protocol.as_str().to_owned(),
        context_window: model.context_window.map(saturated),
        max_output_tokens: model.max_output_tokens.map(saturated),
    });
    let function = |function: &domain::run::Function| theirs::Function {
        name: function.name.clone(),
        description: function.description.clone(),
        parameters: function.parameters.clone(),
        deferred: function.deferred,
    };
    theirs::Configuration {
        harness: frozen.harness.to_string(),
        executor: around.executor.to_string(),
        version: around.version,
        home: around.home,
        workspace,
        history: history(&frozen.history),
        model,
        options: theirs::ModelOptions {
            verbosity: frozen.options.verbosity.clone(),
            effort: frozen.options.effort.clone(),
            summary: frozen.options.summary.clone(),
            service_tier: frozen.options.service_tier.clone(),
        },
        parameters: frozen.parameters.clone(),
        settings: around.settings,
        instructions: frozen.instructions.clone(),
        platform_prompt: frozen.platform_prompt.clone(),
        output_schema: frozen.output_schema.clone(),
        functions: frozen.functions.iter().map(function).collect(),
        controls: theirs::ToolControls {
            web_search: frozen.controls.web_search.clone(),
            programmatic_calling: frozen.controls.programmatic_calling,
            tool_search: frozen.controls.tool_search,
        },
        mcp: Vec::new(),
        skills: Vec::new(),
        subagents: frozen.subagents,
        permissions: match frozen.permissions {
            PermissionPolicy::Allow => theirs::PermissionPolicy::Allow,
            PermissionPolicy::Deny => theirs::PermissionPolicy::Deny,
        },
        host_features: around.host_features,
        more: Vec::new(),
    }
}

/// Content of a message, parts and bytes unchanged (RP-12.5).
#[must_use]
pub fn content(parts: &[MessagePart]) -> Vec<ContentPart> {
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => ContentPart::Text(text.clone()),
    };
    parts.iter().map(part).collect()
}

fn history(history: &History) -> theirs::History {
    match history {
        History::Fresh => theirs::History::Fresh,
        History::Resume(id) => theirs::History::Resume(id.clone()),
        History::Recover => theirs::History::Recover,
    }
}

fn saturated(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
