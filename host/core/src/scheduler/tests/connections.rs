//! What the scheduler makes of connections: releases that are owed, observations that are over.

use std::collections::HashSet;
use std::time::Duration;

use domain::SessionId;
use domain::environment::{ConnectionState, EnvironmentStatus};
use store::testing::TestDatabase;
use store::units::environment::BindDevice;
use store::units::turn::FailQueuedTurn;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::timeout;

use super::runtime::{Heard, SOON};
use super::scene::Scene;
use crate::peer::Answer;
use crate::scheduler::connections::{Talks, run};

/// A deleted Session whose release the shared Runtime owes.
async fn owed(scene: &Scene) -> SessionId {
    let path = scene.session("go").await;
    let session: SessionId = path.rsplit('/').next().unwrap().parse().unwrap();
    let store = &scene.api.core.store;
    let device = scene.device;
    store.write(BindDevice { session, device }).await.unwrap();
    let turn = scene.turn(&path).await["id"].as_str().unwrap().to_owned();
    let turn = turn.parse().unwrap();
    store.write(FailQueuedTurn { session, turn }).await.unwrap();
    let key = Some(scene.api.key.as_str());
    let deleted = scene.api.send("DELETE", &path, key, None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    session
}

// SC-3.5, RP-6.3: what is owed is asked for once at a time, and a Runtime that is slow with it can be asked for other things.
#[tokio::test(flavor = "multi_thread")]
async fn releases_are_sent_once_at_a_time_and_a_few_at_a_time() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let mut sessions = HashSet::new();
    for _ in 0..20 {
        sessions.insert(owed(&scene).await);
    }
    let running = tokio::spawn(run(scene.shared(), Talks::default()));
    let release = |heard| match heard {
        Heard::Release(binding, answer) => Some((binding, answer)),
        _ => None,
    };
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(scene.hear(release).await);
    }
    // However often it looks.
    for _ in 0..5 {
        scene.change();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(scene.heard.try_recv(), Err(TryRecvError::Empty)));
    let mut asked = HashSet::new();
    while let Some((binding, answer)) = open.pop() {
        assert!(asked.insert(binding.session), "asked twice");
        answer.send(Answer::Done(())).unwrap();
        if asked.len() + open.len() < sessions.len() {
            open.push(scene.hear(release).await);
        }
    }
    assert_eq!(asked, sessions);
    let acknowledged = async {
        let reader = scene.api.core.store.read();
        while !reader.releases(scene.device).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, acknowledged).await.expect("all are stored");
    scene.stop.cancel();
    timeout(SOON, running).await.unwrap().unwrap();
}

// A release that is not done is asked for again, as long as it is owed (RP-8.6).
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_fails_is_sent_again() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let session = owed(&scene).await;
    let running = tokio::spawn(run(scene.shared(), Talks::default()));
    let code = domain::run::RefusalCode::CleanupUnconfirmed;
    for answer in [Answer::Rejected(code), Answer::Done(())] {
        let (binding, place) = scene
            .hear(|heard| match heard {
                Heard::Release(binding, place) => Some((binding, place)),
                _ => None,
            })
            .await;
        assert_eq!(binding.session, session);
        place.send(answer).unwrap();
    }
    scene.stop.cancel();
    timeout(SOON, running).await.unwrap().unwrap();
}

// SC-9.1, C3: a connection whose end could not be recorded is closed by whoever sees that it is not here.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ended_unrecorded_is_closed() {
    let scene = Scene::on(TestDatabase::sqlite(), false).await;
    let (gone, _) = scene.hosted().await;
    let (here, runtime) = scene.hosted().await;
    scene.connect(&runtime);
    let running = tokio::spawn(run(scene.shared(), Talks::default()));
    scene
        .until(gone, |state| {
            let environment = state.environment.as_ref().unwrap();
            environment.status == EnvironmentStatus::Disconnected
                && environment.observation.state == ConnectionState::Closed
        })
        .await;
    let kept = scene.state(here).await.environment.unwrap();
    assert_eq!(kept.observation.state, ConnectionState::Connected);
    let reader = scene.api.core.store.read();
    let events = reader.events_after(gone, 0).await.unwrap();
    assert!(
        events
            .iter()
            .any(|stored| stored.payload.public_type() == "agent.session.environment.disconnected")
    );
    scene.stop.cancel();
    timeout(SOON, running).await.unwrap().unwrap();
}
