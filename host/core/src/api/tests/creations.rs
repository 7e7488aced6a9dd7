//! Every public row that makes a resource, under an `Idempotency-Key` (`wire.md` 10, WB-4, F20): generated from the route table.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use store::testing::TestDatabase;

use super::fixture::{Answered, Fixture, Part, read};
use crate::api::route::Route;
use crate::api::rows;

const CONFLICT: &str = r#"{"error":{"message":"This idempotency key was used with different input.","type":"conflict_error","code":"idempotency_conflict","param":null}}"#;

/// What a request carries; requests of two words differ.
enum Sent {
    Json(String),
    Form(Vec<Part>),
}

fn request(row: &Route, word: &str) -> Sent {
    let manifest = || {
        let text = format!("---\nname: a\ndescription: {word}\n---");
        Part::file("files[]", "a/SKILL.md", text.as_bytes())
    };
    match row.shapes.0 {
        "AgentCreate" => Sent::Json(format!(
            r#"{{"model":"m","x_agents_core":{{"model_provider":{{"protocol":"responses","base_url":"https://h/v1","api_key":"{word}"}}}}}}"#
        )),
        "SessionCreate" => Sent::Json(format!(r#"{{"metadata":{{"k":"{word}"}}}}"#)),
        "TemplateCreate" => Sent::Json(format!(r#"{{"env":{{"A":"{word}"}}}}"#)),
        "VaultCreate" => Sent::Json(format!(r#"{{"name":"{word}"}}"#)),
        "CredentialCreate" => Sent::Json(format!(
            r#"{{"name":"n","auth":{{"type":"static_bearer","mcp_server_url":"https://h","token":"{word}"}}}}"#
        )),
        "FileUpload" => Sent::Form(vec![
            Part::field("purpose", "user_data"),
            Part::file("file", "f", word.as_bytes()),
        ]),
        "SkillUpload" | "SkillVersionUpload" => Sent::Form(vec![manifest()]),
        other => panic!("a request of {other} is missing here"),
    }
}

async fn send(
    fixture: &Fixture,
    row: &Route,
    path: &str,
    key: &str,
    word: &str,
    retry: &str,
) -> Answered {
    let headers = [("idempotency-key", retry)];
    match request(row, word) {
        Sent::Json(body) => {
            let answer = fixture.open("POST", path, Some(key), Some(&body), &headers);
            read(answer.await).await
        }
        Sent::Form(parts) => fixture.form_with(path, Some(key), &parts, &headers).await,
    }
}

fn id(answer: &Answered) -> String {
    assert!(matches!(answer.status, 200 | 201), "{}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

both!(a_key_makes_one_resource_on_every_route);
async fn a_key_makes_one_resource_on_every_route(database: TestDatabase) {
    // F20, W-IDEM-1 to W-IDEM-3, W-IDEM-5, W-IDEM-7, W-IDEM-11, WB-4. One key serves all kinds: each has keys of its own.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let vault = id(&fixture.post("/v1/vaults", "{}").await);
    let skill = fixture.skill("---\nname: a\ndescription: b\n---").await;
    for row in rows::table().rows().iter().filter(|row| row.creates()) {
        let path = row
            .path
            .replace("{vault_id}", &vault)
            .replace("{skill_id}", &skill);
        let (key, kind) = (&fixture.key, row.shapes.0);
        let answers = join_all((0..20).map(|_| send(&fixture, row, &path, key, "one", "k"))).await;
        let made = id(&answers[0]);
        assert!(
            answers
                .iter()
                .all(|answer| answer.status == answers[0].status && id(answer) == made),
            "{kind}"
        );
        let before = fixture.dump().await;
        let again = send(&fixture, row, &path, key, "one", "k").await;
        assert_eq!(
            (again.status, &again.body),
            (answers[0].status, &answers[0].body),
            "{kind}"
        );
        let other = send(&fixture, row, &path, key, "two", "k").await;
        assert_eq!(
            (other.status, other.body.as_str()),
            (409, CONFLICT),
            "{kind}"
        );
        for bad in ["\t", "x".repeat(129).as_str()] {
            let refused = send(&fixture, row, &path, key, "one", bad).await;
            let code = refused.json()["error"]["code"].clone();
            assert_eq!(
                (refused.status, code),
                (400, "invalid_request".into()),
                "{kind}"
            );
        }
        assert_eq!(
            fixture.dump().await,
            before,
            "{kind}: a repetition writes nothing"
        );
        let plain = domain::Digest::of(b"one").to_string();
        let secret = matches!(kind, "AgentCreate" | "CredentialCreate" | "TemplateCreate");
        assert!(
            !secret || !before.contains(&plain),
            "{kind}: a secret is stored as a plain digest"
        );
        assert_ne!(
            id(&send(&fixture, row, &path, key, "one", "l").await),
            made,
            "{kind}"
        );
        assert_ne!(
            id(&send(&fixture, row, &path, key, "one", "").await),
            made,
            "{kind}"
        );
        // W-AUTH-3: the key is the Project's.
        if !row.path.contains('{') {
            let foreign = send(&fixture, row, &path, &fixture.other, "one", "k").await;
            assert_ne!(id(&foreign), made, "{kind}");
        }
        // W-IDEM-5: it stays taken when the resource is gone.
        let named = match answers[0].json()["version"].as_str() {
            Some(version) => version.to_owned(),
            None => made,
        };
        let gone = fixture
            .send("DELETE", &format!("{path}/{named}"), Some(key), None)
            .await;
        assert_eq!(gone.status, 200, "{kind}: {}", gone.body);
        let late = send(&fixture, row, &path, key, "one", "k").await;
        assert_eq!((late.status, late.body.as_str()), (409, CONFLICT), "{kind}");
    }
}

both!(a_repetition_shows_the_resource_as_it_is_now);
async fn a_repetition_shows_the_resource_as_it_is_now(database: TestDatabase) {
    // W-IDEM-4, W-IDEM-6: what the request named may be gone by then.
    let fixture = Fixture::on(database).await;
    let file = fixture.file("f", b"x").await;
    let path = "/v1/agents/environments/templates";
    let body = format!(
        r#"{{"name":"a","files":[{{"type":"file_id","file_id":"{file}","path":"/workspace/f"}}]}}"#
    );
    let create = async || {
        let headers = [("idempotency-key", "k")];
        let answer = fixture.open("POST", path, Some(&fixture.key), Some(&body), &headers);
        read(answer.await).await
    };
    let made = id(&create().await);
    let gone = fixture
        .send(
            "DELETE",
            &format!("/v1/files/{file}"),
            Some(&fixture.key),
            None,
        )
        .await;
    assert_eq!(gone.status, 200);
    let renamed = fixture
        .post(&format!("{path}/{made}"), r#"{"name":"b"}"#)
        .await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);
    let again = create().await;
    assert_eq!(
        (id(&again), again.json()["name"].as_str()),
        (made, Some("b"))
    );
}

#[test]
fn the_document_names_the_key_where_it_counts() {
    // WB-4, W-IDEM-1
    let document = crate::api::openapi::build(rows::table().rows()).unwrap();
    let mut named = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let takes_key = operation["parameters"]
                .to_string()
                .contains("Idempotency-Key");
            let status = |code: &str| operation["responses"].get(code).is_some();
            let uploads = operation["requestBody"]["content"]
                .get("multipart/form-data")
                .is_some();
            assert_eq!(
                takes_key,
                status("201") || status("202") || uploads,
                "{method} {path}"
            );
            named += usize::from(takes_key);
        }
    }
    assert_eq!(named, 9);
}

#[tokio::test]
async fn a_creation_hears_of_the_first_thing_that_is_wrong() {
    // S-SES-7: model, then Vaults, then harness and admission, then what this service can do at all
    let fixture = Fixture::on(TestDatabase::sqlite()).await;
    fixture.default_model().await;
    fixture.core.hosts.store(false, Ordering::SeqCst);
    let none = r#""environment":{"type":"none"},"input":"x","#;
    let bundle = r#""x_agents_core":{"model_provider":{"protocol":"responses","base_url":"https://h/v1","api_key":"k"}},"#;
    let vault = r#""vault_ids":["v"],"#;
    let harness = r#""agent":{"model":"m","x_agents_core":{"harness":"nobody"}}"#;
    let loud = r#""agent":{"model":"m","text":{"verbosity":"high"}}"#;
    for (body, status, param) in [
        (
            format!("{none}{bundle}{vault}{harness}"),
            400,
            Some("x_agents_core.model_provider"),
        ),
        (format!("{none}{vault}{harness}"), 404, None),
        (
            format!("{none}{harness}"),
            400,
            Some("agent.x_agents_core.harness"),
        ),
        (format!("{bundle}{vault}{harness}"), 404, None),
        (
            format!("{bundle}{harness}"),
            400,
            Some("agent.x_agents_core.harness"),
        ),
        (loud.to_owned(), 400, Some("agent.text.verbosity")),
        (r#""agent":{"model":"m"}"#.to_owned(), 503, None),
    ] {
        let answer = fixture
            .post("/v1/agents/sessions", &format!("{{{body}}}"))
            .await;
        let error = &answer.json()["error"];
        assert_eq!(
            (answer.status, error["param"].as_str()),
            (status, param),
            "{body}: {}",
            answer.body
        );
    }
}
