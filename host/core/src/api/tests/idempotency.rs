//! Retries and races of creation (`wire.md` 10, F20).

use futures_util::future::join_all;
use store::testing::TestDatabase;

use super::fixture::{Fixture, read};

const CREATE: &str = r#"{"input":"hi"}"#;
const CONFLICT: &str = r#"{"error":{"message":"This idempotency key was used with different input.","type":"conflict_error","code":"idempotency_conflict","param":null}}"#;

async fn create(fixture: &Fixture, key: &str, body: &str) -> (u16, String) {
    let headers = [("idempotency-key", key)];
    let answer = read(
        fixture
            .open(
                "POST",
                "/v1/agents/sessions",
                Some(&fixture.key),
                Some(body),
                &headers,
            )
            .await,
    )
    .await;
    match answer.status {
        201 => (201, answer.json()["id"].as_str().unwrap().to_owned()),
        status => (status, answer.body),
    }
}

both!(fifty_creations_with_one_key_make_one_session);
async fn fifty_creations_with_one_key_make_one_session(database: TestDatabase) {
    // F20, W-IDEM-11
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let answers = join_all((0..50).map(|_| create(&fixture, "k", CREATE))).await;
    assert!(
        answers
            .iter()
            .all(|answer| *answer == answers[0] && answer.0 == 201),
        "{answers:?}"
    );
    let list = fixture.get("/v1/agents/sessions").await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
}

both!(one_of_two_requests_with_one_key_wins);
async fn one_of_two_requests_with_one_key_wins(database: TestDatabase) {
    // F20, W-IDEM-3
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let bodies = [CREATE, r#"{"input":"other"}"#];
    let answers =
        join_all((0..50).map(|n| create(&fixture, "k", bodies[usize::from(n == 25)]))).await;
    let won: Vec<_> = answers.iter().filter(|answer| answer.0 == 201).collect();
    assert!(won.iter().all(|answer| **answer == *won[0]));
    let lost: Vec<_> = answers.iter().filter(|answer| answer.0 != 201).collect();
    assert!(lost.len() == 1 || lost.len() == 49, "{answers:?}");
    assert!(
        lost.iter()
            .all(|answer| answer.0 == 409 && answer.1 == CONFLICT)
    );
}

both!(a_retry_survives_the_loss_of_what_it_named);
async fn a_retry_survives_the_loss_of_what_it_named(database: TestDatabase) {
    // W-IDEM-4, W-IDEM-6, S-AG-12
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let agent = fixture
        .post("/v1/agents", r#"{"model":"m","name":"n"}"#)
        .await
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let body = format!(r#"{{"agent_id":"{agent}","input":"hi"}}"#);
    let (_, session) = create(&fixture, "k", &body).await;
    let deleted = fixture
        .send(
            "DELETE",
            &format!("/v1/agents/{agent}"),
            Some(&fixture.key),
            None,
        )
        .await;
    assert_eq!(
        (deleted.status, deleted.body),
        (
            200,
            format!(r#"{{"id":"{agent}","object":"agent.deleted","deleted":true}}"#)
        )
    );
    assert_eq!(create(&fixture, "k", &body).await, (201, session.clone()));
    assert_eq!(create(&fixture, "new", &body).await.0, 404);
    // W-AUTH-3: the key belongs to the Project, so another Project's is another key.
    let headers = [("idempotency-key", "k")];
    let foreign = fixture
        .open(
            "POST",
            "/v1/agents/sessions",
            Some(&fixture.other),
            Some(CREATE),
            &headers,
        )
        .await;
    assert_ne!(
        read(foreign).await.json()["id"].as_str(),
        Some(session.as_str())
    );
}

both!(the_key_of_a_deleted_session_stays_taken);
async fn the_key_of_a_deleted_session_stays_taken(database: TestDatabase) {
    // W-IDEM-5, S-DEL-4
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let (_, session) = create(&fixture, "k", "{}").await;
    let path = format!("/v1/agents/sessions/{session}");
    for _ in 0..2 {
        let deleted = fixture
            .send("DELETE", &path, Some(&fixture.key), None)
            .await;
        let body =
            format!(r#"{{"id":"{session}","object":"agent.session.deleted","deleted":true}}"#);
        assert_eq!((deleted.status, deleted.body), (200, body));
    }
    assert_eq!(
        fixture
            .send("DELETE", &path, Some(&fixture.other), None)
            .await
            .status,
        404
    );
    assert_eq!(
        create(&fixture, "k", "{}").await,
        (409, CONFLICT.to_owned())
    );
    assert_eq!(fixture.get(&path).await.status, 404);
}

both!(a_stream_retry_admits_and_follows_nothing);
async fn a_stream_retry_admits_and_follows_nothing(database: TestDatabase) {
    // S-CS-5, W-IDEM-4
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let (_, session) = create(&fixture, "k", CREATE).await;
    let before = fixture.dump().await;
    let headers = [("idempotency-key", "k")];
    let streamed = r#"{"input":"hi","stream":true}"#;
    let retry = fixture
        .open(
            "POST",
            "/v1/agents/sessions",
            Some(&fixture.key),
            Some(streamed),
            &headers,
        )
        .await;
    let retry = read(retry).await;
    assert_eq!(
        (retry.status, retry.body.as_str()),
        (201, ": connected\n\n")
    );
    assert_eq!(create(&fixture, "k", CREATE).await, (201, session));
    assert_eq!(fixture.dump().await, before);
}

both!(the_provider_key_is_part_of_the_request);
async fn the_provider_key_is_part_of_the_request(database: TestDatabase) {
    // W-IDEM-7, MDL-030
    let fixture = Fixture::on(database).await;
    let body = |key: &str| {
        format!(
            r#"{{"agent":{{"model":"m"}},"input":"hi","x_agents_core":{{"model_provider":{{"protocol":"responses","base_url":"https://h/v1","api_key":"{key}"}}}}}}"#
        )
    };
    let (status, session) = create(&fixture, "k", &body("canary-one")).await;
    assert_eq!(status, 201, "{session}");
    assert_eq!(
        create(&fixture, "k", &body("canary-one")).await,
        (201, session.clone())
    );
    assert_eq!(create(&fixture, "k", &body("canary-two")).await.0, 409);
    let shown = fixture.get(&format!("/v1/agents/sessions/{session}")).await;
    assert_eq!(
        shown.json()["x_agents_core"].to_string(),
        r#"{"harness":"test","model_provider":{"protocol":"responses","base_url":"https://h/v1","context_window":null,"max_output_tokens":null,"api_key_configured":true},"harness_config":{}}"#
    );
    assert!(
        !fixture.dump().await.contains("canary"),
        "the key is sealed (MDL-028)"
    );
}

both!(input_with_a_key_is_admitted_once);
async fn input_with_a_key_is_admitted_once(database: TestDatabase) {
    // W-IDEM-9, W-IDEM-10, S-CAN-3
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let path = format!("/v1/agents/sessions/{session}/events");
    let send = async |key: &str, body: &str| {
        let headers = [("idempotency-key", key)];
        let answer = read(
            fixture
                .open("POST", &path, Some(&fixture.key), Some(body), &headers)
                .await,
        )
        .await;
        (answer.status, answer.body)
    };
    let message = r#"{"events":[{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}]}"#;
    let cancel = r#"{"events":[{"type":"agent.session.input.cancel"}]}"#;
    let answers = join_all((0..20).map(|_| send("m", message))).await;
    assert!(
        answers.iter().all(|answer| *answer == (202, String::new())),
        "{answers:?}"
    );
    assert_eq!(send("m", cancel).await, (409, CONFLICT.to_owned()));
    assert_eq!(send("c", cancel).await.0, 202);
    assert_eq!(send("n", message).await.0, 202);
    let before = fixture.dump().await;
    // The cancel keeps its target: the later Turn goes on.
    assert_eq!(send("c", cancel).await.0, 202);
    assert_eq!(send("m", message).await.0, 202);
    assert_eq!(fixture.dump().await, before);
    let items = fixture
        .get(&format!("/v1/agents/sessions/{session}/items"))
        .await
        .json();
    assert_eq!(items["data"].as_array().unwrap().len(), 3);
    for bad in ["\t", "x".repeat(129).as_str()] {
        let (status, body) = send(bad, message).await;
        assert!(
            status == 400 && body.contains(r#""code":"invalid_request""#),
            "{body}"
        );
    }
}
