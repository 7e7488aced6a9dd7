//! The request that creates a Session: its members, their defaults, and the identity by which a retry is recognised
//! (`sessions.md` 2.1, `wire.md` 10).

mod environment;

use serde::Serialize;

use crate::agent::{self, AgentConfiguration, AgentPatch, AgentShape, Tool};
use crate::content;
use crate::invalid::{Invalid, Path};
use crate::item::UserMessage;
use crate::json::{FREE_FORM, Field, Json, Object, Opaque};
use crate::metadata::Metadata;
use crate::model::ProviderBundle;

pub use environment::{EnvironmentRequest, HostedRequest};

/// Most Vaults of one Session.
const MAX_VAULTS: usize = 100;

/// A parsed creation. Its serialized form is canonical: defaults of the placement are filled in, so the omitted environment,
/// `hosted` and `openai_hosted` are one request (`wire.md` WC1); `stream` is not part of it (W-IDEM-4), and the provider's key
/// enters an identity apart, as a fingerprint (W-IDEM-7).
#[derive(Debug, Clone, Serialize)]
pub struct SessionCreation {
    /// Where it runs.
    pub environment: EnvironmentRequest,
    /// The saved Agent named, as text: it may name nothing (W-ID-4).
    pub agent_id: Option<String>,
    /// Inline members.
    pub agent: AgentPatch,
    /// First messages; empty = none.
    pub input: Vec<UserMessage>,
    /// Opaque pairs.
    pub metadata: Metadata,
    /// Vaults to attach, as text: they may name nothing (W-ID-4).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vault_ids: Vec<String>,
    /// The Session's own extension.
    pub extension: SessionExtension,
    /// Answer with the event stream.
    #[serde(skip)]
    pub stream: bool,
}

/// `x_agents_core` of a creation (MDL-023 to MDL-026).
#[derive(Debug, Clone, Default, Serialize)]
pub struct SessionExtension {
    /// Complete provider bundle.
    pub model_provider: Option<ProviderBundle>,
    /// Native parameters.
    pub harness_config: Option<Opaque>,
}

impl SessionCreation {
    /// Reads the body in the order of S-SES-7: body and metadata types, members with the inline Agent, initial input, then
    /// the input that a placement needs.
    ///
    /// # Errors
    /// E400-03 to E400-26 with the path of the member.
    pub fn parse(body: Json<'_>) -> Result<Self, Invalid> {
        Metadata::check_values(body)?;
        const KNOWN: &[&str] = &[
            "environment",
            "agent_id",
            "agent",
            "input",
            "metadata",
            "vault_ids",
            "stream",
            "x_agents_core",
        ];
        let object = Object::open(body, &Path::root(), KNOWN)?;
        let mut creation = Self {
            environment: EnvironmentRequest::hosted(),
            agent_id: None,
            agent: AgentPatch::default(),
            input: Vec::new(),
            metadata: Metadata::default(),
            vault_ids: Vec::new(),
            extension: SessionExtension::default(),
            stream: false,
        };
        let (mut input, mut portable) = (None, None);
        for (name, value, path) in object.iter() {
            match name {
                "environment" => creation.environment = EnvironmentRequest::parse(value, &path)?,
                "agent_id" => creation.agent_id = Some(value.to_text(&path)?),
                "agent" => creation.agent = agent::parse(value, &path, AgentShape::Inline)?,
                "input" => input = (!value.is_null()).then_some((value, path)),
                "metadata" => {
                    creation.metadata = Metadata::field(value, &path)?.value().unwrap_or_default()
                }
                "vault_ids" => creation.vault_ids = vaults(value, &path)?,
                "stream" => creation.stream = value.to_bool(&path)?,
                _ => {
                    let (extension, environment) = SessionExtension::parse(value, &path)?;
                    creation.extension = extension;
                    portable = environment;
                }
            }
        }
        if let Some((value, path)) = portable {
            creation.environment.add_portable(value, &path)?;
        }
        creation.environment.settle();
        if let Some((value, path)) = input {
            creation.input = content::parse_initial(value, &path)?;
        }
        if creation.environment == EnvironmentRequest::None && creation.input.is_empty() {
            return Err(Invalid::input_required());
        }
        Ok(creation)
    }
}

/// What a retry of a creation is compared by (W-IDEM-6).
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum CreationIdentity<'a> {
    /// As sent: what it names may change or vanish.
    Sent(&'a SessionCreation),
    /// Resolved: it names nothing, so whatever fills in the same is the same.
    Resolved {
        /// Where it runs.
        environment: &'a EnvironmentRequest,
        /// The whole configuration of its Agent.
        agent: Box<AgentConfiguration>,
        /// First messages.
        input: &'a [UserMessage],
        /// Opaque pairs.
        metadata: &'a Metadata,
    },
}

impl SessionCreation {
    /// The identity by which a retry is recognised.
    pub fn identity(&self) -> CreationIdentity<'_> {
        match &self.agent.model {
            Some(model) if self.names_nothing() => CreationIdentity::Resolved {
                environment: &self.environment,
                agent: Box::new(AgentConfiguration::from_patch(
                    self.agent.clone(),
                    model.clone(),
                )),
                input: &self.input,
                metadata: &self.metadata,
            },
            _ => CreationIdentity::Sent(self),
        }
    }

    /// No saved Agent, Vault, Credential or extension, and no Environment.
    fn names_nothing(&self) -> bool {
        let credential =
            |tool: &Tool| matches!(tool, Tool::Mcp(server) if server.credential_id.is_some());
        let tools = self.agent.tools.as_ref().value();
        self.environment == EnvironmentRequest::None
            && self.agent_id.is_none()
            && self.agent.extension.is_omitted()
            && self.vault_ids.is_empty()
            && self.extension.model_provider.is_none()
            && self.extension.harness_config.is_none()
            && !tools.is_some_and(|tools| tools.iter().any(credential))
    }
}

impl SessionExtension {
    /// Reads it; what belongs to the Environment comes back with its path.
    fn parse<'a>(json: Json<'a>, path: &Path) -> Result<(Self, Option<(Json<'a>, Path)>), Invalid> {
        let mut extension = Self::default();
        let mut environment = None;
        if json.is_null() {
            return Ok((extension, None)); // MDL-023
        }
        let object = Object::open(
            json,
            path,
            &["model_provider", "harness_config", "environment"],
        )?;
        if object.is_empty() {
            return Err(Invalid::empty(path)); // MDL-025
        }
        for (name, value, path) in object.iter() {
            match name {
                "model_provider" => {
                    extension.model_provider =
                        Field::read(value, |value| ProviderBundle::parse(value, &path))?.value();
                }
                "harness_config" => {
                    extension.harness_config = Some(value.to_opaque_object(&path, FREE_FORM)?)
                }
                _ => environment = (!value.is_null()).then_some((value, path)),
            }
        }
        Ok((extension, environment))
    }
}

/// `null` and `[]` attach none; a `null` entry is a type error (W-BODY-12, SEL-001).
fn vaults(json: Json<'_>, path: &Path) -> Result<Vec<String>, Invalid> {
    let named = Field::read(json, |json| json.to_texts(path))?;
    let named = named.value().unwrap_or_default();
    match named.len() <= MAX_VAULTS {
        true => Ok(named),
        false => Err(Invalid::request()),
    }
}

#[cfg(test)]
mod tests;
