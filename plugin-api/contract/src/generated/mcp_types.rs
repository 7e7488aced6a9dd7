//! Data of an MCP resolver (environments.md 15).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::{Extra, Pair};

/// From where a server is reached (ENV-590).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Origin {
    /// Core's execution host.
    #[cfg_attr(feature = "component", component(name = "service"))]
    Service,
    /// The Environment's workspace.
    #[cfg_attr(feature = "component", component(name = "environment"))]
    Environment,
    /// A later origin; refused by a resolver that does not know it (RP-10.14).
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(String),
}

/// A public HTTP declaration, frozen at Session creation (ENV-602).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct DeclaredHttp {
    /// `server_url`.
    pub url: String,
    /// The frozen credential id, or none = chosen anonymous (ENV-597).
    pub credential: Option<String>,
}

/// A public stdio declaration, only if the harness declares stdio MCP (API-173).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct DeclaredStdio {
    /// Program name or absolute path.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Names of initialized variables that it gets.
    pub variables: Vec<String>,
}

/// A transport as declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum DeclaredTransport {
    /// HTTP.
    #[cfg_attr(feature = "component", component(name = "http"))]
    Http(DeclaredHttp),
    /// Stdio.
    #[cfg_attr(feature = "component", component(name = "stdio"))]
    Stdio(DeclaredStdio),
    /// A later one; refused by a resolver that does not know it.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// One `mcp` tool of the Session, or one that the platform adds (API-074).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct DeclaredServer {
    /// `server_label`.
    pub label: String,
    /// Transport.
    pub transport: DeclaredTransport,
    /// Explicit origin.
    pub origin: Origin,
    /// Tool names; none = all.
    #[cfg_attr(feature = "component", component(name = "allowed-tools"))]
    pub allowed_tools: Option<Vec<String>>,
    /// `required`.
    pub required: bool,
}

/// One MCP file of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct PluginFile {
    /// Relative path.
    pub path: String,
    /// Text, at most 64 KiB.
    pub text: String,
}

/// An installed Plugin that was selected, as the host read it again from the frozen package (ENV-565).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct InstalledPlugin {
    /// Plugin name.
    pub name: String,
    /// Text of `.codex-plugin/plugin.json`.
    pub manifest: String,
    /// The MCP files that the manifest names, or the root `.mcp.json` (ENV-560).
    pub files: Vec<PluginFile>,
    /// Folders of the package, relative, for checks of `cwd`.
    pub folders: Vec<String>,
}

/// Everything that the answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ResolveRequest {
    /// Declared servers, in order.
    pub declared: Vec<DeclaredServer>,
    /// Selected Plugins, in order.
    pub plugins: Vec<InstalledPlugin>,
    /// Origins that this placement allows (ENV-592, ENV-593).
    pub origins: Vec<Origin>,
    /// Names of variables in the initialized environment; values stay with the host.
    pub variables: Vec<String>,
    /// Credential ids that came with the request and can be used (ENV-598).
    pub credentials: Vec<String>,
    /// Abilities that the harness declares here, such as `mcp_http_tools`, `plugin_mcp_stdio`.
    pub abilities: Vec<String>,
    /// Names of optional abilities of this host.
    #[cfg_attr(feature = "component", component(name = "host-features"))]
    pub host_features: Vec<String>,
}

/// What the bearer of a server is (ENV-600).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Authority {
    /// Anonymous.
    #[cfg_attr(feature = "component", component(name = "anonymous"))]
    Anonymous,
    /// The Project's Vault: this credential id.
    #[cfg_attr(feature = "component", component(name = "project-vault"))]
    ProjectVault(String),
    /// A variable of the initialized environment, for Plugins.
    #[cfg_attr(feature = "component", component(name = "environment-configuration"))]
    EnvironmentConfiguration(String),
}

/// HTTP, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct HttpBinding {
    /// Absolute URL.
    pub url: String,
    /// Literal headers of a Plugin; never a credential.
    pub headers: Vec<Pair>,
    /// The bearer.
    pub authority: Authority,
}

/// Stdio, resolved; the host's helper launches it (ENV-566, ENV-568).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct StdioBinding {
    /// Command as declared.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Directory relative to the Plugin's root; none = the workspace.
    pub cwd: Option<String>,
    /// Variables from the declaration; initialized ones win.
    #[cfg_attr(feature = "component", component(name = "literal-env"))]
    pub literal_env: Vec<Pair>,
    /// Names of initialized variables; a missing one has been refused.
    pub variables: Vec<String>,
}

/// A transport, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Transport {
    /// HTTP.
    #[cfg_attr(feature = "component", component(name = "http"))]
    Http(HttpBinding),
    /// Stdio.
    #[cfg_attr(feature = "component", component(name = "stdio"))]
    Stdio(StdioBinding),
    /// A later one.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// One effective MCP server. Transient: never stored, never logged (ENV-582).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct McpBinding {
    /// Unique label.
    pub label: String,
    /// Plugin that it comes from, or none.
    pub plugin: Option<String>,
    /// Origin, as given.
    pub origin: Origin,
    /// Transport.
    pub transport: Transport,
    /// Tool names; none = all.
    #[cfg_attr(feature = "component", component(name = "allowed-tools"))]
    pub allowed_tools: Option<Vec<String>>,
    /// Required.
    pub required: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Refusal {
    /// `duplicate_label`, `credential_unavailable`, `variable_missing`, `origin_not_allowed`, `transport_unsupported`, `manifest_invalid`, `header_unsupported`.
    pub code: String,
    /// The label in question, if there is one.
    pub label: Option<String>,
    /// The Plugin in question, if there is one.
    pub plugin: Option<String>,
    /// What exactly is wrong, for whoever wrote the declaration: a sentence of at most 1 KiB without a secret value.
    pub detail: Option<String>,
}
