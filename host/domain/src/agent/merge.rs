//! How requests become configurations: creation, update, and the effective agent of a Session.

use super::{AgentConfiguration, AgentExtension, AgentPatch, SavedAgent};
use crate::json::{Field, Opaque};
use crate::metadata::Metadata;
use crate::model::ProviderBundle;
use crate::secret::Secret;
use crate::time::Timestamp;

/// What an update does to the sealed provider key of an Agent.
#[derive(Debug)]
pub enum KeyChange {
    /// It stays.
    Keep,
    /// It goes with its bundle.
    Clear,
    /// It is replaced with its bundle.
    Replace(Secret),
}

impl AgentConfiguration {
    /// A new configuration: omitted and null members get their defaults (S-AG-1).
    pub fn from_patch(patch: AgentPatch, model: String) -> Self {
        Self {
            model,
            instructions: patch.instructions.value(),
            multi_agent: patch.multi_agent.value().unwrap_or_default(),
            reasoning: patch.reasoning.value().unwrap_or_default(),
            service_tier: patch
                .service_tier
                .value()
                .unwrap_or(super::ServiceTier::Auto),
            text: patch.text.value().unwrap_or_default(),
            tools: patch.tools.value().unwrap_or_default(),
        }
    }

    /// Changes only the members sent; a nested object replaces the whole member, null resets to the default (S-AG-10).
    #[must_use]
    pub fn updated(mut self, patch: AgentPatch) -> Self {
        fn set<T: Default>(member: &mut T, field: Field<T>) {
            match field {
                Field::Omitted => {}
                Field::Null => *member = T::default(),
                Field::Value(value) => *member = value,
            }
        }
        if let Some(model) = patch.model {
            self.model = model;
        }
        match patch.instructions {
            Field::Omitted => {}
            other => self.instructions = other.value(),
        }
        set(&mut self.multi_agent, patch.multi_agent);
        set(&mut self.reasoning, patch.reasoning);
        set(&mut self.text, patch.text);
        set(&mut self.tools, patch.tools);
        match patch.service_tier {
            Field::Omitted => {}
            other => self.service_tier = other.value().unwrap_or(super::ServiceTier::Auto),
        }
        self
    }
}

impl SavedAgent {
    /// Applies an update at `now`; an empty one only moves `updated_at` (W-TIME-2, S-AG-10, S-AG-15).
    pub fn update(&mut self, mut patch: AgentPatch, now: Timestamp) -> KeyChange {
        let model_changed = patch
            .model
            .as_ref()
            .is_some_and(|model| *model != self.configuration.model);
        match std::mem::take(&mut patch.name) {
            Field::Omitted => {}
            other => self.name = other.value(),
        }
        match std::mem::take(&mut patch.metadata) {
            Field::Omitted => {}
            other => self.metadata = other.value().unwrap_or_else(Metadata::default),
        }
        let extension = std::mem::take(&mut patch.extension);
        self.configuration = self.configuration.clone().updated(patch);
        self.updated_at = now;
        let (key, parameters, extension_changed) = self.extension.update(extension);
        match parameters {
            Some(parameters) => self.extension.harness_config = some_parameters(parameters),
            // NAT-007: native parameters belong to the model and harness they were chosen for.
            None if model_changed || extension_changed => self.extension.harness_config = None,
            None => {}
        }
        key
    }
}

impl AgentExtension {
    /// The extension of a new Agent, and its provider key.
    pub fn from_patch(patch: Field<super::ExtensionPatch>) -> (Self, Option<Secret>) {
        let mut extension = Self::default();
        let (key, parameters, _) = extension.update(patch);
        extension.harness_config = parameters.and_then(some_parameters);
        let key = match key {
            KeyChange::Replace(key) => Some(key),
            KeyChange::Keep | KeyChange::Clear => None,
        };
        (extension, key)
    }

    /// Applies harness and provider; answers what happens to the key, the parameters sent, and whether either changed.
    fn update(&mut self, patch: Field<super::ExtensionPatch>) -> (KeyChange, Option<Opaque>, bool) {
        let patch = match patch {
            Field::Omitted => return (KeyChange::Keep, None, false),
            Field::Null => {
                // MDL-020: null clears harness and provider with its secret.
                let changed = !self.is_empty();
                *self = Self::default();
                return (KeyChange::Clear, None, changed);
            }
            Field::Value(patch) => patch,
        };
        let mut changed = false;
        if let Field::Value(harness) = patch.harness {
            changed |= self.harness.as_ref() != Some(&harness);
            self.harness = Some(harness);
        }
        let key = match patch.model_provider {
            Field::Omitted => KeyChange::Keep,
            Field::Null => {
                changed |= self.model_provider.is_some();
                self.model_provider = None;
                KeyChange::Clear
            }
            Field::Value(ProviderBundle { view, api_key }) => {
                // A new key is a new choice even for the same endpoint.
                changed = true;
                self.model_provider = Some(view);
                KeyChange::Replace(api_key)
            }
        };
        (key, patch.harness_config, changed)
    }
}

/// `{}` clears (NAT-006).
fn some_parameters(parameters: Opaque) -> Option<Opaque> {
    parameters
        .json()
        .members()
        .is_some_and(|members| !members.is_empty())
        .then_some(parameters)
}

/// The agent of a Session before execution admission: saved members overridden whole by the inline ones.
#[derive(Debug)]
pub struct Effective {
    /// Name of the saved Agent at this moment.
    pub name: Option<String>,
    /// Configuration; the model may still be empty.
    pub configuration: AgentConfiguration,
    /// Model named by the request or the saved Agent; absent = the deployment default may supply it (MDL-034).
    pub model: Option<String>,
}

impl Effective {
    /// Resolves the inline agent over the saved one (sessions 2.1: omitted inherits, `tools:null` clears).
    pub fn resolve(saved: Option<&SavedAgent>, inline: AgentPatch) -> Self {
        let model = inline
            .model
            .clone()
            .or_else(|| saved.map(|saved| saved.configuration.model.clone()));
        let name = saved.and_then(|saved| saved.name.clone());
        let configuration = match saved {
            Some(saved) => saved.configuration.clone().updated(inline),
            None => AgentConfiguration::from_patch(inline, model.clone().unwrap_or_default()),
        };
        Self {
            name,
            configuration,
            model,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{AgentShape, parse};
    use crate::id::AgentId;
    use crate::invalid::Path;
    use crate::json::Json;

    fn patch(text: &str, shape: AgentShape) -> AgentPatch {
        parse(Json::new(text), &Path::root(), shape).unwrap()
    }

    fn saved(text: &str) -> SavedAgent {
        let mut patch = patch(text, AgentShape::Create);
        let (extension, _) = AgentExtension::from_patch(std::mem::take(&mut patch.extension));
        let model = patch.model.clone().unwrap();
        SavedAgent {
            id: AgentId::NEVER,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
            name: patch.name.as_ref().value().cloned(),
            metadata: patch.metadata.as_ref().value().cloned().unwrap_or_default(),
            configuration: AgentConfiguration::from_patch(patch, model),
            extension,
        }
    }

    const AGENT: &str = r#"{"model":"m","name":"n","instructions":"i","metadata":{"a":"b"},
        "tools":[{"type":"tool_search"}],"x_agents_core":{"harness":"h","harness_config":{"x":1},"model_provider":
        {"protocol":"responses","base_url":"https://h/v1","api_key":"k"}}}"#;

    #[test]
    fn an_empty_update_moves_only_the_time() {
        // W-TIME-2
        let mut agent = saved(AGENT);
        let before = agent.clone();
        let key = agent.update(patch("{}", AgentShape::Update), Timestamp::from_millis(5));
        assert!(matches!(key, KeyChange::Keep));
        assert_eq!(
            agent,
            SavedAgent {
                updated_at: Timestamp::from_millis(5),
                ..before
            }
        );
    }

    #[test]
    fn null_clears_and_values_replace_whole_members() {
        // S-AG-10, W-META-3
        let mut agent = saved(AGENT);
        let text = r#"{"name":null,"instructions":null,"metadata":null,"tools":null,"reasoning":{"effort":"low"}}"#;
        agent.update(patch(text, AgentShape::Update), Timestamp::from_millis(1));
        assert_eq!((agent.name, agent.configuration.instructions), (None, None));
        assert_eq!(
            (agent.metadata, agent.configuration.tools.len()),
            (Metadata::default(), 0)
        );
        assert!(agent.configuration.reasoning.effort.is_some());
    }

    #[test]
    fn native_parameters_go_with_what_they_were_chosen_for() {
        // S-AG-15, NAT-006, NAT-007
        for (text, kept) in [
            (r#"{"instructions":"x"}"#, true),
            (r#"{"model":"m"}"#, true),
            (r#"{"model":"other"}"#, false),
            (r#"{"x_agents_core":{"harness":"other"}}"#, false),
            (r#"{"x_agents_core":{"model_provider":null}}"#, false),
            (r#"{"x_agents_core":{"harness_config":{}}}"#, false),
            (
                r#"{"model":"other","x_agents_core":{"harness_config":{"y":1}}}"#,
                true,
            ),
        ] {
            let mut agent = saved(AGENT);
            agent.update(patch(text, AgentShape::Update), Timestamp::from_millis(1));
            assert_eq!(agent.extension.harness_config.is_some(), kept, "{text}");
        }
    }

    #[test]
    fn a_null_extension_clears_everything_with_the_secret() {
        // MDL-020, MDL-021
        let mut agent = saved(AGENT);
        let key = agent.update(
            patch(r#"{"x_agents_core":null}"#, AgentShape::Update),
            Timestamp::from_millis(1),
        );
        assert!(matches!(key, KeyChange::Clear) && agent.extension.is_empty());
        let mut agent = saved(AGENT);
        let text = r#"{"x_agents_core":{"model_provider":null}}"#;
        let key = agent.update(patch(text, AgentShape::Update), Timestamp::from_millis(1));
        assert!(matches!(key, KeyChange::Clear));
        assert_eq!(
            (
                agent.extension.harness.as_deref(),
                agent.extension.model_provider
            ),
            (Some("h"), None)
        );
    }

    #[test]
    fn inline_members_override_whole() {
        // sessions 2.1
        let agent = saved(AGENT);
        let effective =
            Effective::resolve(Some(&agent), patch(r#"{"tools":null}"#, AgentShape::Inline));
        assert_eq!(effective.configuration.tools, []);
        assert_eq!(effective.configuration.instructions.as_deref(), Some("i"));
        assert_eq!(
            (effective.model.as_deref(), effective.name.as_deref()),
            (Some("m"), Some("n"))
        );
        assert_eq!(Effective::resolve(None, AgentPatch::default()).model, None);
    }
}
