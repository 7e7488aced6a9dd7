//! The notation of `shapes.txt`, read into JSON Schema.

use serde_json::{Map, Value, json};

/// A line that cannot be read: a mistake of whoever wrote the shapes, found by the first test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shape {name}: {what}")]
pub(crate) struct Malformed {
    name: String,
    what: &'static str,
}

/// Every shape by its name, in the order of the text.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, Malformed> {
    let mut shapes = Map::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let name = name.trim();
        let malformed = |what| Malformed {
            name: name.to_owned(),
            what,
        };
        let shape = shape(name, rest.trim()).map_err(malformed)?;
        if shapes.insert(key(name), shape).is_some() {
            return Err(malformed("is there twice"));
        }
    }
    Ok(shapes)
}

/// Component names hold no dots here.
fn key(name: &str) -> String {
    name.replace('.', "")
}

fn shape(name: &str, text: &str) -> Result<Value, &'static str> {
    if name.starts_with("Word.") {
        let words: Vec<_> = text.split('|').map(str::trim).collect();
        return Ok(json!({"type": "string", "enum": words}));
    }
    match text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
    {
        Some(members) => object(members),
        None => Ok(
            json!({"oneOf": text.split('|').map(|name| reference(name.trim())).collect::<Vec<_>>()}),
        ),
    }
}

fn object(text: &str) -> Result<Value, &'static str> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for member in text.split(',').map(str::trim) {
        let (name, kind) = member.split_once(':').ok_or("a member has no type")?;
        let plain = name.trim_end_matches('?');
        if plain == name {
            required.push(plain);
        }
        if properties
            .insert(plain.to_owned(), union(kind.trim())?)
            .is_some()
        {
            return Err("a member is there twice");
        }
    }
    Ok(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

fn union(text: &str) -> Result<Value, &'static str> {
    let mut kinds = text
        .split('|')
        .map(|part| one(part.trim()))
        .collect::<Result<Vec<_>, _>>()?;
    match kinds.len() {
        1 => Ok(kinds.remove(0)),
        _ => Ok(json!({"anyOf": kinds})),
    }
}

fn one(text: &str) -> Result<Value, &'static str> {
    if let Some(inner) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        return Ok(json!({"type": "array", "items": one(inner)?}));
    }
    if let Some(word) = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    {
        return Ok(json!({"type": "string", "const": word}));
    }
    Ok(match text {
        "str" => json!({"type": "string"}),
        "int" => json!({"type": "integer"}),
        "bool" => json!({"type": "boolean"}),
        "object" => json!({"type": "object"}),
        "map" => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        "any" => json!({}),
        "null" => json!({"type": "null"}),
        "" => return Err("a type is missing"),
        name => reference(name),
    })
}

/// A named shape.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", key(name))})
}
