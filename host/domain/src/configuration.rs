//! What a Session was created with, resolved and frozen (S-SES-12). It is written once with the Session and never changes:
//! later edits or deletions of Agents, defaults and keys do not reach it.

use serde::{Deserialize, Serialize};

use crate::AgentId;
use crate::agent::AgentConfiguration;
use crate::json::Opaque;
use crate::model::ProviderView;
use crate::run::{DeclarationHash, HarnessId};

/// The frozen configuration of a Session, without its secrets: those are sealed beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionConfiguration {
    /// The saved Agent, or the id given to the inline one (S-SES-1).
    pub agent_id: AgentId,
    /// Name of the saved Agent at creation.
    pub agent_name: Option<String>,
    /// The effective agent.
    pub agent: AgentConfiguration,
    /// The harness that runs it.
    pub harness: HarnessId,
    /// Declaration that the configuration was admitted under (RP-7.5).
    pub declaration_hash: DeclarationHash,
    /// Native parameters, an object; `{}` = none (NAT-008).
    pub harness_config: Opaque,
    /// Model provider; its key is sealed with the row. `None` only where the harness declares a model of its own (MDL-012).
    pub provider: Option<ProviderView>,
    /// Who supplied the provider (EXC-002).
    pub provider_source: Source,
    /// The effective Agent carries `x_agents_core`, so that reads show it (S-SES-6, SLC-006).
    pub shows_extension: bool,
    /// Where it runs and what is prepared there.
    pub environment: EnvironmentConfiguration,
}

/// Who chose a value (EXC-002).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The request of the Session.
    Session,
    /// The saved Agent.
    Agent,
    /// The deployment's default.
    Deployment,
    /// Nobody.
    Unknown,
}

/// Where a Session runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum EnvironmentConfiguration {
    /// Conversation only.
    None,
    /// A machine of our provider.
    OpenaiHosted(HostedConfiguration),
}

/// Preparation of a hosted machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedConfiguration {
    /// Clean absolute paths inside `/workspace`.
    pub capability_directories: Vec<String>,
    /// Resolved size: stored and shown; applied only by a provider that declares sizes (API-053, API-055).
    pub sandbox_size: SandboxSize,
    /// Resolved image id (API-063, API-067).
    pub sandbox_image: String,
}

/// Size of a hosted machine (API-050).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the words of API-050")]
pub enum SandboxSize {
    S,
    M,
    L,
}

impl SandboxSize {
    /// Every word.
    pub const WORDS: &'static [&'static str] = &["S", "M", "L"];

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "S" => Some(Self::S),
            "M" => Some(Self::M),
            "L" => Some(Self::L),
            _ => None,
        }
    }
}
