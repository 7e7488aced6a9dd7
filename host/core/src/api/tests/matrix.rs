//! Every route of the table, with every credential and every kind of id (W-AUTH, W-ID-3, W-AUTH-4, W-ORDER-6, OPS-002).

use store::testing::TestDatabase;

use super::fixture::{Answered, CORE_KEY, Fixture, Part};
use crate::api::route::{Route, Space, Verb};
use crate::api::rows;

const UNAUTHORIZED: &str = r#"{"error":{"message":"A valid Agents API bearer key is required.","type":"invalid_request_error","code":null,"param":null}}"#;
const NO_CORE_KEY: &str = r#"{"error":{"message":"A valid Core key is required as the bearer credential.","type":"invalid_request_error","code":"invalid_admin_key","param":null}}"#;
const REJECTED: &str = r#"{"error":{"message":"A valid Agents API bearer key is required.","type":"invalid_request_error","code":"invalid_api_key","param":null}}"#;
const MISSING: &str = r#"{"error":{"message":"Resource not found.","type":"not_found_error","code":"not_found_error","param":null}}"#;

/// The 404 of a row (E404-01, E404-02).
fn missing(row: &Route) -> String {
    if row.space == (Space::Public { beta: true }) {
        return MISSING.to_owned();
    }
    let param = if row.path.starts_with("/v1/files") {
        r#""id""#
    } else {
        "null"
    };
    format!(
        r#"{{"error":{{"message":"Resource not found.","type":"invalid_request_error","code":null,"param":{param}}}}}"#
    )
}

/// The path of a row with every parameter replaced.
fn path(row: &Route, id: &str) -> String {
    let segments = row.path.split('/').map(|segment| {
        if segment.starts_with('{') {
            id
        } else {
            segment
        }
    });
    segments.collect::<Vec<_>>().join("/")
}

/// A body that a row accepts as far as shapes go.
fn body(row: &Route) -> Option<&'static str> {
    match row.shapes.0 {
        "" => None,
        "AgentCreate" => Some(r#"{"model":"m"}"#),
        "SessionUpdate" => Some(r#"{"metadata":{"a":"b"}}"#),
        "EventsCreate" => Some(r#"{"events":[{"type":"agent.session.input.cancel"}]}"#),
        "Name" => Some(r#"{"name":"n"}"#),
        "SkillUpdate" => Some(r#"{"default_version":"1"}"#),
        "CredentialCreate" => Some(
            r#"{"name":"n","auth":{"type":"static_bearer","mcp_server_url":"https://h","token":"t"}}"#,
        ),
        "CredentialRotate" => Some(r#"{"auth":{"type":"static_bearer","token":"t"}}"#),
        _ => Some("{}"),
    }
}

/// A request that is right but for its credential or its ids: JSON, or a form with a Skill.
async fn send(fixture: &Fixture, row: &Route, path: &str, key: Option<&str>) -> Answered {
    match row.shapes.0 {
        "SkillUpload" | "SkillVersionUpload" => {
            let text = b"---\nname: a\ndescription: b\n---";
            let parts = [Part::file("files[]", "a/SKILL.md", text)];
            fixture.form(path, key, &parts).await
        }
        _ => fixture.send(row.verb.name(), path, key, body(row)).await,
    }
}

both!(credentials_work_in_their_own_space_only);
async fn credentials_work_in_their_own_space_only(database: TestDatabase) {
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let before = fixture.dump().await;
    let never = "ffffffff-ffff-ffff-ffff-ffffffffffff";
    for row in rows::table().rows() {
        let (wrong, text): (&[Option<&str>], _) = match row.space {
            Space::Public { .. } => (
                &[None, Some("berth_sk_wrong"), Some(CORE_KEY)],
                UNAUTHORIZED,
            ),
            Space::Admin => (
                &[None, Some("berth_sk_one"), Some("oac_admin_wrong")],
                NO_CORE_KEY,
            ),
            Space::Machine | Space::Open => continue,
        };
        for key in wrong {
            let answer = send(&fixture, row, &path(row, never), *key).await;
            // W-AUTH-6: outside the Beta a rejected key is named.
            let named = row.space == (Space::Public { beta: false }) && key.is_some();
            assert_eq!(
                (answer.status, answer.body.as_str()),
                (401, if named { REJECTED } else { text }),
                "{} {}",
                row.verb.name(),
                row.path
            );
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(
        fixture.dump().await,
        before,
        "a refused request writes nothing"
    );
}

both!(missing_malformed_and_foreign_ids_are_one_answer);
async fn missing_malformed_and_foreign_ids_are_one_answer(database: TestDatabase) {
    // W-ID-3, W-AUTH-4: byte for byte, on every public route with an id, and nothing is written.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let agent = fixture.post("/v1/agents", r#"{"model":"m"}"#).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let session = fixture
        .post("/v1/agents/sessions", r#"{"input":"hi"}"#)
        .await
        .json();
    let environment = session["environment"]["id"].as_str().unwrap().to_owned();
    let session = session["id"].as_str().unwrap().to_owned();
    let file = fixture.file("a.txt", b"a").await;
    let skill = fixture.skill("---\nname: a\ndescription: b\n---").await;
    let vault = fixture.post("/v1/vaults", "{}").await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let template = fixture
        .post("/v1/agents/environments/templates", "{}")
        .await
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let before = fixture.dump().await;
    for row in rows::table().rows() {
        if !row.path.contains('{') || !matches!(row.space, Space::Public { .. }) {
            continue;
        }
        let own = if row.path.contains("{agent_id}") {
            &agent
        } else if row.path.contains("{environment_id}") {
            &environment
        } else if row.path.contains("{environment_template_id}") {
            &template
        } else if row.path.contains("{file_id}") {
            &file
        } else if row.path.contains("{skill_id}") {
            &skill
        } else if row.path.contains("{vault_id}") {
            &vault
        } else {
            &session
        };
        let method = row.verb.name();
        for id in [
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "0",
            "%ff",
            "a%2Fb",
            "env_0",
            own.as_str(),
        ] {
            let answer = send(&fixture, row, &path(row, id), Some(&fixture.other)).await;
            assert_eq!(
                (answer.status, answer.body),
                (404, missing(row)),
                "{method} {} {id}",
                row.path
            );
        }
    }
    assert_eq!(fixture.dump().await, before);
}

both!(other_spellings_of_an_id_resolve);
async fn other_spellings_of_an_id_resolve(database: TestDatabase) {
    // W-ID-2
    let fixture = Fixture::on(database).await;
    let id = fixture.post("/v1/agents", r#"{"model":"m"}"#).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for spelling in [
        id.to_uppercase(),
        format!("%7B{id}%7D"),
        format!("urn:uuid:{id}"),
        format!("urn%3auuid%3A{id}"),
    ] {
        let answer = fixture.get(&format!("/v1/agents/{spelling}")).await;
        assert_eq!(
            (answer.status, answer.json()["id"].as_str()),
            (200, Some(id.as_str())),
            "{spelling}"
        );
    }
}

both!(invalid_bodies_answer_the_same_for_every_id);
async fn invalid_bodies_answer_the_same_for_every_id(database: TestDatabase) {
    // W-ORDER-4: the gate and the shapes come before any look-up.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture.session(r#"{"input":"hi"}"#).await;
    let before = fixture.dump().await;
    for body in [
        "[]",
        "{",
        r#"{"metadata":{"a":1}}"#,
        r#"{"x":1}"#,
        r#"{"a":1,"a":2}"#,
    ] {
        let mut answers = Vec::new();
        for id in [
            session.as_str(),
            "0",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ] {
            for key in [&fixture.key, &fixture.other] {
                let path = format!("/v1/agents/sessions/{id}");
                let answer = fixture.send("POST", &path, Some(key), Some(body)).await;
                answers.push((answer.status, answer.body));
            }
        }
        assert!(
            answers
                .iter()
                .all(|answer| *answer == answers[0] && answer.0 == 400),
            "{body}: {answers:?}"
        );
    }
    assert_eq!(fixture.dump().await, before);
}

both!(a_revoked_key_and_an_archived_project_stop_at_once);
async fn a_revoked_key_and_an_archived_project_stop_at_once(database: TestDatabase) {
    // W-AUTH-2, OPS-034, OPS-035
    let fixture = Fixture::on(database).await;
    assert_eq!(fixture.get("/v1/agents").await.status, 200);
    let path = format!(
        "/core/v1/projects/{}/keys/{}",
        fixture.project, fixture.key_id
    );
    let revoked = fixture.send("DELETE", &path, Some(CORE_KEY), None).await;
    assert_eq!(revoked.status, 200, "{}", revoked.body);
    assert_eq!(fixture.get("/v1/agents").await.body, UNAUTHORIZED);
    let issued = fixture
        .send(
            "POST",
            &format!("/core/v1/projects/{}/keys", fixture.project),
            Some(CORE_KEY),
            Some(r#"{"name":"n"}"#),
        )
        .await
        .json();
    let key = issued["key"].as_str().unwrap();
    assert_eq!(
        fixture
            .send("GET", "/v1/agents", Some(key), None)
            .await
            .status,
        200
    );
    let archive = format!("/core/v1/projects/{}/archive", fixture.project);
    let archived = fixture.send("POST", &archive, Some(CORE_KEY), None).await;
    assert_eq!(
        (
            archived.status,
            archived.json()["active_key_count"].as_u64()
        ),
        (200, Some(0))
    );
    assert_eq!(
        fixture
            .send("GET", "/v1/agents", Some(key), None)
            .await
            .body,
        UNAUTHORIZED
    );
    let again = fixture
        .send(
            "POST",
            &format!("/core/v1/projects/{}/keys", fixture.project),
            Some(CORE_KEY),
            Some(r#"{"name":"n"}"#),
        )
        .await;
    assert_eq!(
        (again.status, again.json()["error"]["code"].as_str()),
        (409, Some("project_archived"))
    );
    assert!(
        !fixture.dump().await.contains(key),
        "only the digest of a key is stored"
    );
}

#[test]
fn the_table_names_every_operation_once() {
    // W-ROUTE-1
    let table = rows::table();
    let mut seen = std::collections::BTreeSet::new();
    for row in table.rows() {
        assert!(
            seen.insert((row.path, row.verb)),
            "{} {}",
            row.verb.name(),
            row.path
        );
        assert_eq!(
            row.space,
            crate::api::dispatch::space_of(row.path),
            "{}",
            row.path
        );
        assert_eq!(
            row.list.is_some() || row.path == "/core/v1/harnesses",
            row.shapes.1.starts_with("L(")
                || matches!(row.shapes.1, "Projects" | "Keys" | "Harnesses"),
            "{}",
            row.path
        );
        assert!(
            row.verb != Verb::Get || row.shapes.0.is_empty(),
            "{}",
            row.path
        );
    }
}
