//! A message that waits while the database fails (S-RES-3, WB-2).

use std::time::Duration;

use domain::OwnerId;
use domain::lease::Authority;
use store::testing::{TestDatabase, move_clock};
use store::units::reservation::{ExpireReservation, Expired};
use uuid::Uuid;

use super::fixture::{Answered, Fixture, read};

const MESSAGE: &str = r#"{"events":[{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}]}"#;

/// An idle hosted Session of a Core that owns execution.
async fn idle() -> (Fixture, String) {
    let fixture = Fixture::on(TestDatabase::sqlite()).await;
    fixture.default_model().await;
    let owner = OwnerId::new(Uuid::new_v4());
    let store = &fixture.core.store;
    store.acquire_lease(owner, Authority::Folder).await.unwrap();
    let session = fixture.session("{}").await;
    let path = format!("/v1/agents/sessions/{session}/events");
    (fixture, path)
}

/// Sends the message.
async fn sent(fixture: &Fixture, path: &str, key: Option<&str>) -> Answered {
    let headers: Vec<_> = key.iter().map(|key| ("idempotency-key", *key)).collect();
    let answer = fixture.open("POST", path, Some(&fixture.key), Some(MESSAGE), &headers);
    read(answer.await).await
}

/// Returns once it waits, with its look at the reservation broken and that look's time over.
async fn broken(fixture: &Fixture) {
    let reader = fixture.core.store.read();
    while reader.pending_inputs(None, 1).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let hide = "ALTER TABLE reservations RENAME TO hidden";
    fixture.database.execute(hide).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
}

async fn mended(fixture: &Fixture) {
    let show = "ALTER TABLE hidden RENAME TO reservations";
    fixture.database.execute(show).await.unwrap();
}

#[tokio::test]
async fn a_look_that_fails_is_repeated() {
    let (fixture, path) = idle().await;
    let settle = async {
        broken(&fixture).await;
        mended(&fixture).await;
        let store = &fixture.core.store;
        move_clock(store, Duration::from_secs(301)).await.unwrap();
        let due = store.read().due_reservations(None, 1).await.unwrap()[0];
        let unit = ExpireReservation {
            session: due.session,
            reservation: due.reservation,
        };
        assert_eq!(store.write(unit).await.unwrap(), Expired::Now);
    };
    let (answer, ()) = tokio::join!(sent(&fixture, &path, None), settle);
    let code = answer.json()["error"]["code"].clone();
    assert_eq!(
        (answer.status, code),
        (409, "environment_input_expired".into())
    );
}

// Whatever ends the wait early leaves the reservation: the official client must not send the input a second time by itself.
#[tokio::test]
async fn a_wait_that_is_given_up_says_whether_to_send_again() {
    for (key, again) in [(None, Some("false")), (Some("k"), None)] {
        let (fixture, path) = idle().await;
        let drain = async {
            broken(&fixture).await;
            fixture.core.stop.cancel();
        };
        let (answer, ()) = tokio::join!(sent(&fixture, &path, key), drain);
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert_eq!(answer.header("x-should-retry"), again, "{key:?}");
        mended(&fixture).await;
        let pending = fixture.core.store.read().pending_inputs(None, 2).await;
        assert_eq!(pending.unwrap().len(), 1);
    }
}
