//! Which configurations Codex takes. Everything else is refused here, before a process exists (RP-10.12).

use sdk::common::{Effect, Failure};
use sdk::harness_session::{
    Configuration, History, Model, ModelOptions, PermissionPolicy, ToolControls, Workspace,
};
use serde::Deserialize;

/// Values of `model_reasoning_effort` (NAT-001).
pub const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh"];

/// A checked configuration, reduced to what this adapter uses.
pub struct Setup {
    /// Absolute path of the private home; also `CODEX_HOME` (CDX-002).
    pub home: String,
    /// Where tools run.
    pub place: Place,
    /// Native history.
    pub history: History,
    /// The model.
    pub model: Model,
    /// `text.verbosity` if not `medium`.
    pub verbosity: Option<String>,
    /// `model_reasoning_effort` (CDX-010).
    pub effort: Option<String>,
    /// Agent instructions.
    pub instructions: Option<String>,
    /// Answer to permission questions.
    pub permissions: PermissionPolicy,
}

/// Where native tools work.
pub enum Place {
    /// No Environment: native tools are off (CDX-005).
    Absent,
    /// Beside Codex, at this absolute path.
    Here(String),
}

impl Setup {
    /// The thread's working directory.
    pub fn cwd(&self) -> &str {
        match &self.place {
            Place::Absent => &self.home,
            Place::Here(path) => path,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Parameters {
    model_reasoning_effort: Option<String>,
}

pub fn check(configuration: Configuration) -> Result<Setup, Failure> {
    let c = configuration;
    if c.harness != "codex" {
        return Err(invalid("another harness"));
    }
    if !c.home.starts_with('/') {
        return Err(invalid("the home is not an absolute path"));
    }
    let place = match c.workspace {
        Workspace::Absent => Place::Absent,
        Workspace::Here(path) if path.starts_with('/') => Place::Here(path),
        Workspace::Here(_) => return Err(invalid("the workspace is not an absolute path")),
        Workspace::Remote => return Err(unsupported("remote tools")),
        Workspace::Other(_) => return Err(unsupported("this kind of workspace")),
    };
    let model = c.model.ok_or_else(|| unsupported("no model"))?;
    if model.protocol != "responses" {
        return Err(unsupported("this model protocol"));
    }
    let parts = [
        (c.functions.is_empty(), "function tools"),
        (c.mcp.is_empty(), "MCP servers"),
        (c.skills.is_empty(), "Skills"),
        (c.subagents.is_none(), "Subagents"),
        (c.output_schema.is_none(), "structured output"),
        (c.platform_prompt.is_none(), "a platform prompt"),
    ];
    if let Some((_, what)) = parts.iter().find(|(absent, _)| !absent) {
        return Err(unsupported(what));
    }
    check_controls(&c.controls)?;
    Ok(Setup {
        home: c.home,
        place,
        history: c.history,
        model,
        verbosity: check_options(c.options)?,
        effort: check_parameters(&c.parameters)?,
        instructions: c.instructions.filter(|text| !text.is_empty()),
        permissions: c.permissions,
    })
}

/// Web search and code mode are always off here, so only the explicit "off" can be applied (CDX-006, CDX-007).
fn check_controls(controls: &ToolControls) -> Result<(), Failure> {
    if controls
        .web_search
        .as_deref()
        .is_some_and(|mode| mode != "disabled")
    {
        return Err(unsupported("web search"));
    }
    if controls.programmatic_calling == Some(true) {
        return Err(unsupported("programmatic tool calling"));
    }
    if controls.tool_search {
        return Err(unsupported("tool search"));
    }
    Ok(())
}

fn check_options(options: ModelOptions) -> Result<Option<String>, Failure> {
    if options.effort.is_some() || options.summary.is_some() {
        return Err(unsupported("reasoning options"));
    }
    if options.service_tier.is_some() {
        return Err(unsupported("a service tier"));
    }
    match options.verbosity.as_deref() {
        None | Some("low" | "high") => Ok(options.verbosity),
        Some(_) => Err(unsupported("this verbosity")),
    }
}

fn check_parameters(json: &str) -> Result<Option<String>, Failure> {
    let parameters: Parameters =
        serde_json::from_str(json).map_err(|_| invalid("harness parameters"))?;
    match parameters.model_reasoning_effort {
        Some(effort) if !EFFORTS.contains(&effort.as_str()) => Err(invalid("reasoning effort")),
        effort => Ok(effort),
    }
}

fn invalid(what: &str) -> Failure {
    refusal("invalid_configuration", what)
}

fn unsupported(what: &str) -> Failure {
    refusal("unsupported_configuration", what)
}

fn refusal(code: &str, what: &str) -> Failure {
    Failure {
        code: code.into(),
        detail: what.into(),
        effect: Effect::None,
    }
}
