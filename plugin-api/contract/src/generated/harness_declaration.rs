//! What a harness is able to do, as data. Core and Runtime both read it; admission reads nothing else (CAP-005, S-HAR-1).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};

use super::common::Extra;

/// How far an ability is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Support {
    /// Refused at admission.
    Refused,
    /// Offered, not proven by a test with the real program.
    Admitted,
    /// Offered and proven.
    Verified,
}

/// One ability in each placement. Every name of the catalogue of this contract version is listed, also refused ones (RP-7.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ability {
    /// From the catalogue in README.md, such as `message_images`.
    pub name: String,
    /// Environment type `none`.
    pub none: Support,
    /// `openai_hosted`.
    pub hosted: Support,
    /// `self_hosted`.
    pub self_hosted: Support,
}

/// Abilities that cannot be used together (CAP-001, CAP-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Conflict {
    /// This one …
    pub ability: String,
    /// … excludes these.
    pub excludes: Vec<String>,
}

/// Limits of public functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FunctionLimits {
    /// At most 64 (CAP-008).
    pub max_count: u32,
    /// At most 512.
    pub max_name_bytes: u32,
    /// Regular expression that a whole name must match, or none.
    pub name_pattern: Option<String>,
    /// Names of built-in tools that would hide a function.
    pub reserved_names: Vec<String>,
    /// Schemas need the root `"type":"object"` (CLD-009).
    pub object_root: bool,
    /// Numbers that change under binary64 are refused (CLD-009).
    pub exact_numbers: bool,
    /// Media types of pictures in results; empty = text only.
    pub result_images: Vec<String>,
    /// Pictures only in successful results.
    pub result_images_on_success_only: bool,
}

/// Limits of MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct McpLimits {
    /// Regular expression for a whole label, or none.
    pub label_pattern: Option<String>,
    /// Labels that are taken.
    pub reserved_labels: Vec<String>,
    /// Regular expression for a whole tool name, or none.
    pub tool_pattern: Option<String>,
    /// False: only `allowed_tools: null`.
    pub allow_lists: bool,
    /// Literal headers of a Plugin's declaration are taken (ENV-572).
    pub literal_headers: bool,
    /// A bearer is only sent over HTTPS.
    pub bearer_needs_https: bool,
}

/// Limits of messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MessageLimits {
    /// Media types of pictures; empty = text only.
    pub images: Vec<String>,
    /// Text of white space only is taken (S-MSG-6).
    pub whitespace_only: bool,
    /// Messages of one Turn, or none (S-MSG-9).
    pub max_messages_per_turn: Option<u32>,
}

/// What a cancel does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cancellation {
    /// A confirmed cancel leaves the process usable (TRN-006).
    pub keeps_process: bool,
    /// The harness settles within so long, at most 8 000 ms, so that kill, drain and receipt fit into 15 s (F01, RP-13.3).
    pub settles_within_ms: u32,
}

/// How history is found when no native id was recorded (HIS-001 to HIS-006).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryRecovery {
    /// It is not: `recover` is refused.
    Unsupported,
    /// The program lists its sessions; exactly one may fit.
    NativeListing,
    /// The adapter reads the private home through `look`; exactly one may fit.
    HomeFiles,
}

/// Model side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelSupport {
    /// `responses`, `anthropic`, `chat_completions`; the default first.
    pub protocols: Vec<String>,
    /// Context window and output limit must be given (MMX-006).
    pub needs_token_limits: bool,
    /// It runs without a configured model (MDL-012).
    pub own_model: bool,
    /// Values of `text.verbosity` besides `medium`.
    pub verbosities: Vec<String>,
    /// Values of `reasoning.effort` that it applies; empty = refused (SB-6).
    pub efforts: Vec<String>,
    /// Values of `service_tier` besides `auto`; empty = refused (SB-6).
    pub service_tiers: Vec<String>,
}

/// One harness. A plugin may serve several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Declaration {
    /// `[a-z0-9_]{1,32}`: the value of `x_agents_core.harness`.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// The enabled declaration with the lowest one is the default; Codex has 0.
    pub rank: u32,
    /// Name of the manifest's `[[harness]]` install entry with package, pin, range, paths and probe commands.
    pub install: String,
    /// Abilities.
    pub abilities: Vec<Ability>,
    /// Conflicts.
    pub conflicts: Vec<Conflict>,
    /// Model side.
    pub models: ModelSupport,
    /// JSON Schema of `harness_config` (NAT-001 to NAT-008); `{}` alone is always valid.
    pub parameters_schema: String,
    /// Functions.
    pub functions: FunctionLimits,
    /// MCP servers.
    pub mcp: McpLimits,
    /// Messages.
    pub messages: MessageLimits,
    /// Cancel.
    pub cancellation: Cancellation,
    /// History.
    pub recovery: HistoryRecovery,
    /// It wants the platform's prompt text (API-073).
    pub platform_prompt: bool,
    /// A session without work may be kept so many seconds before its process is closed; the host's own limit wins if smaller.
    pub idle_s: u32,
    /// A Turn without any content for so many seconds fails (F03); default of ours 600.
    pub silence_limit_s: u32,
    /// Longest Turn in seconds (F03); 0 = the deployment's.
    pub turn_limit_s: u32,
    /// Growth without a new contract.
    pub more: Vec<Extra>,
}

/// What one probe command of the manifest printed (HAR-003).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProbeReport {
    /// Its arguments, as in the manifest.
    pub args: Vec<String>,
    /// Exit code; none if it was killed after 15 s or could not start.
    pub exit_code: Option<i32>,
    /// Standard output, at most 1 MiB.
    pub stdout: String,
}

/// What the adapter reads from it. The host compares the version with the manifest's range (HAR-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProbeVerdict {
    /// The exact version, or none if the output is not understood.
    pub version: Option<String>,
    /// Fixed code if it cannot be used, such as `program_unusable`.
    pub problem: Option<String>,
    /// Abilities that this installation lacks; a probe only narrows (CAP-006).
    pub withheld: Vec<String>,
}
