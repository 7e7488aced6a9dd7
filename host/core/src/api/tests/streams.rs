//! Event streams over a real store (sessions 7).

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::BodyExt;
use store::testing::TestDatabase;
use tokio::time::timeout;

use super::fixture::{CORE_KEY, Fixture, read};
use crate::api::sessions::View;
use crate::api::stream;

const NONE: &str = r#"{"environment":{"type":"none"},"input":"hi","stream":true}"#;
const CANCEL: &str = r#"{"events":[{"type":"agent.session.input.cancel"}]}"#;
const MESSAGE: &str = r#"{"events":[{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"a\u2028b"}]}]}]}"#;
const PATIENCE: Duration = Duration::from_secs(10);

/// The next chunk of a stream; `None` = it ended.
async fn chunk(body: &mut Body) -> Option<String> {
    let frame = timeout(PATIENCE, body.frame())
        .await
        .expect("the stream says something")?;
    Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
}

fn event(chunk: &str) -> (String, serde_json::Value) {
    let (name, rest) = chunk
        .strip_prefix("event: ")
        .expect(chunk)
        .split_once("\ndata: ")
        .expect(chunk);
    let data = rest.strip_suffix("\n\n").expect(chunk);
    assert!(!data.contains('\n'), "{chunk}");
    let json: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(json["type"], name);
    (name.to_owned(), json)
}

/// Reads events until one of this name; the names on the way.
async fn until(body: &mut Body, last: &str) -> Vec<String> {
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != last) {
        let (name, _) = event(&chunk(body).await.expect("the stream goes on"));
        names.push(name);
    }
    names
}

both!(a_creation_stream_follows_its_turn_to_the_end);
async fn a_creation_stream_follows_its_turn_to_the_end(database: TestDatabase) {
    // S-CS-1 to S-CS-3, S-SEQ-1, S-SSE-1
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let answer = fixture
        .open(
            "POST",
            "/v1/agents/sessions",
            Some(&fixture.key),
            Some(NONE),
            &[],
        )
        .await;
    assert_eq!(answer.status(), 201);
    assert_eq!(
        answer.headers()["content-type"],
        "text/event-stream; charset=utf-8"
    );
    let mut body = answer.into_body();
    assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
    let (name, created) = event(&chunk(&mut body).await.unwrap());
    assert_eq!(
        (name.as_str(), created["session"]["status"].as_str()),
        ("agent.session.created", Some("in_progress"))
    );
    let names = until(&mut body, "agent.session.in_progress").await;
    assert_eq!(
        names,
        [
            "agent.session.turn.created",
            "agent.session.turn.item.added",
            "agent.session.in_progress"
        ]
    );
    let session = created["session"]["id"].as_str().unwrap();
    let cancelled = fixture
        .post(&format!("/v1/agents/sessions/{session}/events"), CANCEL)
        .await;
    assert_eq!((cancelled.status, cancelled.body.as_str()), (202, ""));
    assert_eq!(
        until(&mut body, "agent.session.idle").await,
        ["agent.session.turn.cancelled", "agent.session.idle"]
    );
    assert_eq!(chunk(&mut body).await, None);
}

both!(a_creation_without_input_streams_its_snapshot_and_ends);
async fn a_creation_without_input_streams_its_snapshot_and_ends(database: TestDatabase) {
    // ENV-168, S-SEQ-8a
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let answer = fixture
        .open(
            "POST",
            "/v1/agents/sessions",
            Some(&fixture.key),
            Some(r#"{"stream":true}"#),
            &[],
        )
        .await;
    let answer = read(answer).await;
    let frames: Vec<_> = answer.body.split_inclusive("\n\n").collect();
    assert_eq!((frames.len(), frames[0]), (2, ": connected\n\n"));
    assert_eq!(event(frames[1]).1["session"]["status"], "idle");
}

both!(a_live_stream_sends_only_what_comes_later);
async fn a_live_stream_sends_only_what_comes_later(database: TestDatabase) {
    // S-LS-1, S-LS-2, S-CAN-2, F15
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let path = format!("/v1/agents/sessions/{session}/events");
    let answer = fixture
        .open(
            "GET",
            &path,
            Some(&fixture.key),
            None,
            &[("last-event-id", "x")],
        )
        .await;
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
    assert_eq!(fixture.post(&path, MESSAGE).await.status, 202);
    let added = chunk(&mut body).await.unwrap();
    assert!(
        added.contains(r"a\u2028b"),
        "a line separator is escaped: {added}"
    );
    let (name, json) = event(&added);
    assert_eq!(
        (name.as_str(), &json["output_index"]),
        ("agent.session.turn.item.added", &serde_json::Value::Null)
    );
    for _ in 0..2 {
        assert_eq!(fixture.post(&path, CANCEL).await.status, 202);
    }
    until(&mut body, "agent.session.idle").await;
    assert_eq!(fixture.post(&path, MESSAGE).await.status, 202);
    assert_eq!(
        until(&mut body, "agent.session.in_progress").await[0],
        "agent.session.turn.created"
    );
    assert_eq!(fixture.post(&path, CANCEL).await.status, 202);
    until(&mut body, "agent.session.idle").await;
    // S-DEL-2: a deletion ends it.
    let deleted = fixture
        .send(
            "DELETE",
            &format!("/v1/agents/sessions/{session}"),
            Some(&fixture.key),
            None,
        )
        .await;
    assert_eq!(deleted.status, 200);
    assert_eq!(chunk(&mut body).await, None);
}

both!(a_revoked_key_closes_its_streams_before_the_next_event);
async fn a_revoked_key_closes_its_streams_before_the_next_event(database: TestDatabase) {
    // S-LS-5
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let path = format!("/v1/agents/sessions/{session}/events");
    let mut body = fixture
        .open("GET", &path, Some(&fixture.key), None, &[])
        .await
        .into_body();
    assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
    let revoke = format!(
        "/core/v1/projects/{}/keys/{}",
        fixture.project, fixture.key_id
    );
    assert_eq!(
        fixture
            .send("DELETE", &revoke, Some(CORE_KEY), None)
            .await
            .status,
        200
    );
    assert_eq!(chunk(&mut body).await, None);
}

both!(ten_readers_see_every_event_once_and_in_order);
async fn ten_readers_see_every_event_once_and_in_order(database: TestDatabase) {
    // F10, F11, S-SSE-2
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let path = format!("/v1/agents/sessions/{session}/events");
    let mut readers = Vec::new();
    for _ in 0..10 {
        let mut body = fixture
            .open("GET", &path, Some(&fixture.key), None, &[])
            .await
            .into_body();
        readers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
            loop {
                let (name, json) = event(&chunk(&mut body).await.unwrap());
                ids.push(json["event_id"].as_str().unwrap().to_owned());
                if name == "agent.session.idle" {
                    return ids;
                }
            }
        }));
    }
    for _ in 0..40 {
        assert_eq!(fixture.post(&path, MESSAGE).await.status, 202);
    }
    assert_eq!(fixture.post(&path, CANCEL).await.status, 202);
    let mut seen = Vec::new();
    for reader in readers {
        seen.push(reader.await.unwrap());
    }
    assert_eq!(seen[0].len(), 42);
    assert!(seen.iter().all(|ids| *ids == seen[0]));
    let distinct: std::collections::BTreeSet<_> = seen[0].iter().collect();
    assert_eq!(distinct.len(), seen[0].len());
}

both!(a_drain_shows_the_last_events_then_ends_streams_and_refuses_new_ones);
async fn a_drain_shows_the_last_events_then_ends_streams_and_refuses_new_ones(
    database: TestDatabase,
) {
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let path = format!("/v1/agents/sessions/{session}/events");
    let mut body = fixture
        .open("GET", &path, Some(&fixture.key), None, &[])
        .await
        .into_body();
    assert!(chunk(&mut body).await.is_some());
    fixture.core.stop.cancel();
    // What still ends while the process drains is seen (SC-2.9), also if its wake comes after the end of the drain.
    assert_eq!(fixture.post(&path, CANCEL).await.status, 202);
    fixture.core.drained.cancel();
    let mut last = Vec::new();
    while let Some(text) = chunk(&mut body).await {
        last.push(text);
    }
    assert!(
        last.concat().contains("agent.session.turn.cancelled"),
        "{last:?}"
    );
    let refused = fixture.get(&path).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].as_str()),
        (503, Some("stream_unavailable"))
    );
}

both!(a_room_that_was_made_late_misses_nothing);
async fn a_room_that_was_made_late_misses_nothing(database: TestDatabase) {
    // S-LS-1, S-LS-2, S-DEL-2, F10: what is committed between the look at a Session and the room of its stream woke nobody.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let open = async |record: store::read::SessionRecord| {
        let seen = record.last_event;
        let room = fixture.core.hub.enter(View::of(record).base, seen);
        let (core, key) = (fixture.core.clone(), fixture.key_id);
        let opened = stream::open(core, room, seen, stream::Mode::Live, key, StatusCode::OK);
        opened.await.0.into_body()
    };
    let find = async |session: &str| {
        let found = fixture.core.store.read();
        let found = found.session(fixture.project, session.parse().unwrap());
        found.await.unwrap().unwrap()
    };
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let record = find(&session).await;
    let path = format!("/v1/agents/sessions/{session}");
    let said = fixture.post(&format!("{path}/events"), MESSAGE).await;
    assert_eq!(said.status, 202);
    let mut body = open(record).await;
    assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
    let (name, _) = event(&chunk(&mut body).await.unwrap());
    assert_eq!(name, "agent.session.turn.item.added");

    let session = fixture.session("{}").await;
    let record = find(&session).await;
    let path = format!("/v1/agents/sessions/{session}");
    let deleted = fixture
        .send("DELETE", &path, Some(&fixture.key), None)
        .await;
    assert_eq!(deleted.status, 200);
    let mut body = open(record).await;
    if let Some(opening) = chunk(&mut body).await {
        assert_eq!(opening, ": connected\n\n");
        assert_eq!(chunk(&mut body).await, None);
    }
}

both!(a_drain_refuses_streams_before_it_writes_anything);
async fn a_drain_refuses_streams_before_it_writes_anything(database: TestDatabase) {
    // W-ORDER-6, E503-03, F20: the client sends again by itself.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture.session("{}").await;
    let before = fixture.dump().await;
    fixture.core.stop.cancel();
    let live = format!("/v1/agents/sessions/{session}/events");
    for (method, path, body) in [
        ("POST", "/v1/agents/sessions", Some(NONE)),
        ("GET", &live, None),
    ] {
        let refused = fixture.send(method, path, Some(&fixture.key), body).await;
        let code = refused.json()["error"]["code"].clone();
        assert_eq!((refused.status, code), (503, "stream_unavailable".into()));
    }
    assert_eq!(fixture.dump().await, before);
    // A stream that was refused by nothing else is opened though the drain has begun: what was committed is shown.
    fixture.core.drained.cancel();
    let record = fixture.core.store.read();
    let record = record
        .session(fixture.project, session.parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    let room = fixture.core.hub.enter(View::of(record).base, 0);
    let mode = stream::Mode::Creation {
        turn: None,
        admitted: false,
    };
    let (core, key) = (fixture.core.clone(), fixture.key_id);
    let mut body = stream::open(core, room, 0, mode, key, StatusCode::CREATED)
        .await
        .0
        .into_body();
    assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
    let (name, _) = event(&chunk(&mut body).await.unwrap());
    assert_eq!(name, "agent.session.created");
    assert_eq!(chunk(&mut body).await, None);
}

#[tokio::test]
async fn a_read_that_fails_ends_no_stream() {
    // S-LS-2, S-CS-2: the client would take it for the end.
    let fixture = Fixture::on(TestDatabase::sqlite()).await;
    fixture.default_model().await;
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let live = format!("/v1/agents/sessions/{session}/events");
    let answer = fixture.open("GET", &live, Some(&fixture.key), None, &[]);
    let mut body = answer.await.into_body();
    assert_eq!(fixture.post(&live, MESSAGE).await.status, 202);
    let hide = "ALTER TABLE events RENAME TO hidden";
    fixture.database.execute(hide).await.unwrap();
    assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
    let mend = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let show = "ALTER TABLE hidden RENAME TO events";
        fixture.database.execute(show).await.unwrap();
    };
    let (next, ()) = tokio::join!(chunk(&mut body), mend);
    assert_eq!(event(&next.unwrap()).0, "agent.session.turn.item.added");
}

both!(a_stream_that_lost_events_says_so);
async fn a_stream_that_lost_events_says_so(database: TestDatabase) {
    // S-SSE-2, S-LS-3, S-CS-2: old deltas are trimmed, whoever still had to be sent them.
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let path = "/v1/agents/sessions";
    let answer = fixture.open("POST", path, Some(&fixture.key), Some(NONE), &[]);
    let mut body = answer.await.into_body();
    let trim = "DELETE FROM events WHERE number = 3";
    fixture.database.execute(trim).await.unwrap();
    assert_eq!(chunk(&mut body).await.unwrap(), ": connected\n\n");
    for name in ["agent.session.created", "agent.session.turn.created"] {
        assert_eq!(event(&chunk(&mut body).await.unwrap()).0, name);
    }
    let (name, interrupted) = event(&chunk(&mut body).await.unwrap());
    assert_eq!(
        (name.as_str(), interrupted["error"]["code"].as_str()),
        ("error", Some("stream_interrupted"))
    );
    assert_eq!(chunk(&mut body).await, None);
}
