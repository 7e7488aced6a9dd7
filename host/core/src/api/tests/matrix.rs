//! Every route of the table, with every credential and every kind of id (W-AUTH, W-ID-3, W-AUTH-4, W-ORDER-6, OPS-002).

use std::collections::BTreeMap;

use domain::lease::Authority;
use domain::{DeviceId, Digest, OwnerId};
use store::Acquired;
use store::testing::TestDatabase;
use store::units::device::PutSharedDevice;

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

const NEVER: &str = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/// One of each resource of a Project, by the parameter that names it.
async fn resources(fixture: &Fixture, key: &str) -> BTreeMap<&'static str, String> {
    let post = async |path: &str, body: &str| {
        let made = fixture.send("POST", path, Some(key), Some(body)).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.json()
    };
    let id = |value: &serde_json::Value| value["id"].as_str().unwrap().to_owned();
    let vault = id(&post("/v1/vaults", "{}").await);
    let credential =
        r#"{"name":"n","auth":{"type":"static_bearer","mcp_server_url":"https://h","token":"t"}}"#;
    let session = id(&post(
        "/v1/agents/sessions",
        r#"{"environment":{"type":"none"},"input":"hi"}"#,
    )
    .await);
    let turns = format!("/v1/agents/sessions/{session}/turns");
    let turns = fixture.send("GET", &turns, Some(key), None).await.json();
    let hosted = post("/v1/agents/sessions", "{}").await;
    let form = async |path: &str, parts: &[Part]| {
        let made = fixture.form(path, Some(key), parts).await;
        assert_eq!(made.status, 200, "{}", made.body);
        id(&made.json())
    };
    let file = [
        Part::field("purpose", "user_data"),
        Part::file("file", "f", b"x"),
    ];
    let skill = [Part::file(
        "files[]",
        "a/SKILL.md",
        b"---\nname: a\ndescription: b\n---",
    )];
    BTreeMap::from([
        (
            "agent_id",
            id(&post("/v1/agents", r#"{"model":"m"}"#).await),
        ),
        ("session_id", session),
        ("turn_id", id(&turns["data"][0])),
        ("environment_id", id(&hosted["environment"])),
        (
            "environment_template_id",
            id(&post("/v1/agents/environments/templates", "{}").await),
        ),
        ("file_id", form("/v1/files", &file).await),
        ("skill_id", form("/v1/skills", &skill).await),
        ("version", "1".to_owned()),
        (
            "credential_id",
            id(&post(&format!("/v1/vaults/{vault}/credentials"), credential).await),
        ),
        ("vault_id", vault),
    ])
}

/// The parameters of a row, in the order of its path.
fn parameters(row: &Route) -> Vec<&'static str> {
    let segments = row.path.split('/');
    segments
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .collect()
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
        "SessionArchive" => Some(r#"{"expected_generation":1}"#),
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
    let device = "the_credential_of_a_device";
    let owner = OwnerId::new(uuid::Uuid::new_v4());
    let taken = fixture
        .core
        .store
        .acquire_lease(owner, Authority::Folder)
        .await;
    assert!(matches!(taken, Ok(Acquired::Held(_))));
    let unit = PutSharedDevice {
        device: DeviceId::new(uuid::Uuid::new_v4()),
        credential: Digest::of(device.as_bytes()),
    };
    assert!(fixture.core.store.write(unit).await.is_ok());
    let before = fixture.dump().await;
    for row in rows::table().rows() {
        let (wrong, text): (&[Option<&str>], _) = match row.space {
            Space::Public { .. } => (
                &[None, Some("berth_sk_wrong"), Some(CORE_KEY), Some(device)],
                UNAUTHORIZED,
            ),
            Space::Admin => (
                &[
                    None,
                    Some("berth_sk_one"),
                    Some("oac_admin_wrong"),
                    Some(device),
                ],
                NO_CORE_KEY,
            ),
            Space::Machine | Space::Open => continue,
        };
        for key in wrong {
            let answer = send(&fixture, row, &path(row, NEVER), *key).await;
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
    // W-ID-3, W-AUTH-4: byte for byte, for every parameter of every route, and nothing is written. The parameters before it
    // name what there is, so that a child is also looked for below a parent that exists.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let own = resources(&fixture, &fixture.key).await;
    let foreign = resources(&fixture, &fixture.other).await;
    let before = fixture.dump().await;
    let mut seen = 0;
    for row in rows::table().rows() {
        let admin = row.space == Space::Admin;
        if !matches!(row.space, Space::Public { .. } | Space::Admin) {
            continue;
        }
        let names = parameters(row);
        for (at, name) in names.iter().enumerate() {
            // A Project or a harness is looked at by the tests of administration.
            if matches!(*name, "project_id" | "harness_id" | "key_id") {
                continue;
            }
            let theirs = foreign.get(name).map_or(NEVER, String::as_str);
            let strange = if *name == "version" { "99" } else { theirs };
            let mut first = None;
            for bad in [NEVER, "0", "%ff", "a%2Fb", "env_0", strange] {
                let mut path = row.path.to_owned();
                for (index, name) in names.iter().enumerate() {
                    let value = match index.cmp(&at) {
                        std::cmp::Ordering::Equal => bad,
                        _ if *name == "project_id" => &fixture.project.to_string(),
                        _ => own.get(name).map_or(NEVER, String::as_str),
                    };
                    path = path.replace(&format!("{{{name}}}"), value);
                }
                let key = if admin { CORE_KEY } else { &fixture.key };
                let answer = send(&fixture, row, &path, Some(key)).await;
                let got = (answer.status, answer.body);
                if !admin {
                    assert_eq!(got, (404, missing(row)), "{} {path}", row.verb.name());
                }
                assert_eq!(got.0, 404, "{} {path}: {}", row.verb.name(), got.1);
                let first = first.get_or_insert_with(|| got.clone());
                assert_eq!(*first, got, "{} {path}", row.verb.name());
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "the table was walked: {seen}");
    assert_eq!(fixture.dump().await, before);
}

both!(another_projects_key_finds_nothing);
async fn another_projects_key_finds_nothing(database: TestDatabase) {
    // W-AUTH-4: with all ids right but the key another Project's, every route answers as if nothing existed.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let own = resources(&fixture, &fixture.key).await;
    let before = fixture.dump().await;
    for row in rows::table().rows() {
        let names = parameters(row);
        if names.is_empty() || !matches!(row.space, Space::Public { .. }) {
            continue;
        }
        let mut path = row.path.to_owned();
        for name in &names {
            let value = own.get(name).map_or(NEVER, String::as_str);
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let answer = send(&fixture, row, &path, Some(&fixture.other)).await;
        assert_eq!(
            (answer.status, answer.body),
            (404, missing(row)),
            "{} {path}",
            row.verb.name()
        );
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
