//! What a harness is able to do, as data. Core and Runtime both read it; admission reads nothing else (CAP-005, S-HAR-1).
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::Extra;

/// How far an ability is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum Support {
    /// Refused at admission.
    #[cfg_attr(feature = "component", component(name = "refused"))]
    Refused,
    /// Offered, not proven by a test with the real program.
    #[cfg_attr(feature = "component", component(name = "admitted"))]
    Admitted,
    /// Offered and proven.
    #[cfg_attr(feature = "component", component(name = "verified"))]
    Verified,
}

#[cfg(target_arch = "wasm32")]
impl Support {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Refused,
            1 => Self::Admitted,
            _ => Self::Verified,
        }
    }
}

/// One ability in each placement. Every name of the catalogue of this contract version is listed, also refused ones (RP-7.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Ability {
    /// From the catalogue in README.md, such as `message_images`.
    pub name: String,
    /// Environment type `none`.
    pub none: Support,
    /// `openai_hosted`.
    pub hosted: Support,
    /// `self_hosted`.
    #[cfg_attr(feature = "component", component(name = "self-hosted"))]
    pub self_hosted: Support,
}

/// Abilities that cannot be used together (CAP-001, CAP-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Conflict {
    /// This one …
    pub ability: String,
    /// … excludes these.
    pub excludes: Vec<String>,
}

/// Limits of public functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct FunctionLimits {
    /// At most 64 (CAP-008).
    #[cfg_attr(feature = "component", component(name = "max-count"))]
    pub max_count: u32,
    /// At most 512.
    #[cfg_attr(feature = "component", component(name = "max-name-bytes"))]
    pub max_name_bytes: u32,
    /// Regular expression that a whole name must match, or none.
    #[cfg_attr(feature = "component", component(name = "name-pattern"))]
    pub name_pattern: Option<String>,
    /// Names of built-in tools that would hide a function.
    #[cfg_attr(feature = "component", component(name = "reserved-names"))]
    pub reserved_names: Vec<String>,
    /// Schemas need the root `"type":"object"` (CLD-009).
    #[cfg_attr(feature = "component", component(name = "object-root"))]
    pub object_root: bool,
    /// Numbers that change under binary64 are refused (CLD-009).
    #[cfg_attr(feature = "component", component(name = "exact-numbers"))]
    pub exact_numbers: bool,
    /// Media types of pictures in results; empty = text only.
    #[cfg_attr(feature = "component", component(name = "result-images"))]
    pub result_images: Vec<String>,
    /// Pictures only in successful results.
    #[cfg_attr(
        feature = "component",
        component(name = "result-images-on-success-only")
    )]
    pub result_images_on_success_only: bool,
}

/// Limits of MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct McpLimits {
    /// Regular expression for a whole label, or none.
    #[cfg_attr(feature = "component", component(name = "label-pattern"))]
    pub label_pattern: Option<String>,
    /// Labels that are taken.
    #[cfg_attr(feature = "component", component(name = "reserved-labels"))]
    pub reserved_labels: Vec<String>,
    /// Regular expression for a whole tool name, or none.
    #[cfg_attr(feature = "component", component(name = "tool-pattern"))]
    pub tool_pattern: Option<String>,
    /// False: only `allowed_tools: null`.
    #[cfg_attr(feature = "component", component(name = "allow-lists"))]
    pub allow_lists: bool,
    /// Literal headers of a Plugin's declaration are taken (ENV-572).
    #[cfg_attr(feature = "component", component(name = "literal-headers"))]
    pub literal_headers: bool,
    /// A bearer is only sent over HTTPS.
    #[cfg_attr(feature = "component", component(name = "bearer-needs-https"))]
    pub bearer_needs_https: bool,
}

/// Limits of messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct MessageLimits {
    /// Media types of pictures; empty = text only.
    pub images: Vec<String>,
    /// Text of white space only is taken (S-MSG-6).
    #[cfg_attr(feature = "component", component(name = "whitespace-only"))]
    pub whitespace_only: bool,
    /// Messages of one Turn, or none (S-MSG-9).
    #[cfg_attr(feature = "component", component(name = "max-messages-per-turn"))]
    pub max_messages_per_turn: Option<u32>,
}

/// What a cancel does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Cancellation {
    /// A confirmed cancel leaves the process usable (TRN-006).
    #[cfg_attr(feature = "component", component(name = "keeps-process"))]
    pub keeps_process: bool,
    /// The harness settles within so long, at most 8 000 ms, so that kill, drain and receipt fit into 15 s (F01, RP-13.3).
    #[cfg_attr(feature = "component", component(name = "settles-within-ms"))]
    pub settles_within_ms: u32,
}

/// How history is found when no native id was recorded (HIS-001 to HIS-006).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum HistoryRecovery {
    /// It is not: `recover` is refused.
    #[cfg_attr(feature = "component", component(name = "unsupported"))]
    Unsupported,
    /// The program lists its sessions; exactly one may fit.
    #[cfg_attr(feature = "component", component(name = "native-listing"))]
    NativeListing,
    /// The adapter reads the private home through `look`; exactly one may fit.
    #[cfg_attr(feature = "component", component(name = "home-files"))]
    HomeFiles,
}

#[cfg(target_arch = "wasm32")]
impl HistoryRecovery {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Unsupported,
            1 => Self::NativeListing,
            _ => Self::HomeFiles,
        }
    }
}

/// Model side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ModelSupport {
    /// `responses`, `anthropic`, `chat_completions`; the default first.
    pub protocols: Vec<String>,
    /// Context window and output limit must be given (MMX-006).
    #[cfg_attr(feature = "component", component(name = "needs-token-limits"))]
    pub needs_token_limits: bool,
    /// It runs without a configured model (MDL-012).
    #[cfg_attr(feature = "component", component(name = "own-model"))]
    pub own_model: bool,
    /// Values of `text.verbosity` besides `medium`.
    pub verbosities: Vec<String>,
    /// Values of `reasoning.effort` that it applies; empty = refused (SB-6).
    pub efforts: Vec<String>,
    /// Values of `service_tier` besides `auto`; empty = refused (SB-6).
    #[cfg_attr(feature = "component", component(name = "service-tiers"))]
    pub service_tiers: Vec<String>,
}

/// One harness. A plugin may serve several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Declaration {
    /// `[a-z0-9_]{1,32}`: the value of `x_agents_core.harness`.
    pub id: String,
    /// For people.
    #[cfg_attr(feature = "component", component(name = "display-name"))]
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
    #[cfg_attr(feature = "component", component(name = "parameters-schema"))]
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
    #[cfg_attr(feature = "component", component(name = "platform-prompt"))]
    pub platform_prompt: bool,
    /// A session without work may be kept so many seconds before its process is closed; the host's own limit wins if smaller.
    #[cfg_attr(feature = "component", component(name = "idle-s"))]
    pub idle_s: u32,
    /// A Turn without any content for so many seconds fails (F03); default of ours 600.
    #[cfg_attr(feature = "component", component(name = "silence-limit-s"))]
    pub silence_limit_s: u32,
    /// Longest Turn in seconds (F03); 0 = the deployment's.
    #[cfg_attr(feature = "component", component(name = "turn-limit-s"))]
    pub turn_limit_s: u32,
    /// Growth without a new contract.
    pub more: Vec<Extra>,
}

/// What one probe command of the manifest printed (HAR-003).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ProbeReport {
    /// Its arguments, as in the manifest.
    pub args: Vec<String>,
    /// Exit code; none if it was killed after 15 s or could not start.
    #[cfg_attr(feature = "component", component(name = "exit-code"))]
    pub exit_code: Option<i32>,
    /// Standard output, at most 1 MiB.
    pub stdout: String,
}

/// What the adapter reads from it. The host compares the version with the manifest's range (HAR-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ProbeVerdict {
    /// The exact version, or none if the output is not understood.
    pub version: Option<String>,
    /// Fixed code if it cannot be used, such as `program_unusable`.
    pub problem: Option<String>,
    /// Abilities that this installation lacks; a probe only narrows (CAP-006).
    pub withheld: Vec<String>,
}
