//! The tools an agent may have: types and their shapes (api-surface 3.1, S-AG-1).

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::options::words;
use super::parse::AgentShape;
use crate::invalid::{Invalid, Path};
use crate::json::{FREE_FORM, Field, Json, Kind, Object, Opaque};

words! {
    /// Kind of tool.
    ToolKind {
        Function = "function", ToolSearch = "tool_search", ProgrammaticToolCalling = "programmatic_tool_calling",
        Mcp = "mcp", WebSearch = "web_search",
    }
    /// Where an MCP server is reached from.
    ConnectionOrigin { Service = "service", Environment = "environment" }
    /// How an MCP server is reached.
    TransportKind { Http = "http", Stdio = "stdio" }
    /// How much a web search reads.
    ContextSize { Low = "low", Medium = "medium", High = "high" }
    /// How a web search gets its pages.
    SearchMode { Disabled = "disabled", Cached = "cached", Live = "live" }
}

impl SearchMode {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Cached => "cached",
            Self::Live => "live",
        }
    }
}

/// One tool with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// A function that the caller answers.
    Function(Function),
    /// Discovery of deferred functions.
    ToolSearch,
    /// Calling tools from code.
    ProgrammaticToolCalling {
        /// On or off.
        enabled: bool,
    },
    /// An MCP server.
    Mcp(Box<Mcp>),
    /// Web search.
    WebSearch(WebSearch),
}

/// A function that the caller answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 3.1")]
pub struct Function {
    pub name: String,
    pub description: String,
    /// JSON Schema, byte for byte.
    pub parameters: Opaque,
    pub defer_loading: bool,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 3.1")]
pub struct Mcp {
    pub server_label: String,
    pub transport: Transport,
    /// `None` = all tools, empty = none (S-MCP-3).
    pub allowed_tools: Option<Vec<String>>,
    pub connection_origin: ConnectionOrigin,
    pub credential_id: Option<String>,
    pub request_metadata: Opaque,
    pub required: bool,
}

/// How an MCP server is reached. Saved Agents never hold credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 3.1")]
pub enum Transport {
    Http {
        server_url: String,
        headers: Opaque,
    },
    Stdio {
        command: String,
        cwd: String,
        args: Vec<String>,
        env_vars: Vec<String>,
    },
}

/// Web search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 3.1")]
pub struct WebSearch {
    /// `None` = unrestricted; an empty list stays an empty list.
    pub allowed_domains: Option<Vec<String>>,
    pub context_size: ContextSize,
    pub location: Option<Location>,
    pub mode: SearchMode,
}

/// Where a search is made from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 3.1")]
pub struct Location {
    pub city: Option<String>,
    pub country: Option<String>,
    pub region: Option<String>,
    pub timezone: Option<String>,
}

/// Reads the member `tools`.
pub(super) fn parse_tools(
    json: Json<'_>,
    path: &Path,
    shape: AgentShape,
) -> Result<Vec<Tool>, Invalid> {
    let elements = json.to_elements(path)?.into_iter().enumerate();
    elements
        .map(|(index, element)| Tool::parse(element, &path.index(index), shape))
        .collect()
}

/// Reports repeated tools, then function schemas with another root (E400-08, E400-09), in the tools' order.
pub(super) fn check_whole(tools: &[Tool]) -> Result<(), Invalid> {
    let mut functions = HashSet::new();
    let (mut searches, mut discoveries) = (0, 0);
    for tool in tools {
        match tool {
            Tool::Function(function) if !functions.insert(function.name.as_str()) => {
                return Err(Invalid::repeated_function(&function.name));
            }
            Tool::WebSearch(_) => searches += 1,
            Tool::ToolSearch => discoveries += 1,
            Tool::Function(_) | Tool::ProgrammaticToolCalling { .. } | Tool::Mcp(_) => {}
        }
        if searches > 1 {
            return Err(Invalid::repeated_tool("web_search"));
        }
        if discoveries > 1 {
            return Err(Invalid::repeated_tool("tool_search"));
        }
    }
    for tool in tools {
        if let Tool::Function(function) = tool
            && let Some(root) = foreign_root(&function.parameters)
        {
            return Err(Invalid::function_schema(&function.name, &root));
        }
    }
    Ok(())
}

/// An explicit string root `type` other than `object`; anything else is accepted here (S-AG-6).
pub(super) fn foreign_root(schema: &Opaque) -> Option<String> {
    let root = schema.json().get("type")?;
    root.string().filter(|root| root != "object")
}

impl Tool {
    /// The word of its kind.
    pub fn kind(&self) -> ToolKind {
        match self {
            Tool::Function(_) => ToolKind::Function,
            Tool::ToolSearch => ToolKind::ToolSearch,
            Tool::ProgrammaticToolCalling { .. } => ToolKind::ProgrammaticToolCalling,
            Tool::Mcp(_) => ToolKind::Mcp,
            Tool::WebSearch(_) => ToolKind::WebSearch,
        }
    }

    fn parse(json: Json<'_>, path: &Path, shape: AgentShape) -> Result<Self, Invalid> {
        let object = Object::any(json, path)?;
        let kind = object
            .get("type")
            .map(|kind| ToolKind::parse(kind, &object.path("type")))
            .transpose()?;
        match object.required(kind, "type")? {
            ToolKind::Function => Function::parse(&object).map(Tool::Function),
            ToolKind::ToolSearch => object.only(&["type"]).map(|()| Tool::ToolSearch),
            ToolKind::ProgrammaticToolCalling => {
                object.only(&["type", "enabled"])?;
                let enabled = object
                    .get("enabled")
                    .map(|value| value.to_bool(&object.path("enabled")))
                    .transpose()?;
                Ok(Tool::ProgrammaticToolCalling {
                    enabled: enabled.unwrap_or(true),
                })
            }
            ToolKind::Mcp => Mcp::parse(&object, shape).map(|mcp| Tool::Mcp(Box::new(mcp))),
            ToolKind::WebSearch => WebSearch::parse(&object).map(Tool::WebSearch),
        }
    }
}

impl Function {
    fn parse(object: &Object<'_>) -> Result<Self, Invalid> {
        object.only(&["type", "name", "description", "parameters", "defer_loading"])?;
        let (mut name, mut description, mut parameters, mut defer_loading) =
            (None, None, None, false);
        for (member, value, path) in object.iter() {
            match member {
                "name" => name = Some(value.to_text(&path)?),
                "description" => description = Some(value.to_text(&path)?),
                "parameters" => parameters = Some(value.to_opaque_object(&path, FREE_FORM)?),
                "defer_loading" => defer_loading = value.to_bool(&path)?,
                _ => {}
            }
        }
        Ok(Self {
            name: object.required(name, "name")?,
            description: object.required(description, "description")?,
            parameters: object.required(parameters, "parameters")?,
            defer_loading,
        })
    }
}

impl Mcp {
    fn parse(object: &Object<'_>, shape: AgentShape) -> Result<Self, Invalid> {
        const KNOWN: &[&str] = &[
            "type",
            "server_label",
            "transport",
            "allowed_tools",
            "connection_origin",
            "credential_id",
            "request_metadata",
            "required",
        ];
        object.only(KNOWN)?;
        let (mut server_label, mut transport, mut required) = (None, None, false);
        let (mut allowed_tools, mut credential_id) = (None, None);
        let (mut connection_origin, mut request_metadata) =
            (ConnectionOrigin::Service, Opaque::empty_object());
        for (member, value, path) in object.iter() {
            match member {
                "server_label" => server_label = Some(value.to_text(&path)?),
                "transport" => transport = Some(Transport::parse(value, &path, shape)?),
                "allowed_tools" => {
                    allowed_tools = Field::read(value, |value| value.to_texts(&path))?.value()
                }
                "connection_origin" => {
                    let origin =
                        Field::read(value, |value| ConnectionOrigin::parse(value, &path))?.value();
                    connection_origin = origin.unwrap_or(ConnectionOrigin::Service);
                }
                "credential_id" => {
                    credential_id = Field::read(value, |value| value.to_text(&path))?.value()
                }
                "request_metadata" => {
                    let metadata =
                        Field::read(value, |value| value.to_opaque_object(&path, FREE_FORM))?
                            .value();
                    request_metadata = metadata.unwrap_or_else(Opaque::empty_object);
                }
                "required" => required = value.to_bool(&path)?,
                _ => {}
            }
        }
        Ok(Self {
            server_label: object.required(server_label, "server_label")?,
            transport: object.required(transport, "transport")?,
            allowed_tools,
            connection_origin,
            credential_id,
            request_metadata,
            required,
        })
    }
}

impl Transport {
    fn parse(json: Json<'_>, path: &Path, shape: AgentShape) -> Result<Self, Invalid> {
        let object = Object::any(json, path)?;
        let kind = object
            .get("type")
            .map(|kind| TransportKind::parse(kind, &object.path("type")))
            .transpose()?;
        match object.required(kind, "type")? {
            TransportKind::Http => Self::parse_http(&object, shape),
            TransportKind::Stdio => Self::parse_stdio(&object, shape),
        }
    }

    fn parse_http(object: &Object<'_>, shape: AgentShape) -> Result<Self, Invalid> {
        match shape {
            AgentShape::Inline => {
                object.only(&["type", "server_url", "authorization", "headers"])?
            }
            AgentShape::Create | AgentShape::Update => {
                object.only(&["type", "server_url", "headers"])?
            }
        }
        let (mut server_url, mut headers) = (None, Opaque::empty_object());
        for (member, value, path) in object.iter() {
            match member {
                "server_url" => server_url = Some(value.to_text(&path)?),
                "headers" => {
                    let map = Field::read(value, |value| text_map(value, &path))?.value();
                    headers = map.unwrap_or_else(Opaque::empty_object);
                }
                "authorization" if !value.is_null() => {
                    value.to_text(&path)?;
                    let message =
                        "Inline MCP authorization is not supported; use a vault credential.";
                    return Err(Invalid::unsupported(path.echo(), message));
                }
                _ => {}
            }
        }
        Ok(Transport::Http {
            server_url: object.required(server_url, "server_url")?,
            headers,
        })
    }

    fn parse_stdio(object: &Object<'_>, shape: AgentShape) -> Result<Self, Invalid> {
        match shape {
            AgentShape::Inline => {
                object.only(&["type", "command", "cwd", "args", "env", "env_vars"])?
            }
            AgentShape::Create | AgentShape::Update => {
                object.only(&["type", "command", "cwd", "args", "env_vars"])?
            }
        }
        let (mut command, mut cwd, mut args, mut env_vars) = (None, None, Vec::new(), Vec::new());
        for (member, value, path) in object.iter() {
            match member {
                "command" => command = Some(value.to_text(&path)?),
                "cwd" => cwd = Some(value.to_text(&path)?),
                "args" => {
                    args = Field::read(value, |value| value.to_texts(&path))?
                        .value()
                        .unwrap_or_default()
                }
                "env_vars" => {
                    env_vars = Field::read(value, |value| value.to_texts(&path))?
                        .value()
                        .unwrap_or_default()
                }
                "env" if !value.is_null() => {
                    text_map(value, &path)?;
                    let message = "Inline MCP environment variables are not supported.";
                    return Err(Invalid::unsupported(path.echo(), message));
                }
                _ => {}
            }
        }
        let command = object.required(command, "command")?;
        Ok(Transport::Stdio {
            command,
            cwd: object.required(cwd, "cwd")?,
            args,
            env_vars,
        })
    }
}

/// An object of strings, kept byte for byte.
fn text_map(json: Json<'_>, path: &Path) -> Result<Opaque, Invalid> {
    for (_, value, path) in Object::any(json, path)?.iter() {
        value.to_text(&path)?;
    }
    Ok(json.opaque())
}

impl WebSearch {
    fn parse(object: &Object<'_>) -> Result<Self, Invalid> {
        object.only(&[
            "type",
            "allowed_domains",
            "context_size",
            "location",
            "mode",
        ])?;
        let mut search = Self {
            allowed_domains: None,
            context_size: ContextSize::Medium,
            location: None,
            mode: SearchMode::Live,
        };
        for (member, value, path) in object.iter() {
            if value.kind() == Kind::Null && member != "type" {
                continue;
            }
            match member {
                "allowed_domains" => search.allowed_domains = Some(value.to_texts(&path)?),
                "context_size" => search.context_size = ContextSize::parse(value, &path)?,
                "location" => search.location = Some(Location::parse(value, &path)?),
                "mode" => search.mode = SearchMode::parse(value, &path)?,
                _ => {}
            }
        }
        Ok(search)
    }
}

impl Location {
    fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let object = Object::open(json, path, &["city", "country", "region", "timezone"])?;
        let mut location = Self::default();
        for (member, value, path) in object.iter() {
            let text = Field::read(value, |value| value.to_text(&path))?.value();
            match member {
                "city" => location.city = text,
                "country" => location.country = text,
                "region" => location.region = text,
                _ => location.timezone = text,
            }
        }
        Ok(location)
    }
}
