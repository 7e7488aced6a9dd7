//! What a session is opened with: the frozen configuration (RP-10.14, RP-10.16).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::{Extra, Pair};

/// Where tools run. No adapter learns which machine this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Workspace {
    /// `none`: native tools are off (CDX-005, CLD-004).
    #[cfg_attr(feature = "component", component(name = "absent"))]
    Absent,
    /// Beside the harness, at this absolute path.
    #[cfg_attr(feature = "component", component(name = "here"))]
    Here(String),
    /// On a runner: native file and shell tools are off, the host serves them (API-144).
    #[cfg_attr(feature = "component", component(name = "remote"))]
    Remote,
    /// A later kind; an adapter that does not know it refuses the session.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// Which native history is continued (RP-10.18).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum History {
    /// No Turn ever started.
    #[cfg_attr(feature = "component", component(name = "fresh"))]
    Fresh,
    /// Exactly this native id; missing history fails (HIS-001, HIS-002).
    #[cfg_attr(feature = "component", component(name = "resume"))]
    Resume(String),
    /// A Turn started, no id is known: exactly one history may fit (RP-10.19).
    #[cfg_attr(feature = "component", component(name = "recover"))]
    Recover,
}

/// The model. Address and key are only `fill.relay-url` and `fill.relay-token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Model {
    /// Exact model id.
    pub id: String,
    /// One of the declared protocols.
    pub protocol: String,
    /// Tokens, if given.
    #[cfg_attr(feature = "component", component(name = "context-window"))]
    pub context_window: Option<u32>,
    /// Tokens, if given.
    #[cfg_attr(feature = "component", component(name = "max-output-tokens"))]
    pub max_output_tokens: Option<u32>,
}

/// A public function (S-FN-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// JSON Schema, the caller's text.
    pub parameters: String,
    /// Found by tool search only (S-TS-1).
    pub deferred: bool,
}

/// Explicit tool controls (S-POL-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ToolControls {
    /// `web_search.mode`, or none if not declared.
    #[cfg_attr(feature = "component", component(name = "web-search"))]
    pub web_search: Option<String>,
    /// `programmatic_tool_calling.enabled`, or none if not declared.
    #[cfg_attr(feature = "component", component(name = "programmatic-calling"))]
    pub programmatic_calling: Option<bool>,
    /// `tool_search` is declared.
    #[cfg_attr(feature = "component", component(name = "tool-search"))]
    pub tool_search: bool,
}

/// Explicit options, only if the declaration takes them (SB-6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ModelOptions {
    /// `text.verbosity` if not `medium`.
    pub verbosity: Option<String>,
    /// `reasoning.effort`.
    pub effort: Option<String>,
    /// `reasoning.summary`.
    pub summary: Option<String>,
    /// `service_tier` if not `auto`.
    #[cfg_attr(feature = "component", component(name = "service-tier"))]
    pub service_tier: Option<String>,
}

/// An HTTP MCP server (S-MCP-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct McpHttp {
    /// Absolute URL.
    pub url: String,
    /// Literal headers of a Plugin's declaration; never a credential.
    pub headers: Vec<Pair>,
    /// A bearer exists: `fill.mcp-bearer` of the label (ENV-601).
    pub bearer: bool,
}

/// A stdio MCP server behind the host's helper (ENV-566): the adapter renders exactly this command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct McpStdio {
    /// Absolute path of the helper.
    pub program: String,
    /// Its arguments; no secret.
    pub args: Vec<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum McpConnection {
    /// HTTP.
    #[cfg_attr(feature = "component", component(name = "http"))]
    Http(McpHttp),
    /// Stdio.
    #[cfg_attr(feature = "component", component(name = "stdio"))]
    Stdio(McpStdio),
    /// A later transport; an adapter that does not know it refuses the session.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// One resolved MCP server (ENV-581).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct McpServer {
    /// Unique in the session; public Items use it (S-MCP-8).
    pub label: String,
    /// How it is reached.
    pub connection: McpConnection,
    /// Original tool names; none = all, empty = none (S-MCP-3).
    #[cfg_attr(feature = "component", component(name = "allowed-tools"))]
    pub allowed_tools: Option<Vec<String>>,
    /// The session is not ready before it is (S-MCP-4).
    pub required: bool,
}

/// One installed Skill (ENV-551).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Absolute path of its folder, owned by the Runtime, read-only.
    pub path: String,
    /// Name of the Plugin it came with, or none.
    pub plugin: Option<String>,
    /// Text of its `SKILL.md`, for checks (ENV-553).
    pub manifest: String,
    /// Relative paths of its files, for checks (ENV-553).
    pub files: Vec<String>,
}

/// What the adapter answers when the harness asks for permission; no question reaches Core (TRN-013, CDX-004, MMX-010).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum PermissionPolicy {
    /// Allow, once each time.
    #[cfg_attr(feature = "component", component(name = "allow"))]
    Allow,
    /// Deny.
    #[cfg_attr(feature = "component", component(name = "deny"))]
    Deny,
}

#[cfg(target_arch = "wasm32")]
impl PermissionPolicy {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Allow,
            _ => Self::Deny,
        }
    }
}

/// Everything a session starts with. It never changes afterwards (RP-10.17).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Configuration {
    /// Harness id from the declarations.
    pub harness: String,
    /// A fresh UUID of this Executor; may serve as native session id.
    pub executor: String,
    /// Version that the probe found.
    pub version: String,
    /// Absolute path of the private home, mode 0700, not below a temporary folder.
    pub home: String,
    /// Where tools run.
    pub workspace: Workspace,
    /// Native history.
    pub history: History,
    /// Model; none only with the declared `own-model`.
    pub model: Option<Model>,
    /// Explicit options.
    pub options: ModelOptions,
    /// `harness_config`, a JSON object (NAT-008).
    pub parameters: String,
    /// The plugin's own settings, without the secret ones.
    pub settings: Vec<Pair>,
    /// Agent instructions.
    pub instructions: Option<String>,
    /// The platform's text, if wanted.
    #[cfg_attr(feature = "component", component(name = "platform-prompt"))]
    pub platform_prompt: Option<String>,
    /// JSON Schema of the final answer, or none (S-OUT-1).
    #[cfg_attr(feature = "component", component(name = "output-schema"))]
    pub output_schema: Option<String>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Controls.
    pub controls: ToolControls,
    /// MCP servers.
    pub mcp: Vec<McpServer>,
    /// Skills.
    pub skills: Vec<Skill>,
    /// Most Subagents at once; none = their tools are removed (S-SUB-1).
    pub subagents: Option<u32>,
    /// Permission questions.
    pub permissions: PermissionPolicy,
    /// Names of optional abilities of this host; unknown names are ignored.
    #[cfg_attr(feature = "component", component(name = "host-features"))]
    pub host_features: Vec<String>,
    /// Growth without a new contract.
    pub more: Vec<Extra>,
}
