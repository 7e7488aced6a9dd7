//! A Run and what reaches it, with a database that works.

use std::time::Duration;

use domain::run::{EventBody, TurnStatus};
use protocol::wire::CancelReason;
use store::testing::TestDatabase;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::faults::call;
use super::runtime::{Heard, SOON, cancelled, message};
use super::scene::Scene;
use crate::peer::{Answer, RunSignal};
use crate::scheduler::actors::Actors;
use crate::scheduler::tick;

// A Run that never pauses must not keep anybody waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_and_a_cancel_are_heard_while_a_run_reports_without_a_pause() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(1);
    let path = scene.session("talk").await;
    let run = scene.started().await;
    run.begin().await;
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(run.talk(stopped));
    let talking = async {
        while !scene.api.dump().await.contains("and so on") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, talking).await.expect("the Run talks");

    // The one place is taken: what waits for it is neither read nor bound, however often the scans come by.
    let later = scene.session("talk later").await;
    tokio::time::sleep(tick::TICK * 2).await;
    let bound = scene.api.core.store.read().bindings(scene.device).await;
    assert_eq!(bound.unwrap().len(), 1);

    scene.say(&path, "listen").await;
    let (text, answer) = scene
        .hear(|heard| match heard {
            Heard::Input(text, answer) => Some((text, answer)),
            _ => None,
        })
        .await;
    assert_eq!(text, "listen");
    answer.send(Answer::Done(())).unwrap();

    scene.cancel(&path).await;
    let answer = scene
        .hear(|heard| match heard {
            Heard::Cancel(CancelReason::Requested, answer) => Some(answer),
            _ => None,
        })
        .await;
    stop.send(()).unwrap();
    answer.send(cancelled()).unwrap();
    scene.until_turn(&path, "cancelled").await;
    scene.until_turn(&later, "in_progress").await;
    scene.end(running).await;
}

// RP-17.1: the socket lives and says nothing more about the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_an_answer_fails_its_turn_and_frees_its_place() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(1);
    let path = scene.session("one").await;
    let run = scene.started().await;
    let later = scene.session("two").await;
    run.signal(RunSignal::Sent).await;
    run.signal(RunSignal::Unknown).await;
    scene.until_turn(&path, "failed").await;
    assert!(scene.api.dump().await.contains("delivery_unknown"));
    // The Runtime is told (D30), and the place is free.
    let reason = scene.hear(|heard| match heard {
        Heard::Cancel(reason, _) => Some(reason),
        _ => None,
    });
    assert_eq!(reason.await, CancelReason::SessionEnded);
    let next = scene.started().await;
    next.begin().await;
    next.done(TurnStatus::Completed).await;
    scene.until_turn(&later, "completed").await;
    scene.end(running).await;
}

// RP-11.2: the Runtime keeps a Run until its last event is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_cancelled_run_is_acknowledged() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(1);
    let path = scene.session("one").await;
    let mut run = scene.started().await;
    let id = run.id;
    run.begin().await;
    run.report(EventBody::ItemStarted(message("m", "half")))
        .await;
    scene.until_turn(&path, "in_progress").await;
    scene.cancel(&path).await;
    let receipt = scene
        .hear(|heard| match heard {
            Heard::Cancel(_, receipt) => Some(receipt),
            _ => None,
        })
        .await;
    // The feed ends with `done`, and the receipt comes when that is stored.
    let appended = ("AppendRun", store::metrics::UnitOutcome::Committed);
    let before = scene.units.count(appended.0, appended.1);
    run.done(TurnStatus::Cancelled).await;
    scene.until_unit(appended.0, appended.1, before).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    receipt.send(cancelled()).unwrap();
    scene.until_turn(&path, "cancelled").await;
    scene
        .hear(|heard| match heard {
            Heard::Acknowledged(run, 2) if run == id => Some(()),
            _ => None,
        })
        .await;
    scene.end(running).await;
}

// A Session that no Runtime can take costs a look at each scan, and nothing between them.
#[tokio::test(flavor = "multi_thread")]
async fn queued_sessions_without_a_runtime_keep_no_task() {
    let scene = Scene::on(TestDatabase::sqlite(), false).await;
    let (shared, actors) = (scene.shared(), std::sync::Arc::new(Actors::default()));
    for _ in 0..50 {
        let path = scene.session("wait").await;
        let id = path.rsplit('/').next().unwrap();
        actors.wake(&shared, id.parse().unwrap());
    }
    assert!(actors.count() > 0);
    let none = async {
        while actors.count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, none).await.expect("every task ends");
    scene.stop.cancel();
    timeout(SOON, actors.ended()).await.unwrap();
}

// SC-7.4: the Executor that was ready for a start that never left is free for the next Turn, and so is the place.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_cannot_be_sent_gives_its_executor_back() {
    for signal in [RunSignal::NotSent, RunSignal::TooLong] {
        let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
        let running = scene.run(1);
        let path = scene.session("one").await;
        let run = scene.started().await;
        run.signal(signal).await;
        scene
            .hear(|heard| matches!(heard, Heard::ReleasePreparation).then_some(()))
            .await;
        scene.until_turn(&path, "failed").await;
        scene.say(&path, "again").await;
        let next = scene.started().await;
        next.begin().await;
        next.done(TurnStatus::Completed).await;
        scene.until_turn(&path, "completed").await;
        scene.end(running).await;
    }
}

// SC-3.3, I29: a hint is worth one period and no more. From input to release, each step is found without one.
#[tokio::test(flavor = "multi_thread")]
async fn every_step_is_found_without_hints() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    scene.api.core.store.lose_hints();
    let running = scene.run(1);
    let path = scene.session("one").await;
    let run = scene.started().await;
    let later = scene.session("two").await;
    run.begin().await;
    scene.say(&path, "more").await;
    let input = |heard| match heard {
        Heard::Input(_, answer) => Some(answer),
        _ => None,
    };
    let answer = scene.hear(input).await;
    answer.send(Answer::Done(())).unwrap();
    scene.cancel(&path).await;
    let receipt = |heard| match heard {
        Heard::Cancel(_, receipt) => Some(receipt),
        _ => None,
    };
    let receipt = scene.hear(receipt).await;
    receipt.send(cancelled()).unwrap();
    scene.until_turn(&path, "cancelled").await;

    let mut run = scene.started().await;
    run.begin().await;
    run.report(EventBody::ItemStarted(call())).await;
    scene.until_turn(&later, "waiting").await;
    let turn = scene.turn(&later).await["id"].as_str().unwrap().to_owned();
    let result = format!(
        r#"{{"type":"agent.session.input.tool_result","turn_id":"{turn}","call_id":"c","success":true,"output":"1"}}"#
    );
    scene.send(&later, &result).await;
    let applied = |heard| match heard {
        Heard::Result(answer) => Some(answer),
        _ => None,
    };
    scene.hear(applied).await.send(Answer::Done(())).unwrap();
    run.done(TurnStatus::Failed).await;
    scene.until_turn(&later, "failed").await;
    let key = scene.api.key.clone();
    let deleted = scene.api.send("DELETE", &later, Some(&key), None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    let release = |heard| match heard {
        Heard::Release(_, answer) => Some(answer),
        _ => None,
    };
    scene.hear(release).await.send(Answer::Done(())).unwrap();

    let (session, runtime) = scene.hosted().await;
    scene.connect(&runtime);
    let step = |heard| match heard {
        Heard::Initialize(_, answer) => Some(answer),
        _ => None,
    };
    scene.hear(step).await.send(Answer::Done(())).unwrap();
    let path = format!("/v1/agents/sessions/{session}");
    let said = scene.saying(&path, "hosted");
    let run = scene.started().await;
    run.begin().await;
    run.done(TurnStatus::Failed).await;
    timeout(SOON, said).await.expect("it is taken").unwrap();
    scene.until_turn(&path, "failed").await;
    scene.end(running).await;
}
