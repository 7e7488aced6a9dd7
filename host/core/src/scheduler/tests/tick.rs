//! What is due is settled, in bounded slices, whoever is away.

use std::time::Duration;

use domain::SessionId;
use domain::reservation::ReservationState;
use store::metrics::UnitOutcome::Committed;
use store::testing::{TestDatabase, move_clock};
use tokio::time::timeout;

use super::runtime::SOON;
use super::scene::Scene;
use crate::scheduler::tick::expire;

const DEADLINE: Duration = Duration::from_secs(301);

/// Sessions whose initial input is due.
async fn due(scene: &Scene, count: usize) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = scene.api.session(r#"{"input":"hi"}"#).await;
        sessions.push(session.parse().unwrap());
    }
    move_clock(&scene.api.core.store, DEADLINE).await.unwrap();
    sessions
}

async fn pending(scene: &Scene) -> Vec<SessionId> {
    let reader = scene.api.core.store.read();
    let found = reader.pending_inputs(None, 100).await.unwrap();
    found.into_iter().map(|input| input.session).collect()
}

// SC-3.1, S-RES-6, ENV-250
#[tokio::test(flavor = "multi_thread")]
async fn one_tick_settles_a_bounded_number() {
    let scene = Scene::on(TestDatabase::sqlite(), false).await;
    due(&scene, 33).await;
    let shared = scene.shared();
    expire(&shared).await.unwrap();
    assert_eq!(pending(&scene).await.len(), 1);
    expire(&shared).await.unwrap();
    assert_eq!(pending(&scene).await.len(), 0);
}

// SC-3.1: rows at the head that cannot expire keep no later one from it.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_sessions_keep_nobody_from_expiring() {
    let scene = Scene::on(TestDatabase::sqlite(), false).await;
    let sessions = due(&scene, 40).await;
    // The oldest ones, a whole page.
    let mut bad = sessions[..32].to_vec();
    for session in &bad {
        let spoil = format!("UPDATE sessions SET body = '{{}}' WHERE id = '{session}'");
        scene.execute(&spoil).await;
    }
    expire(&scene.shared()).await.unwrap();
    bad.sort_by_key(ToString::to_string);
    assert_eq!(pending(&scene).await, bad);
}

// SC-3.1: 33 are due, one of them is locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_session_waits_for_a_later_tick_and_takes_no_place() {
    let scene = Scene::on(TestDatabase::postgres().await, false).await;
    let sessions = due(&scene, 33).await;
    let locked = sessions[0];
    let lock = format!(
        "DO $$ BEGIN PERFORM 1 FROM sessions WHERE id = '{locked}' FOR UPDATE; \
         WHILE NOT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'unlocked') LOOP PERFORM pg_sleep(0.02); END LOOP; END $$"
    );
    let shared = scene.shared();
    let ticks = async {
        let probe = format!("SELECT 1 FROM sessions WHERE id = '{locked}' FOR UPDATE NOWAIT");
        while scene.api.database.execute(&probe).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        expire(&shared).await.unwrap();
        assert_eq!(pending(&scene).await, [locked]);
        scene.execute("CREATE TABLE unlocked (x INT)").await;
    };
    tokio::join!(scene.execute(&lock), ticks);
    expire(&shared).await.unwrap();
    assert_eq!(pending(&scene).await.len(), 0);
}

// SC-3.2, S-RES-8, SC-6.7: what became due while nobody worked is settled by the first tick.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_due_while_nobody_worked_is_settled_by_the_next_owner() {
    let scene = Scene::on(TestDatabase::sqlite(), false).await;
    let initial = due(&scene, 1).await[0];
    let running = scene.run(1);
    scene.until_unit("ExpireReservation", Committed, 0).await;
    let state = scene.state(initial).await;
    assert!(matches!(
        state.reservation.map(|reservation| reservation.state),
        Some(ReservationState::Expired)
    ));
    let path = format!("/v1/agents/sessions/{initial}");
    assert_eq!(scene.api.get(&path).await.json()["status"], "failed");
    scene.stop.cancel();
    timeout(SOON, running).await.expect("it drains").unwrap();
}
