//! The OpenAPI document and its readable page, generated from the route table and the shapes: what is not a row is not in it.

mod notation;

use std::sync::OnceLock;

use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};

use super::call::{Call, Reply};
use super::error::ApiError;
use super::query::{Limits, ListRule};
use super::route::{BodyRule, Route, Space, Verb};
use super::rows;
use notation::reference;

const SHAPES: &str = include_str!("shapes.txt");
const JSON: &str = "application/json";
/// Statuses that any operation may answer besides its success (wire.md 8).
const FAILURES: &[(&str, &str)] = &[
    ("400", "The request is malformed or not supported."),
    ("401", "The bearer key is missing or not valid."),
    ("404", "There is no such resource for this caller."),
    ("500", "The operation could not be completed."),
    ("503", "A part of the service is not available."),
];

/// `GET /openapi.json`
pub(crate) async fn document(_: Call) -> Result<Reply, ApiError> {
    Ok(answer(JSON, texts()?.0.clone()))
}

/// `GET /docs`
pub(crate) async fn page(_: Call) -> Result<Reply, ApiError> {
    Ok(answer("text/html; charset=utf-8", texts()?.1.clone()))
}

fn answer(kind: &'static str, text: String) -> Reply {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Reply(response)
}

/// Both texts, made once.
fn texts() -> Result<&'static (String, String), ApiError> {
    static TEXTS: OnceLock<Option<(String, String)>> = OnceLock::new();
    let made = TEXTS.get_or_init(|| match build(rows::table().rows()) {
        Ok(document) => Some((document.to_string(), html(&document))),
        Err(error) => {
            tracing::error!(%error, "the OpenAPI document could not be made");
            None
        }
    });
    made.as_ref().ok_or(ApiError::Internal {
        effect_unknown: false,
    })
}

pub(super) fn build(rows: &[Route]) -> Result<Value, notation::Malformed> {
    let mut shapes = notation::read(SHAPES)?;
    let mut paths: Map<String, Value> = Map::new();
    for row in rows {
        let Space::Public { beta } = row.space else {
            continue;
        };
        let path = paths
            .entry(row.path.trim_start_matches("/v1"))
            .or_insert_with(|| json!({}));
        if let Some(methods) = path.as_object_mut() {
            let name = row.verb.name().to_ascii_lowercase();
            methods.insert(name, operation(row, beta));
        }
        if let Some(inner) = list_of(row) {
            shapes.insert(format!("{inner}List"), list(inner));
        }
    }
    Ok(json!({
        "openapi": "3.1.0",
        "info": {"title": "Berth Agents API", "version": env!("CARGO_PKG_VERSION")},
        "servers": [{"url": "/v1"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": shapes,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }))
}

/// Name of the elements of a list row.
fn list_of(row: &Route) -> Option<&'static str> {
    row.shapes.1.strip_prefix("L(")?.strip_suffix(')')
}

fn list(inner: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "object": {"type": "string", "const": "list"},
            "data": {"type": "array", "items": reference(inner)},
            "has_more": {"type": "boolean"},
            "first_id": {"type": ["string", "null"]},
            "last_id": {"type": ["string", "null"]},
        },
        "required": ["object", "data", "has_more", "first_id", "last_id"],
        "additionalProperties": false,
    })
}

fn operation(row: &Route, beta: bool) -> Value {
    let mut operation = json!({
        "operationId": name(row),
        "parameters": parameters(row, beta),
        "responses": responses(row),
    });
    let content = match row.shapes.0 {
        "" => None,
        "FileUpload" => Some(("multipart/form-data", file_form())),
        "SkillUpload" => Some(("multipart/form-data", skill_form(false))),
        "SkillVersionUpload" => Some(("multipart/form-data", skill_form(true))),
        shape => Some((JSON, reference(shape))),
    };
    if let Some((kind, schema)) = content {
        operation["requestBody"] = json!({"required": true, "content": {kind: {"schema": schema}}});
    }
    operation
}

/// `get_agents_sessions_session_id`: unique because method and path are.
fn name(row: &Route) -> String {
    let path = row.path.trim_start_matches("/v1/").replace(['{', '}'], "");
    format!(
        "{}_{}",
        row.verb.name().to_ascii_lowercase(),
        path.replace(['/', '-'], "_")
    )
}

fn file_form() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "purpose": {"type": "string", "const": domain::file::PURPOSE},
        },
        "required": ["file", "purpose"],
        "additionalProperties": false,
    })
}

fn skill_form(has_default: bool) -> Value {
    let mut form = json!({
        "type": "object",
        "properties": {
            "files": {"type": "string", "format": "binary"},
            "files[]": {"type": "array", "items": {"type": "string", "format": "binary"}},
        },
        "additionalProperties": false,
    });
    if has_default {
        form["properties"]["default"] = json!({"type": "string", "enum": ["true", "false"]});
    }
    form
}

fn parameters(row: &Route, beta: bool) -> Vec<Value> {
    let mut parameters: Vec<Value> = row
        .path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if beta {
        let schema = json!({"type": "string", "const": "agents=v1"});
        parameters.push(
            json!({"name": "OpenAI-Beta", "in": "header", "required": true, "schema": schema}),
        );
    }
    if row.creates() || row.shapes.0 == "EventsCreate" {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 128});
        parameters.push(json!({"name": "Idempotency-Key", "in": "header", "schema": schema}));
    }
    if let Some(rule) = &row.list {
        parameters.extend(query(rule));
    }
    parameters
}

fn query(rule: &ListRule) -> Vec<Value> {
    let limit = match rule.limits {
        Limits::Clamped => json!({"type": "integer", "minimum": 0, "default": 20}),
        Limits::Strict => json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
        Limits::Nearest => json!({"type": "integer", "default": 20}),
        Limits::Skills => json!({"type": "integer", "minimum": 0, "maximum": 100, "default": 20}),
        Limits::Files => {
            json!({"type": "integer", "minimum": 1, "maximum": 10_000, "default": 10_000})
        }
    };
    let order = json!({"type": "string", "enum": ["asc", "desc"], "default": "desc"});
    let mut parameters = vec![
        json!({"name": "after", "in": "query", "schema": {"type": "string"}}),
        json!({"name": "limit", "in": "query", "schema": limit}),
        json!({"name": "order", "in": "query", "schema": order}),
    ];
    for filter in rule.filters {
        let schema = match *filter {
            "purpose" => json!({"type": "string", "enum": domain::file::PURPOSES}),
            _ => json!({"type": "string"}),
        };
        parameters.push(json!({"name": filter, "in": "query", "schema": schema}));
    }
    if let Some((name, words)) = rule.choice {
        let words = json!({"type": "string", "enum": words});
        parameters.push(json!({"name": name, "in": "query", "schema": words}));
        let words = json!({"type": "array", "items": words});
        parameters.push(json!({"name": format!("{name}[]"), "in": "query", "schema": words}));
    }
    parameters
}

/// Status of a success (W-ROUTE-4).
fn success(row: &Route) -> &'static str {
    match row.body {
        BodyRule::Json(_) if row.creates() => "201",
        _ if row.shapes.0 == "EventsCreate" => "202",
        _ => "200",
    }
}

fn responses(row: &Route) -> Value {
    let content = match row.shapes.1 {
        "" => json!({}),
        // The body of a stream is a text of frames, which OpenAPI 3.1 has no schema for; one given here is taken for that of an event.
        "SSE" => json!({"text/event-stream": {}}),
        "bytes" if row.path.starts_with("/v1/skills") => json!({"application/zip": {}}),
        "bytes" => json!({"application/octet-stream": {}}),
        _ if row.shapes.0 == "SessionCreate" => json!({
            JSON: {"schema": reference(row.shapes.1)},
            "text/event-stream": {},
        }),
        shape => {
            let schema = match list_of(row) {
                Some(inner) => reference(&format!("{inner}List")),
                None => reference(shape),
            };
            json!({JSON: {"schema": schema}})
        }
    };
    let mut responses = Map::new();
    responses.insert(
        success(row).to_owned(),
        json!({"description": "Success.", "content": content}),
    );
    let failure = |text: &str| json!({"description": text, "content": {JSON: {"schema": reference("Error")}}});
    for (status, text) in FAILURES {
        responses.insert((*status).to_owned(), failure(text));
    }
    if row.verb != Verb::Get {
        responses.insert(
            "409".to_owned(),
            failure("The state of the resource forbids it."),
        );
    }
    if matches!(row.body, BodyRule::Json(_) | BodyRule::Own) {
        responses.insert("413".to_owned(), failure("The body is too large."));
    }
    Value::Object(responses)
}

/// One small page without scripts: the operations, their parameters and shapes.
fn html(document: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Berth Agents API</title>\
         <style>body{font:15px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}\
         code{background:#8882;padding:0 .3em}pre{overflow:auto;background:#8881;padding:.6em}</style>\
         <h1>Berth Agents API</h1><p>The machine-readable form is <a href=\"/openapi.json\">/openapi.json</a>.</p>\
         <h2>Operations</h2>",
    );
    let none = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&none);
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap_or(&none) {
            let body = ["application/json", "multipart/form-data"]
                .iter()
                .find_map(|kind| {
                    operation["requestBody"]["content"][*kind]["schema"]["$ref"].as_str()
                });
            let method = method.to_ascii_uppercase();
            page.push_str(&format!("<h3><code>{method} /v1{path}</code></h3>"));
            if let Some(shape) = body.and_then(|shape| shape.rsplit('/').next()) {
                page.push_str(&format!("<p>Body: <a href=\"#{shape}\">{shape}</a></p>"));
            }
            for (status, response) in operation["responses"].as_object().unwrap_or(&none) {
                let shape = response["content"][JSON]["schema"]["$ref"].as_str();
                if let Some(shape) = shape.and_then(|shape| shape.rsplit('/').next())
                    && status.starts_with('2')
                {
                    page.push_str(&format!(
                        "<p>{status}: <a href=\"#{shape}\">{shape}</a></p>"
                    ));
                }
            }
        }
    }
    page.push_str("<h2>Shapes</h2>");
    for (name, shape) in document["components"]["schemas"]
        .as_object()
        .unwrap_or(&none)
    {
        let text = serde_json::to_string_pretty(shape).unwrap_or_default();
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        page.push_str(&format!("<h3 id=\"{name}\">{name}</h3><pre>{text}</pre>"));
    }
    page
}

#[cfg(test)]
mod tests;
