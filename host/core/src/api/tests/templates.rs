//! Templates and Vaults at the creation of a Session (ENV-444 to ENV-459, SEL-001 to SEL-018).

use store::testing::TestDatabase;

use super::fixture::{Fixture, read};

const SESSIONS: &str = "/v1/agents/sessions";
const TEMPLATES: &str = "/v1/agents/environments/templates";

async fn make(fixture: &Fixture, key: &str, path: &str, body: &str) -> String {
    let made = fixture.send("POST", path, Some(key), Some(body)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.json()["id"].as_str().unwrap().to_owned()
}

fn with_template(id: &str, members: &str) -> String {
    format!(
        r#"{{"environment":{{"type":"openai_hosted","environment_template_id":"{id}"{members}}}}}"#
    )
}

both!(a_template_is_resolved_once_at_creation);
async fn a_template_is_resolved_once_at_creation(database: TestDatabase) {
    // ENV-440, ENV-444 to ENV-446, ENV-450, W-IDEM-6, ENV-435
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let template = make(&fixture, &fixture.key, TEMPLATES, r#"{"name":"t"}"#).await;
    let create = async |retry: &str, body: &str| {
        let headers = [("idempotency-key", retry)];
        let answer = fixture.open("POST", SESSIONS, Some(&fixture.key), Some(body), &headers);
        read(answer.await).await
    };
    let body = with_template(&template, "");
    let made = create("k", &body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(
        !made.body.contains(&template),
        "the Template's id stays behind"
    );
    // The portable part is the same request; what it would inherit is part of the intent.
    let portable = format!(
        r#"{{"x_agents_core":{{"environment":{{"environment_template_id":"{template}"}}}}}}"#
    );
    assert_eq!(create("k", &portable).await.body, made.body);
    let other = with_template(&template, r#","files":null"#);
    assert_eq!(
        create("k", &other).await.json()["error"]["code"],
        "idempotency_conflict"
    );
    let path = format!("{TEMPLATES}/{template}");
    let changed = fixture.post(&path, r#"{"env":{"A":"b"}}"#).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert_eq!(
        create("k", &body).await.body,
        made.body,
        "before the Template is read"
    );
    let before = fixture.dump().await;
    let now = create("new", &body).await.json();
    assert_eq!(now["error"]["param"], "environment.environment_template_id");
    let emptied = fixture.post(&path, r#"{"env":null}"#).await;
    assert_eq!(emptied.status, 200);
    let gone = fixture
        .send("DELETE", &path, Some(&fixture.key), None)
        .await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    assert_eq!(create("k", &body).await.body, made.body);
    let foreign = make(&fixture, &fixture.other, TEMPLATES, "{}").await;
    for id in [
        template.as_str(),
        &foreign,
        "x",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ] {
        let missing = create("", &with_template(id, "")).await;
        assert_eq!(
            (missing.status, missing.json()["error"]["code"].as_str()),
            (404, Some("not_found_error")),
            "{id}"
        );
    }
    let kept = |dump: &str| {
        dump.lines()
            .filter(|line| line.starts_with("sessions "))
            .count()
    };
    assert_eq!(kept(&fixture.dump().await), kept(&before));
}

both!(what_nothing_prepares_is_refused_before_anything_is_stored);
async fn what_nothing_prepares_is_refused_before_anything_is_stored(database: TestDatabase) {
    // E400-23, E400-30, E400-31, ENV-066, ENV-324, ENV-453, ENV-474, ENV-482a, S-ADM-6, S-SES-13
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let template = async |body: &str| make(&fixture, &fixture.key, TEMPLATES, body).await;
    let disabled = template(r#"{"network":{"access":"disabled"}}"#).await;
    let full = template(
        r#"{"packages":{"npm":["a"]},"setup_commands":[{"command":"x"}],"env":{"A":"b"},"capability_directories":["/workspace/a"]}"#,
    )
    .await;
    let own = |members: &str| format!(r#"{{"environment":{{"type":"openai_hosted",{members}}}}}"#);
    let at = "environment.environment_template_id";
    let configuration = "unsupported_or_invalid_configuration";
    let shape = "invalid_request_error";
    let before = fixture.dump().await;
    for (body, code, param) in [
        (with_template(&disabled, ""), configuration, at),
        (with_template(&full, ""), configuration, at),
        (
            with_template(&disabled, r#","network":{"access":"enabled"}"#),
            shape,
            "environment.network",
        ),
        (
            with_template(&full, r#","network":{"access":"disabled"}"#),
            configuration,
            at,
        ),
        (own(r#""env":{"A":"b"}"#), configuration, "environment.env"),
        (
            own(r#""files":[{"type":"inline","data":"YQ==","path":"/workspace/a"}]"#),
            configuration,
            "environment.files",
        ),
        (
            own(r#""network":{"access":"disabled"}"#),
            configuration,
            "environment.network.access",
        ),
        (own(r#""packages":{"python":["a"]}"#), configuration, "environment.packages"),
        (own(r#""packages":{"system":null}"#), shape, "packages.system"),
        (own(r#""env":{"CODEX_HOME":"b"}"#), shape, "environment.env.CODEX_HOME"),
        (
            r#"{"x_agents_core":{"environment":{"setup_commands":[{"command":"x"}]}}}"#.to_owned(),
            configuration,
            "x_agents_core.environment.setup_commands",
        ),
        (
            r#"{"environment":{"type":"openai_hosted","skills":null},"x_agents_core":{"environment":{"skills":[]}}}"#.to_owned(),
            shape,
            "x_agents_core.environment.skills",
        ),
    ] {
        let refused = fixture.post(SESSIONS, &body).await;
        let error = refused.json()["error"].clone();
        assert_eq!(
            (refused.status, error["code"].as_str(), error["param"].as_str()),
            (400, Some(code), Some(param)),
            "{body}: {}",
            refused.body
        );
    }
    assert_eq!(fixture.dump().await, before);
    // Everything emptied, and a Template that needs nothing: both can run.
    let emptied = r#","packages":{"npm":[]},"setup_commands":[],"capability_directories":[]"#;
    let plain = template(r#"{"name":"p","env":{}}"#).await;
    for body in [with_template(&plain, emptied), with_template(&plain, "")] {
        let made = fixture.post(SESSIONS, &body).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
}

both!(vaults_are_attached_and_shown);
async fn vaults_are_attached_and_shown(database: TestDatabase) {
    // SEL-001, SEL-014, SEL-017, DEL-003, S-SES-12
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let one = make(&fixture, &fixture.key, "/v1/vaults", "{}").await;
    let two = make(&fixture, &fixture.key, "/v1/vaults", "{}").await;
    let foreign = make(&fixture, &fixture.other, "/v1/vaults", "{}").await;
    let create = async |vaults: &str| {
        fixture
            .post(SESSIONS, &format!(r#"{{"vault_ids":{vaults}}}"#))
            .await
    };
    for none in ["null", "[]"] {
        assert_eq!(
            create(none).await.json()["vault_ids"],
            serde_json::json!([])
        );
    }
    let made = create(&format!(r#"["{two}","{one}","{}"]"#, two.to_uppercase())).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.json()["vault_ids"], serde_json::json!([two, one]));
    let before = fixture.dump().await;
    for missing in [
        foreign.as_str(),
        "x",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ] {
        let refused = create(&format!(r#"["{one}","{missing}"]"#)).await;
        assert_eq!(refused.status, 404, "{}", refused.body);
    }
    assert_eq!(fixture.dump().await, before);
    let gone = fixture
        .send(
            "DELETE",
            &format!("/v1/vaults/{two}"),
            Some(&fixture.key),
            None,
        )
        .await;
    assert_eq!(gone.status, 200);
    let path = format!("{SESSIONS}/{}", made.json()["id"].as_str().unwrap());
    assert_eq!(
        fixture.get(&path).await.json()["vault_ids"],
        serde_json::json!([two, one])
    );
    assert_eq!(create(&format!(r#"["{two}"]"#)).await.status, 404);
}
