//! The document against the table and against the parsers: a shape that drifts from what is read fails here.

use std::collections::BTreeSet;

use domain::agent::{AgentShape, parse as agent};
use domain::creation::SessionCreation;
use domain::invalid::{Invalid, Path};
use domain::json::Json;
use domain::template::TemplatePatch;
use domain::vault::{AuthPatch, CredentialCreation, VaultCreation};

use super::*;

fn document() -> Value {
    build(rows::table().rows()).unwrap()
}

#[test]
fn every_public_row_is_an_operation_and_nothing_else() {
    // W-ROUTE-1
    let document = document();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| (method.to_ascii_uppercase(), format!("/v1{path}")))
        })
        .collect();
    let table = rows::table();
    let rows: BTreeSet<(String, String)> = table
        .rows()
        .iter()
        .filter(|row| matches!(row.space, Space::Public { .. }))
        .map(|row| (row.verb.name().to_owned(), row.path.to_owned()))
        .collect();
    assert_eq!(described, rows);
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut used = BTreeSet::new();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
        used.insert(name);
    }
    for name in schemas.keys() {
        assert!(used.contains(name.as_str()), "nothing uses {name}");
    }
    let page = html(&document);
    assert!(page.contains("POST /v1/agents/sessions") && page.contains("id=\"Session\""));
}

/// Parses a body and says what is wrong with it.
type Parser = fn(Json<'_>) -> Result<(), Invalid>;

#[test]
fn the_shapes_of_requests_are_those_of_the_parsers() {
    // Each member is known to its parser, in the kind that the shape says; any other is unknown; what is required is missed.
    let parsers: [(&str, Parser); 8] = [
        ("AgentCreate", |json| {
            agent(json, &Path::root(), AgentShape::Create).map(drop)
        }),
        ("AgentUpdate", |json| {
            agent(json, &Path::root(), AgentShape::Update).map(drop)
        }),
        ("SessionCreate", |json| {
            SessionCreation::parse(json).map(drop)
        }),
        ("TemplateCreate", |json| {
            TemplatePatch::parse(json).map(drop)
        }),
        ("TemplateUpdate", |json| {
            TemplatePatch::parse(json).map(drop)
        }),
        ("VaultCreate", |json| VaultCreation::parse(json).map(drop)),
        ("CredentialCreate", |json| {
            CredentialCreation::parse(json).map(drop)
        }),
        ("CredentialRotate", |json| AuthPatch::parse(json).map(drop)),
    ];
    let document = document();
    for (name, parse) in parsers {
        let shape = &document["components"]["schemas"][name];
        let unknown = parse(Json::new(r#"{"no_such_member":1}"#)).unwrap_err();
        assert_eq!(
            unknown.message, "Unknown parameter: 'no_such_member'.",
            "{name}"
        );
        for (member, kind) in shape["properties"].as_object().unwrap() {
            let refused =
                |value: &str| parse(Json::new(&format!("{{\"{member}\":{value}}}"))).err();
            // A number is right nowhere on the first level.
            let wrong = refused("1").unwrap_or_else(|| panic!("{name}.{member} takes a number"));
            assert!(
                // What is wrong with an input has one message for all (E400-20).
                wrong.message.contains("expected") || wrong == Invalid::request(),
                "{name}.{member}: {wrong}"
            );
            let takes_null = kind.to_string().contains("\"null\"");
            let null = refused("null")
                .map(|error| error.message)
                .unwrap_or_default();
            assert_eq!(
                !null.contains("got null"),
                takes_null,
                "{name}.{member}: {null}"
            );
        }
        let required: Vec<_> = shape["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let missing = parse(Json::new("{}"))
            .err()
            .map(|error| error.message)
            .unwrap_or_default();
        match required.first() {
            Some(first) => assert_eq!(
                missing,
                format!("Missing required parameter: '{first}'."),
                "{name}"
            ),
            None => assert!(!missing.contains("Missing required"), "{name}: {missing}"),
        }
    }
}
