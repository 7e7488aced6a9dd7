//! What requests do to what is shown: whole answers, with ids and times taken out.

use serde_json::Value;
use store::testing::TestDatabase;

use super::fixture::{CORE_KEY, Fixture};

/// The answer with its ids and times replaced.
fn fixed(mut value: Value) -> String {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if name.ends_with("id") && name != "x" => {
                            *text = "<id>".into()
                        }
                        Value::Number(_) if name.ends_with("_at") => *member = "<time>".into(),
                        other => walk(other),
                    }
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut value);
    value.to_string()
}

both!(an_agent_lives);
async fn an_agent_lives(database: TestDatabase) {
    // S-AG-1, S-AG-10, S-AG-14, S-AG-15, MDL-027
    let fixture = Fixture::on(database).await;
    let body = r#"{"model":"m","name":" n ","metadata":{"b":"1","a":"2"},"reasoning":{"effort":"max"},
        "tools":[{"type":"function","name":"f","description":"d","parameters":{"maximum":1.10}},{"type":"tool_search"}],
        "x_agents_core":{"harness":"test","model_provider":{"protocol":"responses","base_url":"https://H.example/v1/","api_key":"canary"}}}"#;
    let made = fixture.post("/v1/agents", body).await;
    assert_eq!(made.status, 201);
    assert!(
        made.body.contains(r#""parameters":{"maximum":1.10}"#),
        "numbers keep their bytes: {}",
        made.body
    );
    assert_eq!(
        fixed(made.json()),
        r#"{"id":"<id>","object":"agent","created_at":"<time>","updated_at":"<time>","model":"m","name":" n ","instructions":null,"metadata":{"b":"1","a":"2"},"multi_agent":{"enabled":false,"max_concurrent_subagents":null},"reasoning":{"effort":"max","summary":null},"service_tier":"auto","text":{"format":{"type":"text"},"verbosity":"medium"},"tools":[{"type":"function","name":"f","description":"d","parameters":{"maximum":1.1},"defer_loading":false},{"type":"tool_search"}],"x_agents_core":{"harness":"test","model_provider":{"protocol":"responses","base_url":"https://H.example/v1/","context_window":null,"max_output_tokens":null,"api_key_configured":true},"harness_config":null}}"#
    );
    let path = format!("/v1/agents/{}", made.json()["id"].as_str().unwrap());
    assert_eq!(fixture.get(&path).await.body, made.body);
    let updated = fixture
        .post(
            &path,
            r#"{"name":null,"tools":null,"metadata":{},"x_agents_core":null}"#,
        )
        .await
        .json();
    assert_eq!(
        (&updated["name"], &updated["tools"], &updated["metadata"]),
        (&Value::Null, &Value::Array(vec![]), &serde_json::json!({}))
    );
    assert!(updated.get("x_agents_core").is_none());
    assert!(!fixture.dump().await.contains("canary"));
    // S-AG-5, SLC-002
    let unknown = fixture
        .post(
            "/v1/agents",
            r#"{"model":"m","x_agents_core":{"harness":"none_such"}}"#,
        )
        .await
        .json();
    assert_eq!(unknown["error"]["param"], "x_agents_core.harness");
}

both!(a_hosted_session_shows_its_environment);
async fn a_hosted_session_shows_its_environment(database: TestDatabase) {
    // S-SES-1 to S-SES-3, API-053, ENV-022
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let body = r#"{"environment":{"type":"hosted","sandbox_size":"L"},"metadata":{"k":"v"}}"#;
    let made = fixture.post("/v1/agents/sessions", body).await;
    assert_eq!(
        fixed(made.json()),
        r#"{"id":"<id>","object":"agent.session","created_at":"<time>","last_active_at":"<time>","status":"idle","agent":{"id":"<id>","name":null,"model":"default-model","instructions":null,"multi_agent":{"enabled":false,"max_concurrent_subagents":null},"reasoning":{"effort":null,"summary":null},"service_tier":"auto","text":{"format":{"type":"text"},"verbosity":"medium"},"tools":[]},"environment":{"type":"openai_hosted","id":"<id>","capability_directories":[],"files":[],"network":{"access":"enabled","allowed_domains":[]},"packages":{"npm":[],"python":[],"system":[]},"plugins":[],"skills":[],"sandbox_size":"L","sandbox_image":"browser"},"error":null,"metadata":{"k":"v"},"required_actions":[],"usage":null,"vault_ids":[]}"#
    );
    let made = made.json();
    let environment = made["environment"]["id"].as_str().unwrap();
    let shown = fixture
        .get(&format!("/v1/agents/environments/{environment}"))
        .await;
    assert_eq!(
        shown.body,
        format!(
            r#"{{"id":"{environment}","object":"agent.environment","type":"openai_hosted","status":"pending","files":[],"plugins":[],"skills":[]}}"#
        )
    );
    let path = format!("/v1/agents/sessions/{}", made["id"].as_str().unwrap());
    let updated = fixture
        .post(&path, r#"{"metadata":{"x":"y"}}"#)
        .await
        .json();
    assert_eq!(updated["metadata"], serde_json::json!({"x": "y"}));
    assert_eq!(
        fixture.post(&path, "{}").await.json()["error"]["message"],
        "At least one update field is required"
    );
}

both!(the_model_comes_from_the_nearest_choice);
async fn the_model_comes_from_the_nearest_choice(database: TestDatabase) {
    // MDL-006, MDL-010, MDL-012, MDL-013, MDL-034, S-ADM-3
    let fixture = Fixture::on(database).await;
    let none = fixture
        .post("/v1/agents/sessions", r#"{"input":"hi"}"#)
        .await
        .json();
    assert_eq!(
        (&none["error"]["code"], &none["error"]["param"]),
        (
            &"model_provider_required".into(),
            &"x_agents_core.model_provider".into()
        )
    );
    fixture.default_model().await;
    let provider = r#"{"protocol":"responses","base_url":"https://own.example","api_key":"k"}"#;
    let agent = fixture
        .post("/v1/agents", &format!(r#"{{"model":"saved","x_agents_core":{{"model_provider":{provider},"harness_config":{{"effort":"high"}}}}}}"#))
        .await
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let create = async |body: String| fixture.post("/v1/agents/sessions", &body).await.json();
    assert_eq!(create("{}".into()).await["agent"]["model"], "default-model");
    assert_eq!(
        create(r#"{"agent":{"model":"mine"}}"#.into()).await["agent"]["model"],
        "mine"
    );
    let inherited = create(format!(r#"{{"agent_id":"{agent}"}}"#)).await;
    assert_eq!(inherited["agent"]["model"], "saved");
    assert_eq!(
        inherited["x_agents_core"]["harness_config"],
        serde_json::json!({"effort": "high"})
    );
    let overridden = create(format!(
        r#"{{"agent_id":"{agent}","agent":{{"model":"mine"}}}}"#
    ))
    .await;
    assert_eq!(
        (
            &overridden["agent"]["model"],
            &overridden["x_agents_core"]["harness_config"]
        ),
        (&"mine".into(), &serde_json::json!({}))
    );
    let bundle = create(format!(
        r#"{{"x_agents_core":{{"model_provider":{provider}}}}}"#
    ))
    .await;
    assert_eq!(
        bundle["error"]["message"],
        "Missing required parameter: 'agent.model'."
    );
    for body in [
        format!(
            r#"{{"environment":{{"type":"none"}},"input":"x","agent":{{"model":"m"}},"x_agents_core":{{"model_provider":{provider}}}}}"#
        ),
        format!(r#"{{"environment":{{"type":"none"}},"input":"x","agent_id":"{agent}"}}"#),
    ] {
        let refused = create(body).await;
        assert_eq!(refused["error"]["param"], "x_agents_core.model_provider");
    }
}

both!(what_cannot_run_is_refused_and_nothing_is_written);
async fn what_cannot_run_is_refused_and_nothing_is_written(database: TestDatabase) {
    // sessions 2.2, CAP-004, W-ORDER-6, S-MSG-6
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let before = fixture.dump().await;
    for (body, param) in [
        (
            r#"{"agent":{"service_tier":"flex"}}"#,
            Value::from("agent.service_tier"),
        ),
        (
            r#"{"agent":{"text":{"verbosity":"high"}}}"#,
            "agent.text.verbosity".into(),
        ),
        (
            r#"{"agent":{"tools":[{"type":"web_search"}]}}"#,
            "agent.tools[0]".into(),
        ),
        (
            r#"{"agent":{"multi_agent":{"enabled":true}}}"#,
            "agent.multi_agent".into(),
        ),
        (
            r#"{"x_agents_core":{"harness_config":{"effort":"max"}}}"#,
            "x_agents_core.harness_config".into(),
        ),
        (
            r#"{"environment":{"type":"openai_hosted","skills":[{"type":"skill_reference","skill_id":"s"}]}}"#,
            "environment.skills".into(),
        ),
        (r#"{"input":" \n"}"#, Value::Null),
    ] {
        let refused = fixture.post("/v1/agents/sessions", body).await;
        let error = refused.json()["error"].clone();
        assert_eq!(
            (refused.status, &error["code"]),
            (400, &"unsupported_or_invalid_configuration".into()),
            "{body}"
        );
        assert_eq!(error["param"], param, "{body}");
    }
    let session = fixture.dump().await;
    assert_eq!(session, before);
    fixture.session(r#"{"agent":{"text":{"verbosity":"low"},"tools":[{"type":"web_search","mode":"disabled"}]}}"#).await;
}

both!(input_is_admitted_or_refused_whole);
async fn input_is_admitted_or_refused_whole(database: TestDatabase) {
    // S-EV-3, S-EV-9, E400-21, E409-01, ENV-219
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture.session(r#"{"input":"hi"}"#).await;
    let path = format!("/v1/agents/sessions/{session}/events");
    let cancel = r#"{"events":[{"type":"agent.session.input.cancel"}]}"#;
    let before = fixture.dump().await;
    let pending = fixture.post(&path, cancel).await;
    assert_eq!(
        (pending.status, pending.body.as_str()),
        (
            409,
            r#"{"error":{"message":"Earlier input to this Session is still pending.","type":"conflict_error","code":"conflict_error","param":null}}"#
        )
    );
    assert_eq!(pending.header("x-should-retry"), None, "it is transient");
    let busy = fixture
        .send(
            "DELETE",
            &format!("/v1/agents/sessions/{session}"),
            Some(&fixture.key),
            None,
        )
        .await;
    assert_eq!(
        (busy.status, busy.json()["error"]["message"].as_str()),
        (
            409,
            Some("session must be durably idle or failed without required actions before deletion")
        )
    );
    assert_eq!(fixture.dump().await, before);
    let idle = fixture.session("{}").await;
    let path = format!("/v1/agents/sessions/{idle}/events");
    let before = fixture.dump().await;
    let unknown = fixture
        .post(&path, r#"{"events":[{"type":"agent.session.input.tool_result","turn_id":"t","call_id":"call_1","success":true}]}"#)
        .await
        .json();
    assert_eq!(
        unknown.to_string(),
        r#"{"error":{"message":"Unknown pending tool call: call_1","type":"invalid_request_error","code":"invalid_request_error","param":null}}"#
    );
    let empty = fixture.post(&path, r#"{"events":[]}"#).await.json();
    assert_eq!(
        empty.to_string(),
        r#"{"error":{"message":"Invalid resource identifier or request limits.","type":"invalid_request_error","code":"invalid_request","param":null}}"#
    );
    assert_eq!(fixture.dump().await, before);
}

both!(a_waiting_request_hears_the_outcome_of_its_reservation);
async fn a_waiting_request_hears_the_outcome_of_its_reservation(database: TestDatabase) {
    // S-RES-3, ENV-192, E409-10: the deadline is the database's, moved by the test.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture.session("{}").await;
    let path = format!("/v1/agents/sessions/{session}/events");
    // Nobody owns execution when the wait begins: a takeover is not a loss.
    let owner = domain::OwnerId::new(uuid::Uuid::new_v4());
    let message = r#"{"events":[{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}]}"#;
    let expire = async {
        let due = loop {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let shown = fixture
                .get(&format!("/v1/agents/sessions/{session}"))
                .await
                .json();
            assert_eq!(shown["status"], "idle");
            store::testing::move_clock(&fixture.core.store, std::time::Duration::from_secs(301))
                .await
                .unwrap();
            let due = fixture
                .core
                .store
                .read()
                .due_reservations(None, 32)
                .await
                .unwrap();
            if let Some(due) = due.first() {
                break *due;
            }
        };
        let unit = store::units::reservation::ExpireReservation {
            session: due.session,
            reservation: due.reservation,
        };
        fixture
            .core
            .store
            .acquire_lease(owner, domain::lease::Authority::Folder)
            .await
            .unwrap();
        fixture
            .core
            .store
            .write(unit)
            .await
            .map_err(|_| "the reservation expires")
            .unwrap();
    };
    let (answer, ()) = tokio::join!(fixture.post(&path, message), expire);
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (
            409,
            r#"{"error":{"message":"The environment input deadline elapsed before admission.","type":"conflict_error","code":"environment_input_expired","param":null}}"#
        )
    );
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let shown = fixture
        .get(&format!("/v1/agents/sessions/{session}"))
        .await
        .json();
    assert_eq!(
        (&shown["status"], &shown["error"]),
        (&"idle".into(), &Value::Null)
    );
}

both!(without_an_owner_a_waiting_request_is_told_so);
async fn without_an_owner_a_waiting_request_is_told_so(database: TestDatabase) {
    // ENV-197, E503-02: the reservation stays.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture.session("{}").await;
    let path = format!("/v1/agents/sessions/{session}/events");
    let message = r#"{"events":[{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}]}"#;
    let answer = fixture.post(&path, message).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (
            503,
            r#"{"error":{"message":"Execution is not available on this service.","type":"server_error","code":"execution_unavailable","param":null}}"#
        )
    );
    // WB-2: sent again without a key it could be admitted twice.
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert_eq!(
        fixture
            .post(
                &path,
                r#"{"events":[{"type":"agent.session.input.cancel"}]}"#
            )
            .await
            .status,
        409
    );
}

both!(operators_see_causes_and_defaults_without_secrets);
async fn operators_see_causes_and_defaults_without_secrets(database: TestDatabase) {
    // OPS-051, DEF-001 to DEF-003, W-ADM-3
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture.session("{}").await;
    let path = format!(
        "/core/v1/projects/{}/sessions/{session}/diagnostics",
        fixture.project
    );
    let shown = fixture.send("GET", &path, Some(CORE_KEY), None).await;
    assert_eq!(
        shown.body,
        format!(
            r#"{{"object":"core.session_diagnostics","session_id":"{session}","status":"idle","failure":null,"environment_status":"pending"}}"#
        )
    );
    let model = "/core/v1/harnesses/test/model-configuration";
    let put = async |body: &str| {
        fixture
            .send("PUT", model, Some(CORE_KEY), Some(body))
            .await
            .json()["error"]
            .clone()
    };
    let provider = |members: &str| format!(r#"{{"model":"m","model_provider":{{{members}}}}}"#);
    for (body, code, param) in [
        ("{}".to_owned(), "invalid_model_provider", Value::Null),
        (
            provider(r#""base_url":"http://h","protocol":"x""#),
            "model_provider_base_url_invalid",
            "base_url".into(),
        ),
        (
            provider(r#""base_url":"https://h","protocol":"x""#),
            "model_provider_protocol_unsupported",
            "protocol".into(),
        ),
        (
            provider(r#""base_url":"https://h","protocol":"anthropic""#),
            "model_provider_api_key_invalid",
            "api_key".into(),
        ),
        (
            provider(
                r#""base_url":"https://h","protocol":"anthropic","api_key":"k","context_window":-1"#,
            ),
            "model_provider_token_limits_invalid",
            "context_window".into(),
        ),
        (
            provider(r#""base_url":"https://h","protocol":"anthropic","api_key":"k""#),
            "model_provider_protocol_unsupported",
            "protocol".into(),
        ),
    ] {
        let error = put(&body).await;
        assert_eq!(
            (&error["code"], &error["param"]),
            (&code.into(), &param),
            "{body}"
        );
    }
    let error = put(&provider(r#""base_url":"https://h","protocol":"x""#)).await;
    assert_eq!(
        error["details"],
        serde_json::json!({"allowed_protocols": ["responses"]})
    );
    let list = fixture
        .send("GET", "/core/v1/harnesses", Some(CORE_KEY), None)
        .await
        .json();
    assert_eq!(
        list["data"][0]["model_configuration"]["model"],
        "default-model"
    );
    for status in [204, 204] {
        assert_eq!(
            fixture
                .send("DELETE", model, Some(CORE_KEY), None)
                .await
                .status,
            status
        );
    }
    assert_eq!(
        fixture
            .send("GET", model, Some(CORE_KEY), None)
            .await
            .status,
        404
    );
}
