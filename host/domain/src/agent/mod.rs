//! Agent configuration: what a caller may ask an agent to be, and what is saved of it (`sessions.md` 1).
//!
//! [`AgentPatch`] is a request (three-valued members), [`AgentConfiguration`] the resolved values that are stored, frozen into
//! Sessions and shown. Values that the shapes allow are saved even if nothing can run them (S-AG-8); what can run is decided
//! by [`admission`] when a Session is made.

pub mod admission;
mod functions;
mod merge;
mod options;
mod parameters;
mod parse;
pub mod tools;

use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::json::{Field, Opaque};
use crate::metadata::Metadata;
use crate::model::{ProviderBundle, ProviderView};
use crate::secret::Secret;
use crate::time::Timestamp;

pub use merge::{Effective, KeyChange};
pub use options::{Effort, Format, MultiAgent, Reasoning, ServiceTier, Summary, Text, Verbosity};
pub use parse::{AgentShape, parse};
pub use tools::Tool;

/// Longest name of a saved Agent, in characters (S-AG-9).
pub const MAX_NAME: usize = 128;

/// The configuration of an agent with every default filled in (S-AG-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfiguration {
    /// Exact model id of the provider (MDL-005).
    pub model: String,
    /// Appended to the harness's own instructions.
    pub instructions: Option<String>,
    /// Subagents.
    pub multi_agent: MultiAgent,
    /// Reasoning options; nothing is invented for unset ones.
    pub reasoning: Reasoning,
    /// Service tier.
    pub service_tier: ServiceTier,
    /// Output text options.
    pub text: Text,
    /// Tools, in the caller's order.
    pub tools: Vec<Tool>,
}

/// What a request says about an agent. Its serialized form is the canonical one for retry identities: member order does not
/// matter, omission and null differ, opaque parts keep their bytes.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs, reason = "the members of api-surface 4")]
pub struct AgentPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub name: Field<String>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub instructions: Field<String>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub metadata: Field<Metadata>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub multi_agent: Field<MultiAgent>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub reasoning: Field<Reasoning>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub service_tier: Field<ServiceTier>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub text: Field<Text>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub tools: Field<Vec<Tool>>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub extension: Field<ExtensionPatch>,
}

impl AgentPatch {
    /// The key of its provider, which is no part of the canonical form (W-IDEM-7).
    pub fn provider_key(&self) -> Option<&Secret> {
        let extension = self.extension.as_ref().value()?;
        let bundle = extension.model_provider.as_ref().value()?;
        Some(&bundle.api_key)
    }
}

/// The server's extension `x_agents_core` in a request about an agent (S-AG-14).
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExtensionPatch {
    /// Harness id; null only where a rule gives it a meaning.
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub harness: Field<String>,
    /// Complete provider bundle (saved Agents only).
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub model_provider: Field<ProviderBundle>,
    /// Native parameters: replaces the whole object, `{}` clears, null is invalid (NAT-006).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness_config: Option<Opaque>,
}

/// The extension as saved and shown; the provider's key is kept sealed beside it (MDL-028).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentExtension {
    /// Selected harness.
    pub harness: Option<String>,
    /// Provider without its key.
    pub model_provider: Option<ProviderView>,
    /// Native parameters.
    pub harness_config: Option<Opaque>,
}

impl AgentExtension {
    /// Nothing chosen: the Agent does not carry the extension.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A saved Agent of a Project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedAgent {
    /// Its id.
    pub id: AgentId,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last accepted update.
    pub updated_at: Timestamp,
    /// Label.
    pub name: Option<String>,
    /// Opaque pairs.
    pub metadata: Metadata,
    /// Resolved configuration.
    pub configuration: AgentConfiguration,
    /// The server's extension.
    pub extension: AgentExtension,
}
