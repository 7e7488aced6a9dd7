//! Reads an agent out of a request body, reporting the first violation in the rule's order (S-AG-3 to S-AG-7).

use super::options::{Format, MultiAgent, Reasoning, ServiceTier, Text};
use super::{AgentPatch, ExtensionPatch, MAX_NAME, tools};
use crate::invalid::{Invalid, Path};
use crate::json::{FREE_FORM, Field, Json, Object};
use crate::metadata::Metadata;
use crate::model::ProviderBundle;

/// Which request the agent is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentShape {
    /// `POST /agents`.
    Create,
    /// `POST /agents/{agent_id}`.
    Update,
    /// The member `agent` of Session create.
    Inline,
}

const SAVED: &[&str] = &[
    "model",
    "instructions",
    "metadata",
    "multi_agent",
    "name",
    "reasoning",
    "service_tier",
    "text",
    "tools",
    "x_agents_core",
];
const INLINE: &[&str] = &[
    "model",
    "instructions",
    "multi_agent",
    "reasoning",
    "service_tier",
    "text",
    "tools",
    "x_agents_core",
];

/// Reads an agent. Metadata values of another kind are the caller's to report first (W-META-2).
///
/// # Errors
/// E400-03 to E400-16 with the path of the member.
pub fn parse(json: Json<'_>, path: &Path, shape: AgentShape) -> Result<AgentPatch, Invalid> {
    let known = if shape == AgentShape::Inline {
        INLINE
    } else {
        SAVED
    };
    let object = Object::open(json, path, known)?;
    let mut patch = AgentPatch::default();
    for (name, value, path) in object.iter() {
        match name {
            "model" => patch.model = Some(parse_model(value, &path)?),
            "name" => patch.name = Field::read(value, |value| parse_name(value, &path))?,
            "instructions" => {
                patch.instructions = Field::read(value, |value| value.to_text(&path))?
            }
            "metadata" => patch.metadata = Metadata::field(value, &path)?,
            "multi_agent" => {
                patch.multi_agent = Field::read(value, |value| MultiAgent::parse(value, &path))?
            }
            "reasoning" => {
                patch.reasoning = Field::read(value, |value| Reasoning::parse(value, &path))?
            }
            "service_tier" => {
                patch.service_tier = Field::read(value, |value| ServiceTier::parse(value, &path))?
            }
            "text" => patch.text = Field::read(value, |value| Text::parse(value, &path))?,
            "tools" => {
                patch.tools = Field::read(value, |value| tools::parse_tools(value, &path, shape))?
            }
            _ => {
                patch.extension = Field::read(value, |value| parse_extension(value, &path, shape))?
            }
        }
    }
    if shape == AgentShape::Create {
        object.required(patch.model.as_ref(), "model")?;
    }
    if let Field::Value(tools) = &patch.tools {
        tools::check_whole(tools)?;
    }
    if let Field::Value(Text {
        format: Format::JsonSchema(schema),
        ..
    }) = &patch.text
        && let Some(root) = tools::foreign_root(schema)
    {
        return Err(Invalid::output_schema(&root));
    }
    Ok(patch)
}

/// Any id of a provider, but not a blank one: it would name no model wherever it is used.
fn parse_model(json: Json<'_>, path: &Path) -> Result<String, Invalid> {
    let model = json.to_text(path)?;
    match model.trim().is_empty() {
        false => Ok(model),
        true => Err(Invalid::empty(path)),
    }
}

fn parse_name(json: Json<'_>, path: &Path) -> Result<String, Invalid> {
    let name = json.to_text(path)?;
    let length = name.chars().count();
    if length > MAX_NAME {
        Err(Invalid::too_long("name", MAX_NAME, length))
    } else {
        Ok(name)
    }
}

/// S-AG-14, S-AG-15; MDL-020 to MDL-026; SLC-002.
fn parse_extension(
    json: Json<'_>,
    path: &Path,
    shape: AgentShape,
) -> Result<ExtensionPatch, Invalid> {
    let inline = shape == AgentShape::Inline;
    let known: &[&str] = if inline {
        &["harness", "harness_config"]
    } else {
        &["harness", "model_provider", "harness_config"]
    };
    let object = Object::open(json, path, known)?;
    if inline && object.is_empty() {
        return Err(Invalid::empty(path));
    }
    let mut extension = ExtensionPatch::default();
    for (name, value, path) in object.iter() {
        match name {
            "harness" if shape == AgentShape::Update => {
                extension.harness = Field::Value(value.to_text(&path)?)
            }
            "harness" => extension.harness = Field::read(value, |value| value.to_text(&path))?,
            "model_provider" => {
                extension.model_provider =
                    Field::read(value, |value| ProviderBundle::parse(value, &path))?;
            }
            _ => extension.harness_config = Some(value.to_opaque_object(&path, FREE_FORM)?),
        }
    }
    Ok(extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{AgentConfiguration, Tool};

    fn create(text: &str) -> Result<AgentPatch, Invalid> {
        parse(Json::new(text), &Path::root(), AgentShape::Create)
    }

    fn refused(text: &str) -> (String, Option<String>) {
        let invalid = create(text).expect_err(text);
        assert_eq!(invalid.code, crate::invalid::InvalidCode::Shape);
        (invalid.message, invalid.param)
    }

    fn at(message: &str, param: &str) -> (String, Option<String>) {
        (message.to_owned(), Some(param.to_owned()))
    }

    #[test]
    fn fills_every_default() {
        // S-AG-1
        let saved = AgentConfiguration::from_patch(create(r#"{"model":"m"}"#).unwrap(), "m".into());
        let stored = serde_json::to_value(&saved).unwrap();
        assert_eq!(
            stored,
            serde_json::json!({
                "model": "m", "instructions": null,
                "multi_agent": {"enabled": false, "max_concurrent_subagents": null},
                "reasoning": {"effort": null, "summary": null}, "service_tier": "auto",
                "text": {"format": "text", "verbosity": "medium"}, "tools": []
            })
        );
    }

    #[test]
    fn null_is_a_default_where_it_is_legal() {
        let text = r#"{"model":"m","instructions":null,"metadata":null,"multi_agent":null,"name":null,"reasoning":null,
            "service_tier":null,"text":{"format":null,"verbosity":null},"tools":null}"#;
        let saved = AgentConfiguration::from_patch(create(text).unwrap(), "m".into());
        assert_eq!(
            saved,
            AgentConfiguration::from_patch(create(r#"{"model":"m"}"#).unwrap(), "m".into())
        );
    }

    #[test]
    fn reports_unknown_members_then_values_then_missing_ones() {
        // S-AG-4
        assert_eq!(
            refused(r#"{"model":5,"Tools":[]}"#),
            at("Unknown parameter: 'Tools'.", "Tools")
        );
        assert_eq!(
            refused(r#"{"service_tier":"x","reasoning":5}"#),
            at(
                "Invalid value: 'x'. Supported values are: 'auto', 'default', 'flex', 'priority', and 'fast'.",
                "service_tier"
            )
        );
        assert_eq!(
            refused("{}"),
            at("Missing required parameter: 'model'.", "model")
        );
        assert_eq!(
            refused(r#"{"model":null}"#),
            at(
                "Invalid type for 'model': expected a string, but got null instead.",
                "model"
            )
        );
        assert_eq!(
            refused(r#"{"model":"m","tool_choice":1}"#),
            at("Unknown parameter: 'tool_choice'.", "tool_choice")
        );
        assert_eq!(
            refused(r#"{"model":"m","reasoning":{"Effort":"low"}}"#),
            at("Unknown parameter: 'reasoning.Effort'.", "reasoning.Effort")
        );
    }

    #[test]
    fn a_tools_type_comes_before_its_members() {
        // S-AG-4
        assert_eq!(
            refused(r#"{"model":"m","tools":[{"name":5}]}"#),
            at(
                "Missing required parameter: 'tools[0].type'.",
                "tools[0].type"
            )
        );
        assert_eq!(
            refused(r#"{"model":"m","tools":[{"x":1,"type":"function"}]}"#),
            at("Unknown parameter: 'tools[0].x'.", "tools[0].x")
        );
        assert_eq!(
            refused(r#"{"model":"m","tools":[{"type":"function","parameters":[],"name":5}]}"#),
            at(
                "Invalid type for 'tools[0].parameters': expected an object with string keys and unknown value values, \
                 but got an array instead.",
                "tools[0].parameters"
            )
        );
        assert_eq!(
            refused(r#"{"model":"m","tools":[{"type":"function"}]}"#),
            at(
                "Missing required parameter: 'tools[0].name'.",
                "tools[0].name"
            )
        );
        assert_eq!(
            refused(r#"{"model":"m","multi_agent":{"enabled":true,"max_concurrent_subagents":0}}"#),
            at(
                "Invalid 'multi_agent.max_concurrent_subagents': integer below minimum value. Expected a value >= 1, but \
                 got 0 instead.",
                "multi_agent.max_concurrent_subagents"
            )
        );
    }

    #[test]
    fn the_whole_object_is_checked_before_repeats_and_roots() {
        // S-AG-4, E400-08 to E400-10
        let function = |name: &str, root: &str| {
            format!(
                r#"{{"type":"function","name":"{name}","description":"","parameters":{{"type":"{root}"}}}}"#
            )
        };
        let twice = format!("{},{}", function("f", "array"), function("f", "object"));
        assert_eq!(
            refused(&format!(
                r#"{{"model":"m","tools":[{twice}],"text":{{"verbosity":"x"}}}}"#
            ))
            .1
            .as_deref(),
            Some("text.verbosity")
        );
        assert_eq!(
            refused(&format!(r#"{{"model":"m","tools":[{twice}]}}"#)),
            ("duplicate function tool name: f".into(), None)
        );
        assert_eq!(
            refused(&format!(
                r#"{{"model":"m","text":{{"format":{{"type":"json_schema","schema":{{"type":"array"}}}}}},"tools":[{}]}}"#,
                function("g", "array")
            ))
            .0,
            "Invalid schema for function 'g': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'."
        );
        assert_eq!(
            refused(r#"{"model":"m","text":{"format":{"type":"json_schema","schema":{"type":"array"}}}}"#).0,
            "agent.text.format.schema must have top-level type \"object\"; got \"array\""
        );
        let search = r#"{"type":"web_search"}"#;
        assert_eq!(
            refused(&format!(r#"{{"model":"m","tools":[{search},{search}]}}"#)),
            ("duplicate web_search tool".into(), None)
        );
        // S-AG-6: no root type, or an array as type, is accepted.
        create(r#"{"model":"m","text":{"format":{"type":"json_schema","schema":{"type":["array","null"]}}}}"#).unwrap();
    }

    #[test]
    fn tools_keep_their_bytes_and_get_their_defaults() {
        // S-AG-1, W-BODY-14
        let text = r#"{"model":"m","tools":[{"type":"function","name":"f","description":"d","parameters":{"maximum":1.10}},
            {"type":"web_search","location":{}},{"type":"programmatic_tool_calling"},{"type":"tool_search"},
            {"type":"mcp","server_label":"l","transport":{"type":"http","server_url":"https://x"}}]}"#;
        let Field::Value(tools) = create(text).unwrap().tools else {
            panic!()
        };
        let stored = serde_json::to_string(&tools).unwrap();
        assert_eq!(
            stored,
            r#"[{"function":{"name":"f","description":"d","parameters":{"maximum":1.10},"defer_loading":false}},{"web_search":{"allowed_domains":null,"context_size":"medium","location":{"city":null,"country":null,"region":null,"timezone":null},"mode":"live"}},{"programmatic_tool_calling":{"enabled":true}},"tool_search",{"mcp":{"server_label":"l","transport":{"http":{"server_url":"https://x","headers":{}}},"allowed_tools":null,"connection_origin":"service","credential_id":null,"request_metadata":{},"required":false}}]"#
        );
        assert_eq!(serde_json::from_str::<Vec<Tool>>(&stored).unwrap(), tools);
    }

    #[test]
    fn an_inline_agent_has_no_name_metadata_or_provider() {
        let inline = |text: &str| {
            parse(
                Json::new(text),
                &Path::root().member("agent"),
                AgentShape::Inline,
            )
            .unwrap_err()
            .message
        };
        assert_eq!(
            inline(r#"{"name":"n"}"#),
            "Unknown parameter: 'agent.name'."
        );
        assert_eq!(
            inline(r#"{"x_agents_core":{"model_provider":{}}}"#),
            "Unknown parameter: 'agent.x_agents_core.model_provider'."
        );
        assert_eq!(
            inline(r#"{"x_agents_core":{}}"#),
            "'agent.x_agents_core' must not be empty."
        );
    }

    #[test]
    fn the_extension_tells_null_from_omission() {
        // S-AG-15, W-BODY-12
        let update = |text: &str| parse(Json::new(text), &Path::root(), AgentShape::Update);
        assert_eq!(
            update(r#"{"x_agents_core":null}"#)
                .unwrap()
                .extension
                .value()
                .map(|_| ()),
            None
        );
        assert_eq!(
            update(r#"{"x_agents_core":{"harness":null}}"#)
                .unwrap_err()
                .message,
            "Invalid type for 'x_agents_core.harness': expected a string, but got null instead."
        );
        assert!(update(r#"{"x_agents_core":{"harness_config":null}}"#).is_err());
        assert!(update(r#"{"x_agents_core":{"node":"x"}}"#).is_err());
    }

    #[test]
    fn a_blank_model_names_none_in_every_shape() {
        for shape in [AgentShape::Create, AgentShape::Update, AgentShape::Inline] {
            for text in [r#"{"model":""}"#, r#"{"model":" \n"}"#] {
                let invalid = parse(Json::new(text), &Path::root(), shape).unwrap_err();
                assert_eq!(invalid, Invalid::empty(&Path::root().member("model")));
            }
        }
    }

    #[test]
    fn names_are_counted_in_characters() {
        // S-AG-9
        create(&format!(r#"{{"model":"m","name":"{}"}}"#, "é".repeat(128))).unwrap();
        assert_eq!(
            refused(&format!(r#"{{"model":"m","name":"{}"}}"#, "é".repeat(129))),
            at(
                "Invalid 'name': string too long. Expected a string with maximum length 128, but got a string with length \
                 129 instead.",
                "name"
            )
        );
    }
}
