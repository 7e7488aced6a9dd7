//! Text and numbers of every request shape: what cannot be stored, what names nothing, what must keep its bytes
//! (W-TEXT-1, W-TEXT-2, W-BODY-14, W-ORDER-6).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use store::testing::TestDatabase;

use super::fixture::{CORE_KEY, Fixture};
use crate::api::openapi;
use crate::api::route::BodyRule;
use crate::api::rows;

/// Ids that paths name.
struct Ids {
    agent: String,
    session: String,
    template: String,
    vault: String,
    bearer: String,
    grant: String,
}

async fn ids(fixture: &Fixture) -> Ids {
    let make = async |path: &str, body: &str| {
        let answer = fixture.post(path, body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    };
    fixture.default_model().await;
    let vault = make("/v1/vaults", "{}").await;
    let credentials = format!("/v1/vaults/{vault}/credentials");
    Ids {
        agent: make("/v1/agents", r#"{"model":"m"}"#).await,
        session: make("/v1/agents/sessions", "{}").await,
        template: make("/v1/agents/environments/templates", "{}").await,
        bearer: make(&credentials, &bearer().to_string()).await,
        grant: make(&credentials, &grant().to_string()).await,
        vault,
    }
}

fn agent() -> Value {
    json!({
        "model": "m", "instructions": "i", "metadata": {"k": "v"}, "name": "n",
        "reasoning": {"effort": "max", "summary": "auto"}, "service_tier": "auto",
        "text": {"format": {"type": "json_schema", "schema": {"type": "object", "title": "t"}}, "verbosity": "low"},
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object", "title": "t"}},
            {"type": "web_search", "allowed_domains": ["a.example"], "context_size": "low", "mode": "live",
             "location": {"city": "c", "country": "c", "region": "r", "timezone": "t"}},
            {"type": "mcp", "server_label": "l", "allowed_tools": ["t"], "connection_origin": "service",
             "credential_id": "c", "request_metadata": {"k": "v"},
             "transport": {"type": "http", "server_url": "https://h", "headers": {"k": "v"}}},
            {"type": "mcp", "server_label": "l",
             "transport": {"type": "stdio", "command": "c", "cwd": "/c", "args": ["a"], "env_vars": ["E"]}},
        ],
        "x_agents_core": {
            "harness": "test", "harness_config": {"effort": "low"},
            "model_provider": {"protocol": "responses", "base_url": "https://h/v1", "api_key": "k"},
        },
    })
}

fn template() -> Value {
    json!({
        "name": "n", "capability_directories": ["/workspace/a"], "env": {"A": "b"},
        "files": [{"type": "inline", "data": "YQ==", "path": "/workspace/g"}],
        "network": {"access": "restricted", "allowed_domains": ["a.example"]},
        "packages": {"npm": ["a"], "python": ["b"]},
        "setup_commands": [{"command": "c", "cwd": "/workspace"}],
    })
}

fn bearer() -> Value {
    json!({"name": "n", "auth": {"type": "static_bearer", "mcp_server_url": "https://h", "token": "t"}})
}

fn grant() -> Value {
    json!({"name": "n", "auth": {
        "type": "mcp_oauth", "mcp_server_url": "https://h", "access_token": "t", "expires_at": "2030-01-01T00:00:00Z",
        "refresh": {
            "client_id": "c", "refresh_token": "r", "token_endpoint": "https://i/token", "resource": "r", "scope": "s",
            "token_endpoint_auth": {"type": "client_secret_basic", "client_secret": "s"},
        },
    }})
}

/// A request of each shape with every text that it may hold, and the status of its answer.
fn requests(ids: &Ids) -> Vec<(&'static str, String, Value, u16)> {
    let credentials = format!("/v1/vaults/{}/credentials", ids.vault);
    let bundle = json!({"type": "inline", "name": "n", "description": "d",
        "source": {"type": "base64", "media_type": "application/zip", "data": "YQ=="}});
    let mut with_bundles = template();
    with_bundles["plugins"] = json!([bundle]);
    with_bundles["skills"] = json!([bundle]);
    let references = json!({
        "files": [{"type": "file_id", "file_id": "f", "path": "/workspace/f"}],
        "skills": [{"type": "skill_reference", "skill_id": "s", "version": "1"}],
    });
    let hosted = json!({"type": "openai_hosted", "environment_template_id": "t", "sandbox_size": "S",
        "sandbox_image": "default", "env": {"A": "b"}, "setup_commands": [{"command": "c", "cwd": "/workspace"}]});
    let input = json!([{"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "https://h/i"}]}]);
    // Only the inline agent of a Session may carry credentials.
    let mut tools = agent()["tools"].clone();
    tools[2]["transport"]["authorization"] = "a".into();
    tools[3]["transport"]["env"] = json!({"E": "e"});
    vec![
        ("AgentCreate", "/v1/agents".into(), agent(), 201),
        (
            "AgentUpdate",
            format!("/v1/agents/{}", ids.agent),
            agent(),
            200,
        ),
        (
            "SessionCreate",
            "/v1/agents/sessions".into(),
            json!({"agent": {"model": "m", "instructions": "i", "x_agents_core": {"harness": "test"}}, "input": "i",
                "environment": {"type": "openai_hosted", "sandbox_size": "S", "sandbox_image": "default"},
                "metadata": {"k": "v"}}),
            201,
        ),
        (
            "SessionCreate",
            "/v1/agents/sessions".into(),
            json!({"agent_id": "a", "agent": {"tools": tools, "text": agent()["text"]}, "input": input,
                "environment": hosted, "vault_ids": ["v"],
                "x_agents_core": {"model_provider": agent()["x_agents_core"]["model_provider"]}}),
            400,
        ),
        (
            "SessionCreate",
            "/v1/agents/sessions".into(),
            json!({"environment": {"type": "self_hosted", "workspace_directory": "/w"}}),
            400,
        ),
        (
            "SessionUpdate",
            format!("/v1/agents/sessions/{}", ids.session),
            json!({"metadata": {"k": "v"}}),
            200,
        ),
        (
            "EventsCreate",
            format!("/v1/agents/sessions/{}/events", ids.session),
            json!({"events": [
                {"type": "agent.session.input.tool_result", "turn_id": "t", "call_id": "c", "success": true,
                 "output": "o", "error": "e"},
                {"type": "agent.session.input.message", "input": input}]}),
            400,
        ),
        (
            "TemplateCreate",
            "/v1/agents/environments/templates".into(),
            template(),
            201,
        ),
        (
            "TemplateUpdate",
            format!("/v1/agents/environments/templates/{}", ids.template),
            template(),
            200,
        ),
        (
            "TemplateCreate",
            "/v1/agents/environments/templates".into(),
            with_bundles,
            400,
        ),
        (
            "TemplateCreate",
            "/v1/agents/environments/templates".into(),
            references,
            404,
        ),
        (
            "VaultCreate",
            "/v1/vaults".into(),
            json!({"name": "n", "metadata": {"k": "v"}}),
            201,
        ),
        ("CredentialCreate", credentials.clone(), bearer(), 201),
        ("CredentialCreate", credentials.clone(), grant(), 201),
        (
            "CredentialRotate",
            format!("{credentials}/{}", ids.bearer),
            json!({"auth": {"type": "static_bearer", "token": "t"}}),
            200,
        ),
        (
            "CredentialRotate",
            format!("{credentials}/{}", ids.grant),
            json!({"auth": {"type": "mcp_oauth", "access_token": "t", "expires_at": "2030-01-01T00:00:00Z",
                "refresh": {"refresh_token": "r", "scope": "s",
                    "token_endpoint_auth": {"type": "client_secret_basic", "client_secret": "s"}}}}),
            200,
        ),
        (
            "Name",
            "/core/v1/projects".into(),
            json!({"name": "n"}),
            201,
        ),
    ]
}

/// Every text of a value, its member names too, replaced one at a time.
fn mutants(value: &Value, change: &dyn Fn(&str) -> String) -> Vec<Value> {
    match value {
        Value::String(text) => vec![Value::String(change(text))],
        Value::Array(list) => {
            let one = |index: usize| {
                mutants(&list[index], change).into_iter().map(move |new| {
                    let mut list = list.clone();
                    list[index] = new;
                    Value::Array(list)
                })
            };
            (0..list.len()).flat_map(one).collect()
        }
        Value::Object(members) => {
            let mut found = Vec::new();
            for (name, member) in members {
                let mut renamed = members.clone();
                renamed.remove(name);
                renamed.insert(change(name), member.clone());
                found.push(Value::Object(renamed));
                for new in mutants(member, change) {
                    let mut members = members.clone();
                    members.insert(name.clone(), new);
                    found.push(Value::Object(members));
                }
            }
            found
        }
        _ => Vec::new(),
    }
}

/// Names of the members that hold text in a shape or below it.
fn text_members(
    schemas: &Value,
    shape: &Value,
    seen: &mut BTreeSet<String>,
    found: &mut BTreeSet<String>,
) {
    if let Some(name) = shape["$ref"]
        .as_str()
        .and_then(|text| text.rsplit('/').next())
        && seen.insert(name.to_owned())
    {
        text_members(schemas, &schemas[name], seen, found);
    }
    if !shape.is_object() {
        return;
    }
    for list in ["oneOf", "anyOf"] {
        for part in shape[list].as_array().into_iter().flatten() {
            text_members(schemas, part, seen, found);
        }
    }
    text_members(schemas, &shape["items"], seen, found);
    for (name, member) in shape["properties"].as_object().into_iter().flatten() {
        if member.to_string().contains(r#""type":"string""#) {
            found.insert(name.clone());
        }
        text_members(schemas, member, seen, found);
    }
}

both!(text_that_cannot_be_stored_is_refused_in_every_member);
async fn text_that_cannot_be_stored_is_refused_in_every_member(database: TestDatabase) {
    // W-TEXT-1, W-TEXT-2
    let fixture = Fixture::on(database).await;
    let requests = requests(&ids(&fixture).await);
    let key = |path: &str| match path.starts_with("/core") {
        true => CORE_KEY.to_owned(),
        false => fixture.key.clone(),
    };
    let before = fixture.dump().await;
    for (shape, path, body, _) in &requests {
        for mutant in mutants(body, &|text| format!("{text}\0")) {
            let text = mutant.to_string();
            let answer = fixture
                .send("POST", path, Some(&key(path)), Some(&text))
                .await;
            assert_eq!(answer.status, 400, "{shape} {text}: {}", answer.body);
        }
    }
    assert_eq!(
        fixture.dump().await,
        before,
        "a refused request writes nothing"
    );
    let refused = fixture
        .post("/v1/agents", r#"{"model":"m","instructions":"\u0000"}"#)
        .await;
    assert_eq!(
        refused.body,
        r#"{"error":{"message":"Request text contains characters this service cannot store or compare, such as U+0000 or invalid UTF-8.","type":"invalid_request_error","code":"invalid_request_error","param":null}}"#
    );
    // The same requests without it are what the table says they are.
    for (shape, path, body, status) in &requests {
        let answer = fixture
            .send("POST", path, Some(&key(path)), Some(&body.to_string()))
            .await;
        assert_eq!(answer.status, *status, "{shape}: {}", answer.body);
    }
}

#[test]
fn the_requests_above_hold_every_text_of_every_shape() {
    let id = || "i".to_owned();
    let ids = Ids {
        agent: id(),
        session: id(),
        template: id(),
        vault: id(),
        bearer: id(),
        grant: id(),
    };
    let requests = requests(&ids);
    let document = openapi::build(rows::table().rows()).unwrap();
    let schemas = &document["components"]["schemas"];
    for row in rows::table().rows() {
        let public = schemas.get(row.shapes.0).is_some();
        if !public || !matches!(row.body, BodyRule::Json(_)) {
            continue;
        }
        let mut expected = BTreeSet::new();
        text_members(
            schemas,
            &schemas[row.shapes.0],
            &mut BTreeSet::new(),
            &mut expected,
        );
        let bodies: String = requests
            .iter()
            .filter(|request| request.0 == row.shapes.0)
            .map(|request| request.2.to_string())
            .collect();
        for name in expected {
            // Shapes below the first level are shared: another request of the table may hold them.
            let anywhere = requests
                .iter()
                .any(|request| request.2.to_string().contains(&format!("\"{name}\":")));
            let own = &schemas[row.shapes.0]["properties"][&name];
            let held = bodies.contains(&format!("\"{name}\":"));
            assert!(
                if own.is_null() { anywhere } else { held },
                "{} {name}",
                row.shapes.0
            );
        }
    }
}

both!(text_that_names_nothing_is_refused);
async fn text_that_names_nothing_is_refused(database: TestDatabase) {
    // S-AG-3, CRD-001, CRD-004, CRD-009, CRD-011, VLT-022, ENV-436, MDL-003, OPS-031
    let fixture = Fixture::on(database).await;
    let ids = ids(&fixture).await;
    let credentials = format!("/v1/vaults/{}/credentials", ids.vault);
    let before = fixture.dump().await;
    let mut cases: Vec<(String, Value, &str)> = Vec::new();
    for path in ["/v1/agents".to_owned(), format!("/v1/agents/{}", ids.agent)] {
        cases.push((path.clone(), json!({"model": ""}), "model"));
        cases.push((path.clone(), json!({"model": " \n"}), "model"));
        for member in ["base_url", "api_key"] {
            let mut body = agent();
            body["x_agents_core"]["model_provider"][member] = "".into();
            cases.push((path.clone(), body, member));
        }
        let mut body = agent();
        body["x_agents_core"]["harness"] = "".into();
        cases.push((path, body, "harness"));
    }
    cases.push((
        "/v1/agents/sessions".into(),
        json!({"agent": {"model": ""}}),
        "agent.model",
    ));
    cases.push((
        "/v1/agents/sessions".into(),
        json!({"environment": {"type": "openai_hosted", "sandbox_image": ""}}),
        "sandbox_image",
    ));
    for path in [
        "/v1/agents/environments/templates".to_owned(),
        format!("/v1/agents/environments/templates/{}", ids.template),
    ] {
        for (body, param) in [
            (json!({"name": ""}), "name"),
            (
                json!({"setup_commands": [{"command": " "}]}),
                "setup_commands[0].command",
            ),
            (json!({"packages": {"npm": [""]}}), "packages.npm[0]"),
            (json!({"env": {"": "x"}}), "env"),
            (
                json!({"capability_directories": [""]}),
                "capability_directories[0]",
            ),
        ] {
            cases.push((path.clone(), body, param));
        }
    }
    cases.push(("/v1/vaults".into(), json!({"name": " "}), "name"));
    let secrets = [
        "token",
        "access_token",
        "client_id",
        "refresh_token",
        "token_endpoint",
        "resource",
        "scope",
        "client_secret",
        "mcp_server_url",
        "expires_at",
    ];
    for name in secrets {
        for body in [bearer(), grant()] {
            if let Some(body) = empty(&body, name) {
                cases.push((credentials.clone(), body, name));
            }
        }
        for (shape, path, body, _) in requests(&ids) {
            if shape == "CredentialRotate"
                && let Some(body) = empty(&body, name)
            {
                cases.push((path, body, name));
            }
        }
    }
    for (path, body, param) in cases {
        let text = body.to_string();
        let answer = fixture.post(&path, &text).await;
        let found = answer.json()["error"]["param"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(answer.status, 400, "{path} {text}: {}", answer.body);
        assert!(
            found.ends_with(param) || found.starts_with(param),
            "{path} {text}: {}",
            answer.body
        );
    }
    assert_eq!(
        fixture.dump().await,
        before,
        "a refused request writes nothing"
    );
}

/// The body with the text of one member taken out; `None` if it has no such member.
fn empty(value: &Value, name: &str) -> Option<Value> {
    let mut changed = value.clone();
    let members = changed.as_object_mut()?;
    if let Some(Value::String(text)) = members.get_mut(name) {
        text.clear();
        return Some(changed);
    }
    for (key, member) in value.as_object()? {
        if let Some(new) = empty(member, name) {
            members.insert(key.clone(), new);
            return Some(changed);
        }
    }
    None
}

both!(numbers_of_any_size_keep_their_bytes);
async fn numbers_of_any_size_keep_their_bytes(database: TestDatabase) {
    // W-BODY-14
    let fixture = Fixture::on(database).await;
    let ids = ids(&fixture).await;
    let long = "9".repeat(400);
    for number in ["1e400", "-1E-400", "1.10", &long] {
        let schema = format!(r#"{{"maximum":{number}}}"#);
        let body = format!(
            r#"{{"model":"m","tools":[{{"type":"function","name":"f","description":"d","parameters":{schema}}},{{"type":"mcp","server_label":"l","request_metadata":{schema},"transport":{{"type":"http","server_url":"https://h"}}}}],"text":{{"format":{{"type":"json_schema","schema":{schema}}}}}}}"#
        );
        let update = format!("/v1/agents/{}", ids.agent);
        for path in ["/v1/agents", &update] {
            let made = fixture.post(path, &body).await;
            assert!(matches!(made.status, 200 | 201), "{}", made.body);
            assert_eq!(made.body.matches(&schema).count(), 3, "{}", made.body);
        }
        assert_eq!(fixture.get(&update).await.body.matches(&schema).count(), 3);
        let session = format!(
            r#"{{"agent":{{"text":{{"format":{{"type":"json_schema","schema":{schema}}}}}}}}}"#
        );
        let made = fixture.post("/v1/agents/sessions", &session).await;
        // A harness without structured output refuses it, but never for its numbers.
        assert_eq!(
            made.json()["error"]["param"],
            "agent.text.format",
            "{}",
            made.body
        );
        let before = fixture.dump().await;
        let typed = format!(
            r#"{{"model":"m","multi_agent":{{"enabled":true,"max_concurrent_subagents":{number}}}}}"#
        );
        for body in [
            format!(r#"{{"x_agents_core":{{"harness_config":{{"effort":{number}}}}}}}"#),
            format!(r#"{{"agent":{typed}}}"#),
        ] {
            let refused = fixture.post("/v1/agents/sessions", &body).await;
            assert_eq!(refused.status, 400, "{body}: {}", refused.body);
        }
        assert_eq!(fixture.dump().await, before);
    }
}
