//! Clients that are slow or stop in the middle of a body, and a database that has no connection left.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use futures_util::{StreamExt, stream};
use store::Store;
use store::testing::{TestDatabase, take_readers};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fixture::{Fixture, read};
use crate::http::accept::Answer;

/// Longest wait for an answer that depends on nobody slow.
const SOON: Duration = Duration::from_secs(30);

/// Sends a request whose body begins and then stands still; returns once the server reads it.
async fn stalled(
    fixture: &Fixture,
    path: &str,
    kind: &str,
    begins: &'static str,
) -> JoinHandle<Response<Body>> {
    let reading = Arc::new(Notify::new());
    let seen = reading.clone();
    let first = stream::once(async move { Ok::<_, std::io::Error>(Bytes::from(begins)) });
    let rest = stream::once(async move {
        seen.notify_one();
        std::future::pending().await
    });
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {}", fixture.key))
        .header("content-type", kind)
        .body(Body::from_stream(first.chain(rest)))
        .unwrap();
    let answering = tokio::spawn(fixture.api.clone().answer(request));
    timeout(SOON, reading.notified())
        .await
        .expect("the body is read");
    answering
}

#[tokio::test]
async fn an_update_whose_body_does_not_end_is_given_up() {
    let fixture = Fixture::on(TestDatabase::sqlite()).await;
    let skill = fixture.skill("---\nname: a\ndescription: b\n---").await;
    let path = format!("/v1/skills/{skill}");
    let answering = stalled(&fixture, &path, "application/json", "{\"default_").await;
    // One that breaks off is no large one.
    let broken = stream::iter([Ok(Bytes::from("{")), Err(std::io::Error::other("gone"))]);
    let request = Request::builder()
        .method("POST")
        .uri(&path)
        .header("authorization", format!("Bearer {}", fixture.key))
        .body(Body::from_stream(broken))
        .unwrap();
    let answer = read(fixture.api.clone().answer(request).await).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    // The one that stands still has as long as every JSON body.
    let answer = timeout(SOON * 2, answering).await.expect("it is given up");
    let answer = read(answer.unwrap()).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
}

#[tokio::test]
async fn slow_uploads_keep_no_other_waiting() {
    let fixture = Fixture::on(TestDatabase::sqlite()).await;
    let begins = "--xyz\r\ncontent-disposition: form-data; name=\"files[]\"; filename=\"a/SKILL.md\"\r\n\r\n---";
    let kind = "multipart/form-data; boundary=xyz";
    let one = stalled(&fixture, "/v1/skills", kind, begins).await;
    let two = stalled(&fixture, "/v1/skills", kind, begins).await;
    let third = fixture.skill("---\nname: a\ndescription: b\n---");
    timeout(SOON, third).await.expect("it waits for nobody");
    assert!(!one.is_finished() && !two.is_finished());
    one.abort();
    two.abort();
}

/// W-AUTH-7: who needs the database is told soon that there is none to be had, who needs none is answered, and nothing of it
/// stays.
#[tokio::test]
async fn taken_readers_are_a_503_and_no_wait() {
    let database = TestDatabase::sqlite();
    let mut settings = database.settings();
    settings.acquire = Duration::from_millis(100);
    let store = Store::open(settings).await.unwrap();
    let fixture = Fixture::with(database, store).await;
    let taken = take_readers(&fixture.core.store).await.unwrap();
    for _ in 0..8 {
        let read = timeout(SOON, fixture.get("/v1/agents")).await;
        assert_eq!(read.expect("an answer").status, 503);
        let health = timeout(SOON, fixture.send("GET", "/healthz", None, None)).await;
        assert_eq!(health.expect("an answer").status, 200);
    }
    drop(taken);
    assert_eq!(fixture.get("/v1/agents").await.status, 200);
}
