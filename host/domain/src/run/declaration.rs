//! What a harness is able to do, as data. Core and Runtime both read it; admission reads nothing else (CAP-005, S-HAR-1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};
use sha2::{Digest, Sha256};

use super::capability::{Abilities, Capability, CapabilityFlags, Placement};
use super::configuration::ModelProtocol;
use super::plugin::PluginIdentity;

/// Value of `x_agents_core.harness`: `[a-z0-9_]{1,32}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct HarnessId(String);

/// The text is not a harness id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a harness id is 1 to 32 of a-z, 0-9 and _")]
pub struct InvalidHarnessId;

impl HarnessId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HarnessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HarnessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HarnessId({})", self.0)
    }
}

impl FromStr for HarnessId {
    type Err = InvalidHarnessId;

    fn from_str(text: &str) -> Result<Self, InvalidHarnessId> {
        let fits = (1..=32).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidHarnessId)
        }
    }
}

impl<'de> Deserialize<'de> for HarnessId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Abilities that cannot be used together (CAP-001, CAP-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// This one …
    pub ability: Capability,
    /// … excludes these.
    pub excludes: Vec<Capability>,
}

/// Limits of public functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionLimits {
    /// At most 64 (CAP-008).
    pub max_count: u32,
    /// At most 512.
    pub max_name_bytes: u32,
    /// Regular expression that a whole name must match, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[serde(deny_unknown_fields)]
pub struct McpLimits {
    /// Regular expression for a whole label, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_pattern: Option<String>,
    /// Labels that are taken.
    pub reserved_labels: Vec<String>,
    /// Regular expression for a whole tool name, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[serde(deny_unknown_fields)]
pub struct MessageLimits {
    /// Media types of pictures; empty = text only.
    pub images: Vec<String>,
    /// Text of white space only is taken (S-MSG-6).
    pub whitespace_only: bool,
    /// Messages of one Turn, or none (S-MSG-9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages_per_turn: Option<u32>,
}

/// What a cancel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancellation {
    /// A confirmed cancel leaves the process usable (TRN-006).
    pub keeps_process: bool,
    /// The harness settles within so many milliseconds, at most 8 000 (TRN-007, F01).
    pub settles_within_ms: u32,
}

/// How history is found when no native id was recorded (HIS-001 to HIS-006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryRecovery {
    /// It is not: `recover` is refused.
    Unsupported,
    /// The program lists its sessions; exactly one may fit.
    NativeListing,
    /// The adapter reads the private home; exactly one may fit.
    HomeFiles,
}

/// Model side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSupport {
    /// Protocols that it speaks; the default first.
    pub protocols: Vec<ModelProtocol>,
    /// Context window and output limit must be given.
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

/// One harness as its adapter declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HarnessDeclaration {
    /// Its id.
    pub id: HarnessId,
    /// For people.
    pub display_name: String,
    /// The enabled declaration with the lowest one is the default; Codex has 0.
    pub rank: u32,
    /// Name of the manifest's install entry.
    pub install: String,
    /// Abilities, every name in every placement.
    pub abilities: Abilities,
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
    /// A session without work may be kept so many seconds before its process is closed; a smaller limit of the host wins.
    pub idle_s: u32,
    /// A Turn without any content for so many seconds fails (F03).
    pub silence_limit_s: u32,
    /// Longest Turn in seconds (F03); 0 = the deployment's.
    pub turn_limit_s: u32,
}

impl HarnessDeclaration {
    /// What Core and Runtime compare: SHA-256 over the declaration's one JSON spelling. Both sides hold the same adapter if
    /// the hashes are equal (architecture 10).
    pub fn hash(&self) -> DeclarationHash {
        // The declaration holds only strings, integers and lists, so writing it cannot fail; an empty text would only make
        // the two sides unequal.
        let text = serde_json::to_vec(self).unwrap_or_default();
        DeclarationHash(hex::encode(Sha256::digest(&text)))
    }

    /// The flags of one placement; what the Runtime adds by itself is passed in `runtime` and never taken from the adapter.
    pub fn flags(&self, placement: Placement, runtime: &[Capability]) -> CapabilityFlags {
        let mut flags = CapabilityFlags::NONE;
        for capability in Capability::ALL {
            let offered = match self.abilities.get(*capability) {
                Some(support) => support.at(placement).offered(),
                None => runtime.contains(capability),
            };
            flags.set(*capability, offered);
        }
        flags
    }
}

/// Hash of a declaration: 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct DeclarationHash(String);

impl DeclarationHash {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for DeclarationHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() == 64
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        {
            Ok(Self(text))
        } else {
            Err(de::Error::custom(
                "a declaration hash is 64 lower-case hexadecimal digits",
            ))
        }
    }
}

/// One harness as a connected Runtime offers it (RP-7.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HarnessOffer {
    /// Which.
    pub id: HarnessId,
    /// Version of the installed program, as probed; empty when it is not available.
    pub version: String,
    /// Version of the plugin contract that its adapter was written against.
    pub contract: String,
    /// Hash of the adapter's declaration.
    pub declaration_hash: DeclarationHash,
    /// The plugin that the adapter comes from; none where the Runtime is older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginIdentity>,
    /// The program can be started.
    pub available: bool,
    /// Fixed code of why not, such as `program_missing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What this Runtime offers with it.
    pub capabilities: CapabilityFlags,
}

impl HarnessOffer {
    /// `later` is this offer or less (CAP-006).
    pub fn narrowed_by(&self, later: &HarnessOffer) -> bool {
        self.id == later.id
            && self.version == later.version
            && self.contract == later.contract
            && self.declaration_hash == later.declaration_hash
            && self.plugin == later.plugin
            && (self.available || !later.available)
            && self.capabilities.narrowed_by(&later.capabilities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harness_ids_are_checked() {
        assert!("codex".parse::<HarnessId>().is_ok());
        assert!("claude_code".parse::<HarnessId>().is_ok());
        for wrong in ["", "Codex", "a-b", "ä", &"x".repeat(33)] {
            assert_eq!(wrong.parse::<HarnessId>(), Err(InvalidHarnessId), "{wrong}");
        }
    }
}
