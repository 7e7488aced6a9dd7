//! What this service executes of a configuration, whatever harness runs it (`sessions.md` 2.2). The harness's own declaration
//! is checked after this.

use std::collections::HashSet;

use super::functions;
use super::tools::{self, SearchMode};
use super::{AgentConfiguration, Format, ServiceTier, Tool, Verbosity};
use crate::invalid::{Invalid, Path};
use crate::run::{Capability, HarnessDeclaration, Placement};

pub use super::parameters::check as check_parameters;

/// Most functions of one Session (S-FN-9).
const MAX_FUNCTIONS: usize = 64;
/// Longest function name, in bytes (S-FN-9).
const MAX_FUNCTION_NAME: usize = 512;

/// Whether a harness takes function tools in a placement.
pub fn takes_functions(declaration: &HarnessDeclaration, placement: Placement) -> bool {
    let ability = declaration.abilities.get(Capability::FunctionTools);
    ability.is_some_and(|ability| ability.at(placement).offered())
}

/// Checks the effective configuration of a Session: protocol errors first, also for saved Agents, then the table of
/// sessions 2.2 in its order. `functions`: the chosen harness takes function tools.
///
/// # Errors
/// E400-08 to E400-10, or E400-23 with the path of the member below `path`.
pub fn check(
    configuration: &AgentConfiguration,
    path: &Path,
    functions: bool,
) -> Result<(), Invalid> {
    tools::check_whole(&configuration.tools)?;
    if let Format::JsonSchema(schema) = &configuration.text.format
        && let Some(root) = tools::foreign_root(schema)
    {
        return Err(Invalid::output_schema(&root));
    }
    let refused = |path: Path, message: &str| Err(Invalid::unsupported(path.echo(), message));
    let reasoning = configuration.reasoning;
    if reasoning.effort.is_some() || reasoning.summary.is_some() {
        let message = "Explicit reasoning execution options are not supported by this service yet.";
        return refused(path.member("reasoning"), message);
    }
    if configuration.service_tier != ServiceTier::Auto {
        return refused(
            path.member("service_tier"),
            "Execution currently supports service_tier=auto only.",
        );
    }
    check_tools(&configuration.tools, &path.member("tools"), functions)?;
    if configuration.multi_agent.enabled {
        return refused(
            path.member("multi_agent"),
            "Subagents are not supported by this service.",
        );
    }
    if let Format::JsonSchema(_) = configuration.text.format {
        return refused(
            path.member("text").member("format"),
            "Structured output is not supported by this service.",
        );
    }
    Ok(())
}

/// Checks what the chosen harness declares for a placement (S-HAR-1, CAP-004): nothing else about a harness is read.
///
/// # Errors
/// E400-23 with the path of the member below `path`.
pub fn check_declared(
    configuration: &AgentConfiguration,
    path: &Path,
    declaration: &HarnessDeclaration,
    placement: Placement,
) -> Result<(), Invalid> {
    let offers = |capability| {
        declaration
            .abilities
            .get(capability)
            .is_some_and(|ability| ability.at(placement).offered())
    };
    let refused = |path: Path, what: &str| {
        let message = format!("The harness '{}' does not support {what}.", declaration.id);
        Err(Invalid::unsupported(path.echo(), message))
    };
    if placement == Placement::None && !offers(Capability::EnvironmentNone) {
        return refused(
            Path::root().member("environment"),
            "Sessions without an environment",
        );
    }
    let verbosity = configuration.text.verbosity.word();
    if configuration.text.verbosity != Verbosity::Medium
        && !(offers(Capability::TextVerbosity)
            && declaration
                .models
                .verbosities
                .iter()
                .any(|word| word == verbosity))
    {
        return refused(path.member("text").member("verbosity"), "this verbosity");
    }
    for (index, tool) in configuration.tools.iter().enumerate() {
        let path = path.member("tools").index(index);
        match tool {
            Tool::WebSearch(_) if !offers(Capability::WebSearchControl) => {
                return refused(path, "web_search control");
            }
            Tool::ProgrammaticToolCalling { .. }
                if !offers(Capability::ProgrammaticToolCallingDisable) =>
            {
                return refused(path, "programmatic_tool_calling control");
            }
            _ => {}
        }
    }
    functions::check(&configuration.tools, &path.member("tools"), declaration)
}

fn check_tools(tools: &[Tool], path: &Path, functions: bool) -> Result<(), Invalid> {
    let refused = |path: &Path, message: &str| Err(Invalid::unsupported(path.echo(), message));
    for (index, tool) in tools.iter().enumerate() {
        match tool {
            Tool::WebSearch(search) if search.mode != SearchMode::Disabled => {
                return refused(
                    &path.index(index),
                    "Only disabled web_search is qualified for execution.",
                );
            }
            Tool::ProgrammaticToolCalling { enabled: true } => {
                return refused(
                    &path.index(index),
                    "Only disabled programmatic_tool_calling is qualified for execution.",
                );
            }
            _ => {}
        }
    }
    check_names(tools, path)?;
    for (index, tool) in tools.iter().enumerate() {
        let message = match tool {
            Tool::Function(function) if functions && !function.defer_loading => continue,
            Tool::Function(_) if !functions => "Function tools are not supported by this service.",
            // CAP-003: nobody would find it.
            Tool::Function(_) | Tool::ToolSearch => {
                "Deferred function discovery is not supported by this service."
            }
            Tool::Mcp(_) => "MCP servers are not supported by this service.",
            Tool::ProgrammaticToolCalling { .. } | Tool::WebSearch(_) => continue,
        };
        return refused(&path.index(index), message);
    }
    Ok(())
}

fn check_names(tools: &[Tool], path: &Path) -> Result<(), Invalid> {
    let refused = |message: &str| Err(Invalid::unsupported(path.echo(), message));
    let (mut functions, mut controls, mut labels) = (0, 0, HashSet::new());
    let mut distinct_labels = true;
    let mut named = true;
    for tool in tools {
        match tool {
            Tool::Function(function) => {
                functions += 1;
                // Two of one name are no configuration at all: the parser refuses them.
                named &=
                    !function.name.trim().is_empty() && function.name.len() <= MAX_FUNCTION_NAME;
            }
            Tool::ProgrammaticToolCalling { .. } => controls += 1,
            Tool::Mcp(mcp) => distinct_labels &= labels.insert(mcp.server_label.as_str()),
            Tool::ToolSearch | Tool::WebSearch(_) => {}
        }
    }
    if functions > MAX_FUNCTIONS {
        return refused("This service supports at most 64 function tools.");
    }
    if !named {
        return refused("Function names must be nonempty, unique and at most 512 bytes.");
    }
    if controls > 1 {
        return refused("Execution requires distinct tool controls.");
    }
    if !distinct_labels {
        return refused("Execution requires distinct MCP server labels.");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{AgentShape, parse};
    use crate::json::Json;

    fn refused(text: &str) -> (String, Option<String>) {
        let patch = parse(Json::new(text), &Path::root(), AgentShape::Create).unwrap();
        let configuration = AgentConfiguration::from_patch(patch, "m".into());
        let invalid = check(&configuration, &Path::root().member("agent"), false).expect_err(text);
        (invalid.message, invalid.param)
    }

    #[test]
    fn the_table_answers_in_its_order() {
        // sessions 2.2
        let function = r#"{"type":"function","name":" ","description":"","parameters":{}}"#;
        for (members, message, param) in [
            (
                r#""reasoning":{"summary":"auto"},"service_tier":"flex""#.to_owned(),
                "Explicit reasoning execution options are not supported by this service yet.",
                "agent.reasoning",
            ),
            (
                r#""service_tier":"flex","tools":[{"type":"web_search"}]"#.to_owned(),
                "Execution currently supports service_tier=auto only.",
                "agent.service_tier",
            ),
            (
                r#""tools":[{"type":"tool_search"},{"type":"web_search"}]"#.to_owned(),
                "Only disabled web_search is qualified for execution.",
                "agent.tools[1]",
            ),
            (
                format!(r#""tools":[{function}]"#),
                "Function names must be nonempty, unique and at most 512 bytes.",
                "agent.tools",
            ),
            (
                r#""tools":[{"type":"tool_search"}]"#.to_owned(),
                "Deferred function discovery is not supported by this service.",
                "agent.tools[0]",
            ),
            (
                r#""multi_agent":{"enabled":true}"#.to_owned(),
                "Subagents are not supported by this service.",
                "agent.multi_agent",
            ),
        ] {
            let (text, at) = refused(&format!(r#"{{"model":"m",{members}}}"#));
            assert_eq!((text.as_str(), at.as_deref()), (message, Some(param)));
        }
    }

    // S-FN-9, CAP-003, CAP-008
    #[test]
    fn functions_are_admitted_where_the_harness_takes_them() {
        let admitted = |tools: &str, functions| {
            let text = format!(r#"{{"model":"m","tools":[{tools}]}}"#);
            let patch = parse(Json::new(&text), &Path::root(), AgentShape::Create).unwrap();
            let configuration = AgentConfiguration::from_patch(patch, "m".into());
            let checked = check(&configuration, &Path::root(), functions);
            checked.map_err(|invalid| (invalid.message, invalid.param.unwrap_or_default()))
        };
        let named = |name: &str, more: &str| {
            format!(
                r#"{{"type":"function","name":"{name}","description":"d","parameters":{{}}{more}}}"#
            )
        };
        let one = named("f", "");
        assert_eq!(admitted(&one, true), Ok(()));
        let (message, param) = admitted(&one, false).unwrap_err();
        assert_eq!(message, "Function tools are not supported by this service.");
        assert_eq!(param, "tools[0]");
        for tools in [named(" ", ""), named(&"n".repeat(513), "")] {
            let (message, _) = admitted(&tools, true).unwrap_err();
            assert!(message.starts_with("Function names"), "{message}");
        }
        let many = |count| {
            let all: Vec<String> = (0..count).map(|n| named(&format!("f{n}"), "")).collect();
            all.join(",")
        };
        assert_eq!(admitted(&many(64), true), Ok(()));
        assert!(admitted(&many(65), true).is_err());
        let deferred = format!("{one},{}", named("g", r#","defer_loading":true"#));
        let (message, param) = admitted(&deferred, true).unwrap_err();
        assert!(
            message.starts_with("Deferred function discovery"),
            "{message}"
        );
        assert_eq!(param, "tools[1]");
    }

    #[test]
    fn disabled_controls_pass() {
        // S-POL-1
        let text = r#"{"model":"m","multi_agent":{"enabled":false},"tools":[{"type":"web_search","mode":"disabled"},
            {"type":"programmatic_tool_calling","enabled":false}]}"#;
        let patch = parse(Json::new(text), &Path::root(), AgentShape::Create).unwrap();
        check(
            &AgentConfiguration::from_patch(patch, "m".into()),
            &Path::root(),
            false,
        )
        .unwrap();
    }
}
