//! A Session outlives upgrades of its harness adapter.

use domain::run::{Capability, DeclarationHash, TurnStatus};
use store::testing::TestDatabase;

use super::runtime::Heard;
use super::scene::Scene;
use crate::scheduler::tick;

fn other() -> DeclarationHash {
    serde_json::from_value("b".repeat(64).into()).unwrap()
}

// RP-7.5, RP-7.7: what counts is what the Runtime offers now, and it is told which offer was judged.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_under_another_declaration_that_still_has_what_it_needs() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(1);
    let path = scene.session("before").await;
    let run = scene.started().await;
    run.begin().await;
    run.done(TurnStatus::Completed).await;
    scene.until_turn(&path, "completed").await;

    scene
        .runtime()
        .upgrade(|offer| offer.declaration_hash = other());
    let saying = scene.saying(&path, "after");
    let told = scene
        .hear(|heard| match heard {
            Heard::Prepare(configuration) => Some(configuration.declaration_hash),
            _ => None,
        })
        .await;
    assert_eq!(told, other());
    let run = scene.started().await;
    assert_eq!(run.input.len(), 1);
    run.begin().await;
    run.done(TurnStatus::Completed).await;
    saying.await.unwrap();
    scene.until_turn(&path, "completed").await;
    scene.end(running).await;
}

// RP-7.4, RP-7.7: one that lacks something is refused before the claim; the work waits and can be cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_waits_for_a_declaration_that_has_what_it_needs() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    scene.runtime().upgrade(|offer| {
        offer.declaration_hash = other();
        offer.capabilities.set(Capability::EnvironmentNone, false);
    });
    let running = scene.run(1);
    let path = scene.session("before").await;
    tokio::time::sleep(tick::TICK * 2).await;
    assert_eq!(scene.turn(&path).await["status"], "queued");

    scene
        .runtime()
        .upgrade(|offer| offer.capabilities.set(Capability::EnvironmentNone, true));
    scene.change();
    let run = scene.started().await;
    run.begin().await;
    run.done(TurnStatus::Completed).await;
    scene.until_turn(&path, "completed").await;
    scene.end(running).await;
}
