//! A configuration that asks for nothing special.

use contract::harness_session::{
    Configuration, History, Model, ModelOptions, PermissionPolicy, ToolControls, Workspace,
};

/// Of a fresh session of this harness, with a workspace and no tools.
#[must_use]
pub fn configuration(harness: &str) -> Configuration {
    Configuration {
        harness: harness.into(),
        executor: "5e1f0c1e-0000-4000-8000-000000000001".into(),
        version: "1.0.0".into(),
        home: "/home/agent/harness".into(),
        workspace: Workspace::Here("/home/agent/work".into()),
        history: History::Fresh,
        model: Some(Model {
            id: "scripted-1".into(),
            protocol: "responses".into(),
            context_window: None,
            max_output_tokens: None,
        }),
        options: ModelOptions {
            verbosity: None,
            effort: None,
            summary: None,
            service_tier: None,
        },
        parameters: "{}".into(),
        settings: Vec::new(),
        instructions: None,
        platform_prompt: None,
        output_schema: None,
        functions: Vec::new(),
        controls: ToolControls {
            web_search: None,
            programmatic_calling: None,
            tool_search: false,
        },
        mcp: Vec::new(),
        skills: Vec::new(),
        subagents: None,
        permissions: PermissionPolicy::Allow,
        host_features: Vec::new(),
        more: Vec::new(),
    }
}
