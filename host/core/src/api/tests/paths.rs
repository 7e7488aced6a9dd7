//! Paths, methods and headers around every answer (`wire.md` 2 to 4).

use axum::body::Body;
use axum::http::Request;
use store::testing::TestDatabase;

use super::fixture::{Fixture, read};
use crate::http::accept::Answer;

const UNKNOWN: &str = r#"{"error":{"message":"This API operation is not supported.","type":"invalid_request_error","code":"unsupported_operation","param":null}}"#;
const METHOD: &str = r#"{"error":{"message":"This API method is not supported.","type":"invalid_request_error","code":"unsupported_operation","param":null}}"#;
const BETA: &str = r#"{"error":{"message":"To access the Agents API, set the 'OpenAI-Beta' header to 'agents=v1'.","type":"invalid_beta","code":"invalid_beta","param":null}}"#;

both!(unknown_paths_are_told_after_the_checks);
async fn unknown_paths_are_told_after_the_checks(database: TestDatabase) {
    // W-PATH-1, W-PATH-6, W-ORDER-1
    let fixture = Fixture::on(database).await;
    for path in [
        "/v1/agents/",
        "/v1/agents/x/../",
        "/v1/agents/x/y",
        "/v1/vaults/",
        "/v1/agents/environments",
        "/v1/agents/environments/x/files",
        "/v1/agents/sessions/x/artifacts/",
    ] {
        let answer = fixture.get(path).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (404, UNKNOWN),
            "{path}"
        );
        assert_eq!(
            fixture.send("GET", path, None, None).await.status,
            401,
            "{path}"
        );
        let without = Request::builder().uri(path).body(Body::empty()).unwrap();
        let without = read(fixture.api.clone().answer(without).await).await;
        assert_eq!(
            (without.status, without.body.as_str()),
            (400, BETA),
            "{path}"
        );
    }
    // Outside the Beta the header does not matter.
    let files = Request::builder()
        .uri("/v1/files/")
        .header("authorization", format!("Bearer {}", fixture.key));
    assert_eq!(
        read(
            fixture
                .api
                .clone()
                .answer(files.body(Body::empty()).unwrap())
                .await
        )
        .await
        .body,
        UNKNOWN
    );
    let files = Request::builder()
        .uri("/v1/files/")
        .header("authorization", "Bearer wrong")
        .body(Body::empty())
        .unwrap();
    let rejected = read(fixture.api.clone().answer(files).await).await.json();
    assert_eq!(rejected["error"]["code"], "invalid_api_key");
}

both!(every_spelling_of_a_path_is_the_path);
async fn every_spelling_of_a_path_is_the_path(database: TestDatabase) {
    // W-PATH-1 to W-PATH-4
    let fixture = Fixture::on(database).await;
    for path in [
        "//v1//agents",
        "/v1/./agents",
        "/v1/x/../agents",
        "/v1/%61gents",
        "/v1/x/%2e%2e/agents",
    ] {
        assert_eq!(fixture.get(path).await.status, 200, "{path}");
        assert_eq!(
            fixture.send("GET", path, None, None).await.status,
            401,
            "{path}"
        );
    }
    let undecodable = fixture.get("/v1/agents/%zz").await;
    assert_eq!(
        (undecodable.status, undecodable.body.as_str()),
        (400, "Bad Request")
    );
}

both!(methods_are_listed_in_order);
async fn methods_are_listed_in_order(database: TestDatabase) {
    // W-PATH-5, W-PATH-8, W-PATH-9
    let fixture = Fixture::on(database).await;
    for (method, path, allow) in [
        ("FOO", "/v1/agents", "GET,HEAD,POST"),
        ("PATCH", "/v1/agents/x", "GET,HEAD,POST,DELETE"),
        ("OPTIONS", "/v1/agents/sessions/x", "GET,HEAD,POST,DELETE"),
        ("HEAD", "/v1/agents/sessions/x/events", "GET,POST"),
        ("DELETE", "/v1/agents/environments/x", "GET,HEAD"),
    ] {
        let answer = fixture.send(method, path, Some(&fixture.key), None).await;
        let body = if method == "HEAD" { "" } else { METHOD };
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (405, body),
            "{method} {path}"
        );
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        assert!(
            answer
                .headers
                .keys()
                .all(|name| !name.as_str().starts_with("access-control"))
        );
    }
}

both!(head_is_get_without_a_body);
async fn head_is_get_without_a_body(database: TestDatabase) {
    // W-PATH-7
    let fixture = Fixture::on(database).await;
    let get = fixture.get("/v1/agents").await;
    let head = fixture
        .send("HEAD", "/v1/agents", Some(&fixture.key), None)
        .await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(
        head.header("content-length"),
        Some(get.body.len().to_string().as_str())
    );
    assert_eq!(head.header("content-type"), get.header("content-type"));
    assert_eq!(
        fixture
            .send("HEAD", "/v1/agents/x", Some(&fixture.key), None)
            .await
            .status,
        404
    );
    assert_eq!(
        fixture.send("HEAD", "/v1/agents", None, None).await.status,
        401
    );
}

both!(every_answer_carries_the_headers);
async fn every_answer_carries_the_headers(database: TestDatabase) {
    // W-HDR-2, W-HDR-4
    let fixture = Fixture::on(database).await;
    for (method, path) in [
        ("GET", "/v1/agents"),
        ("GET", "/v1/x"),
        ("FOO", "/v1/agents"),
        ("GET", "/v1/%zz"),
        ("GET", "/healthz"),
    ] {
        let one = fixture.send(method, path, Some(&fixture.key), None).await;
        let id = one.header("x-request-id").unwrap().to_owned();
        let digits = id.strip_prefix("req_").unwrap();
        assert!(
            digits.len() == 32
                && digits
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)),
            "{id}"
        );
        assert_eq!(one.header("openai-version"), Some("2020-10-01"));
        assert!(
            one.header("openai-processing-ms")
                .unwrap()
                .parse::<u64>()
                .is_ok()
        );
        assert_eq!(one.header("x-content-type-options"), Some("nosniff"));
        if one.header("content-type") == Some("application/json") {
            assert_eq!(one.header("cache-control"), Some("no-store"));
        }
        assert!(
            one.header("openai-organization").is_none() && one.header("openai-project").is_none()
        );
        let two = fixture.send(method, path, Some(&fixture.key), None).await;
        assert_ne!(two.header("x-request-id"), Some(id.as_str()));
    }
}

both!(scope_headers_must_be_the_callers);
async fn scope_headers_must_be_the_callers(database: TestDatabase) {
    // wire.md 4, W-AUTH-5
    let fixture = Fixture::on(database).await;
    let mine = format!("proj_{}", fixture.project);
    let with = async |headers: &[(&str, &str)]| {
        fixture
            .open("GET", "/v1/agents", Some(&fixture.key), None, headers)
            .await
            .status()
            .as_u16()
    };
    assert_eq!(
        with(&[("openai-organization", "core"), ("openai-project", &mine)]).await,
        200
    );
    assert_eq!(with(&[("openai-organization", "acme")]).await, 401);
    assert_eq!(with(&[("openai-project", "proj_x")]).await, 401);
    assert_eq!(
        with(&[("openai-project", &mine), ("openai-project", &mine)]).await,
        401
    );
}

both!(bodies_pass_the_gate_or_say_why);
async fn bodies_pass_the_gate_or_say_why(database: TestDatabase) {
    // W-BODY-1, W-BODY-2, W-BODY-7
    let fixture = Fixture::on(database).await;
    let before = fixture.dump().await;
    let send = async |content_type: Option<&str>, body: String| {
        let mut request = Request::builder()
            .method("POST")
            .uri("/v1/agents")
            .header("openai-beta", "agents=v1");
        request = request.header("authorization", format!("Bearer {}", fixture.key));
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        read(
            fixture
                .api
                .clone()
                .answer(request.body(Body::from(body)).unwrap())
                .await,
        )
        .await
    };
    for content_type in [None, Some("text/plain")] {
        let answer = send(content_type, "{}".into()).await;
        assert_eq!(
            answer.json()["error"]["message"],
            "expected request with Content-Type: application/json"
        );
    }
    let large = send(
        Some("application/json"),
        format!(r#"{{"model":"{}"}}"#, "x".repeat(1024 * 1024)),
    )
    .await;
    assert_eq!(
        (large.status, large.json()["error"]["code"].as_str()),
        (413, Some("request_too_large"))
    );
    for empty in ["", "null", "{}"] {
        let answer = send(Some("application/json"), empty.into()).await;
        assert_eq!(
            answer.json()["error"]["message"],
            "Missing required parameter: 'model'."
        );
    }
    let nul = send(Some("application/json"), r#"{"model":"a\u0000"}"#.into())
        .await
        .json();
    assert_eq!(
        nul["error"]["message"],
        "Request text contains characters this service cannot store or compare, such as U+0000 or invalid UTF-8."
    );
    assert_eq!(fixture.dump().await, before);
}
