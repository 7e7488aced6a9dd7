//! Native parameters against the schema that a harness declares for them (NAT-001 to NAT-008).
//!
//! Of JSON Schema this reads what declarations need: `type`, `enum`, `const`, `minimum`, `properties`, `required`,
//! `additionalProperties`, `oneOf` and `anyOf`. The adapter itself checks again when it is opened.

use serde_json::Value;

use crate::json::Opaque;
use crate::run::HarnessDeclaration;

/// Do these parameters fit the harness? `{}` always does.
///
/// # Errors
/// A sentence for the caller that names the parameter.
pub fn check(parameters: &Opaque, declaration: &HarnessDeclaration) -> Result<(), String> {
    let unreadable = || {
        format!(
            "The harness '{}' does not accept native parameters.",
            declaration.id
        )
    };
    let value: Value = serde_json::from_str(parameters.as_str()).map_err(|_| unreadable())?;
    if value.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(());
    }
    let schema: Value =
        serde_json::from_str(&declaration.parameters_schema).map_err(|_| unreadable())?;
    let fault = fault(&schema, &value, "harness_config");
    fault.map_or(Ok(()), |at| {
        Err(format!(
            "The harness '{}' does not accept '{at}'.",
            declaration.id
        ))
    })
}

/// The path of the first member that does not fit.
fn fault(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let here = || {
        let shown = if crate::invalid::is_echoable(at) {
            at
        } else {
            "harness_config"
        };
        Some(shown.to_owned())
    };
    let keyword = |name: &str| schema.get(name);
    if schema.as_bool() == Some(false) {
        return here();
    }
    if keyword("type").is_some_and(|kind| !has_type(kind, value)) {
        return here();
    }
    if keyword("enum")
        .and_then(Value::as_array)
        .is_some_and(|words| !words.contains(value))
    {
        return here();
    }
    if keyword("const").is_some_and(|only| only != value) {
        return here();
    }
    if keyword("minimum")
        .and_then(Value::as_f64)
        .is_some_and(|least| value.as_f64().is_some_and(|got| got < least))
    {
        return here();
    }
    for name in ["oneOf", "anyOf"] {
        let branches = keyword(name).and_then(Value::as_array);
        if branches.is_some_and(|branches| {
            branches
                .iter()
                .all(|branch| fault(branch, value, at).is_some())
        }) {
            return here();
        }
    }
    let members = value.as_object()?;
    let properties = keyword("properties").and_then(Value::as_object);
    for (name, member) in members {
        let at = format!("{at}.{name}");
        let known = properties
            .and_then(|properties| properties.get(name))
            .or_else(|| keyword("additionalProperties"));
        if let Some(found) = known.and_then(|schema| fault(schema, member, &at)) {
            return Some(found);
        }
    }
    let required = keyword("required").and_then(Value::as_array)?;
    let missing = required
        .iter()
        .filter_map(Value::as_str)
        .find(|name| !members.contains_key(*name))?;
    Some(format!("{at}.{missing}"))
}

fn has_type(kind: &Value, value: &Value) -> bool {
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    match kind {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(schema: &str, value: &str) -> Option<String> {
        fault(
            &serde_json::from_str(schema).unwrap(),
            &serde_json::from_str(value).unwrap(),
            "c",
        )
    }

    #[test]
    fn an_enumerated_parameter() {
        // NAT-001
        let schema = r#"{"type":"object","properties":{"effort":{"enum":["low","high"]}},"additionalProperties":false}"#;
        assert_eq!(at(schema, r#"{"effort":"low"}"#), None);
        assert_eq!(
            at(schema, r#"{"effort":"max"}"#).as_deref(),
            Some("c.effort")
        );
        assert_eq!(at(schema, r#"{"other":1}"#).as_deref(), Some("c.other"));
        assert_eq!(at(schema, "[]").as_deref(), Some("c"));
    }

    #[test]
    fn nested_choices() {
        // NAT-004
        let schema = r#"{"properties":{"thinking":{"oneOf":[
            {"type":"object","properties":{"type":{"const":"enabled"},"budget":{"type":"integer","minimum":1}},"required":["type","budget"],"additionalProperties":false},
            {"type":"object","properties":{"type":{"const":"disabled"}},"required":["type"],"additionalProperties":false}]}}}"#;
        assert_eq!(
            at(schema, r#"{"thinking":{"type":"enabled","budget":5}}"#),
            None
        );
        assert_eq!(at(schema, r#"{"thinking":{"type":"disabled"}}"#), None);
        for bad in [
            r#"{"type":"enabled"}"#,
            r#"{"type":"enabled","budget":0}"#,
            r#"{"type":"disabled","budget":5}"#,
        ] {
            assert_eq!(
                at(schema, &format!(r#"{{"thinking":{bad}}}"#)).as_deref(),
                Some("c.thinking"),
                "{bad}"
            );
        }
    }
}
