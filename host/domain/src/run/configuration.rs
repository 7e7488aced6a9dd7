//! The frozen configuration of an execution (RP-10.14, RP-10.16): what `execution_prepare` carries.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::declaration::{DeclarationHash, HarnessId};
use crate::{CredentialId, Secret};

/// The protocol that a model provider speaks (MDL-001).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelProtocol {
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    ChatCompletions,
}

impl ModelProtocol {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::Responses, Self::Anthropic, Self::ChatCompletions];

    /// The name as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::ChatCompletions => "chat_completions",
        }
    }
}

/// The model and its provider. The key stays inside the Runtime's relay; no harness process sees it (architecture 8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Exact model id (MDL-005).
    pub id: String,
    /// What the provider speaks.
    pub protocol: ModelProtocol,
    /// Provider address, already checked (MDL-002).
    pub base_url: String,
    /// Provider key. It is written only into the frame of the link, never into a log, an error or an event.
    #[serde(serialize_with = "write_secret", deserialize_with = "read_secret")]
    pub api_key: Secret,
    /// Context window in tokens, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Output limit in tokens, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
}

fn write_secret<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    let text = secret
        .as_str()
        .ok_or_else(|| serde::ser::Error::custom("a key or token is UTF-8 text"))?;
    serializer.serialize_str(text)
}

fn read_secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    let text = String::deserialize(deserializer)?;
    // MDL-003
    if text.is_empty() || text.len() > 16 * 1024 || text.contains(['\0', '\r', '\n']) {
        return Err(de::Error::custom("not a usable key or token"));
    }
    Ok(Secret::from(text))
}

/// Explicit model options, present only if the declaration takes them (SB-6).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelOptions {
    /// `text.verbosity` if not `medium`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// `reasoning.effort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// `reasoning.summary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// `service_tier` if not `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
}

/// Where the Session's tools work, as a logical address (RP-9.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum Workspace {
    /// No workspace: native tools are off.
    Absent,
    /// In the workspace that the binding names.
    Bound,
}

/// Which native history is continued (RP-10.18).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "mode",
    content = "native_id",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum History {
    /// No Turn ever started.
    Fresh,
    /// Exactly this native id; missing history fails (HIS-001, HIS-002).
    Resume(String),
    /// A Turn started, no id is stored: exactly one history may fit (RP-10.19).
    Recover,
}

/// A public function (S-FN-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolControls {
    /// `web_search.mode`, if declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<String>,
    /// `programmatic_tool_calling.enabled`, if declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programmatic_calling: Option<bool>,
    /// `tool_search` is declared.
    pub tool_search: bool,
}

/// From where an MCP server is reached (ENV-590). `Service` never becomes `Environment` (RP-10.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpOrigin {
    /// Core's execution host.
    Service,
    /// The Environment's workspace.
    Environment,
}

/// A declared MCP transport.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum McpTransport {
    /// A public HTTP declaration, frozen at Session creation (ENV-602).
    Http {
        /// `server_url`.
        url: String,
        /// The frozen credential; none = chosen anonymous (ENV-597).
        #[serde(skip_serializing_if = "Option::is_none")]
        credential: Option<CredentialId>,
    },
    /// A public stdio declaration (API-173).
    Stdio {
        /// Program name or absolute path.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Names of initialized variables that it gets.
        variables: Vec<String>,
    },
}

/// One `mcp` tool of the Session, as declared; the Runtime resolves it (RP-10.14).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// `server_label`.
    pub label: String,
    /// Transport.
    pub transport: McpTransport,
    /// Explicit origin.
    pub connection_origin: McpOrigin,
    /// Tool names; none = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// The session is not ready before it is (S-MCP-4).
    pub required: bool,
}

/// The token of one Credential. A harness gets nothing else of it (OAU-009).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpBearer {
    /// The Credential, as declarations name it.
    pub credential: CredentialId,
    /// Its token.
    #[serde(serialize_with = "write_secret", deserialize_with = "read_secret")]
    pub token: Secret,
}

/// What is answered when the harness asks for permission; no question reaches Core (TRN-013).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    /// Allow, once each time.
    Allow,
    /// Deny.
    Deny,
}

/// Everything an Executor is made from. It has no user input and no Run (RP-10.1), and never changes afterwards (RP-10.17).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionConfiguration {
    /// Harness.
    pub harness: HarnessId,
    /// Declaration that the configuration was admitted under; another one here is `unsupported_configuration` (RP-7.5).
    pub declaration_hash: DeclarationHash,
    /// Where tools run.
    pub workspace: Workspace,
    /// Native history.
    pub history: History,
    /// Model; none only if the harness declares a model of its own (MDL-012).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Explicit options.
    pub options: ModelOptions,
    /// `harness_config`, the text of a JSON object (NAT-008).
    pub parameters: String,
    /// Agent instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The platform's text, if the harness wants it (API-073).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_prompt: Option<String>,
    /// JSON Schema of the final answer (S-OUT-1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<String>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Controls.
    pub controls: ToolControls,
    /// MCP declarations.
    pub mcp: Vec<McpServer>,
    /// Tokens of the Credentials that they name, opened for this request alone (SEL-019).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bearers: Vec<McpBearer>,
    /// Most Subagents at once; none = their tools are removed (S-SUB-1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagents: Option<u32>,
    /// Permission questions.
    pub permissions: PermissionPolicy,
}

impl ExecutionConfiguration {
    /// An Executor made from this one serves `other`: all is equal but the history, which the Executor already has open, and
    /// tokens, which end before the Session does (RP-10.2, RP-10.17).
    pub fn serves(&self, other: &Self) -> bool {
        self.lasting() == other.lasting()
    }

    fn lasting(&self) -> Self {
        Self {
            history: History::Fresh,
            bearers: Vec::new(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> ExecutionConfiguration {
        serde_json::from_str(
            r#"{
                "harness":"codex",
                "declaration_hash":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "workspace":{"kind":"bound"},
                "history":{"mode":"fresh"},
                "model":{"id":"m","protocol":"responses","base_url":"https://example.test/v1","api_key":"sk-canary"},
                "options":{},"parameters":"{}","functions":[],"controls":{"tool_search":false},"mcp":[],
                "permissions":"allow"
            }"#,
        )
        .unwrap()
    }

    #[test]
    fn the_provider_key_is_not_printed() {
        assert!(!format!("{:?}", configuration()).contains("sk-canary"));
    }

    #[test]
    fn an_executor_serves_the_same_configuration_with_continued_history() {
        // RP-10.2, RP-10.17
        let made_from = configuration();
        let continued = ExecutionConfiguration {
            history: History::Resume("native-1".into()),
            ..configuration()
        };
        assert!(made_from.serves(&continued));
        let changed = ExecutionConfiguration {
            instructions: Some("be brief".into()),
            ..configuration()
        };
        assert!(!made_from.serves(&changed));
        let mut other_key = configuration();
        other_key.model.as_mut().unwrap().api_key = Secret::from("sk-other".to_owned());
        assert!(!made_from.serves(&other_key));
    }

    #[test]
    fn a_renewed_token_leaves_the_configuration_the_same() {
        // OAU-009
        let bearer = |token: &str| McpBearer {
            credential: CredentialId::NEVER,
            token: Secret::from(token.to_owned()),
        };
        let old = ExecutionConfiguration {
            bearers: vec![bearer("canary-old")],
            ..configuration()
        };
        let new = ExecutionConfiguration {
            bearers: vec![bearer("canary-new")],
            ..configuration()
        };
        assert!(old.serves(&new) && old != new);
        assert!(!format!("{old:?}").contains("canary"));
        let written = serde_json::to_string(&old).unwrap();
        assert_eq!(
            serde_json::from_str::<ExecutionConfiguration>(&written).unwrap(),
            old
        );
    }

    #[test]
    fn an_mcp_declaration_without_origin_is_refused() {
        // RP-10.14
        let text = r#"{"label":"l","transport":{"kind":"http","data":{"url":"https://x.test"}},"required":false}"#;
        assert!(serde_json::from_str::<McpServer>(text).is_err());
    }
}
