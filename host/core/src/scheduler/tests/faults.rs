//! A database that fails for a moment decides nothing.

use std::sync::Arc;
use std::time::Duration;

use domain::run::{EventBody, FunctionCall, Item, ItemBody, ItemEnd, ItemStatus, TurnStatus};
use domain::turn::Claim;
use domain::{RunId, SessionId};
use store::metrics::UnitOutcome::{Committed, Failed};
use store::testing::TestDatabase;
use store::units::environment::BindDevice;
use store::units::turn::ClaimTurn;
use tokio::sync::oneshot;
use tokio::time::timeout;
use uuid::Uuid;

use super::runtime::{Heard, Run, SOON, cancelled, message};
use super::scene::Scene;
use crate::peer::{Answer, RunSignal};
use crate::scheduler::actors::Actors;
use crate::scheduler::tick;

/// A Run that talks without end.
async fn talking(scene: &mut Scene) -> (String, oneshot::Sender<()>) {
    let path = scene.session("talk").await;
    let run = scene.started().await;
    run.begin().await;
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(run.talk(stopped));
    scene.until_unit("AppendRun", Committed, 0).await;
    (path, stop)
}

/// It still talks, its Turn is still looked after, and a cancel ends it.
async fn goes_on(scene: &mut Scene, path: &str, stop: oneshot::Sender<()>) {
    let appended = scene.units.count("AppendRun", Committed);
    scene.until_unit("AppendRun", Committed, appended + 1).await;
    scene.cancel(path).await;
    let receipt = scene
        .hear(|heard| match heard {
            Heard::Cancel(_, receipt) => Some(receipt),
            _ => None,
        })
        .await;
    stop.send(()).unwrap();
    receipt.send(cancelled()).unwrap();
    scene.until_turn(path, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_when_its_session_cannot_be_read_for_a_while() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(1);
    let (path, stop) = talking(&mut scene).await;
    // Only the actor's own reads need it now; it reads once a second.
    scene.hide("configurations").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    scene.show("configurations").await;
    goes_on(&mut scene, &path, stop).await;
    scene.end(running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_when_the_server_cuts_every_connection() {
    let mut scene = Scene::on(TestDatabase::postgres().await, true).await;
    let running = scene.run(1);
    let (path, stop) = talking(&mut scene).await;
    for _ in 0..2 {
        scene
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            .await;
        tokio::time::sleep(Duration::from_millis(1200)).await;
    }
    goes_on(&mut scene, &path, stop).await;
    scene.end(running).await;
}

/// Makes a unit fail until it has been tried in vain, by a fault in a table that it writes.
pub(super) struct Fault(&'static str, u32, u32);

impl Fault {
    pub(super) async fn of(scene: &Scene, unit: &'static str, table: &str) -> Self {
        let counted = |outcome| scene.units.count(unit, outcome);
        let fault = Self(unit, counted(Failed), counted(Committed));
        scene.break_writes(table).await;
        fault
    }

    /// It was tried, and is done once it can be.
    pub(super) async fn passes(self, scene: &Scene) {
        scene.until_unit(self.0, Failed, self.1).await;
        assert_eq!(scene.units.count(self.0, Committed), self.2, "{}", self.0);
        scene.mend_writes().await;
        scene.until_unit(self.0, Committed, self.2).await;
    }
}

pub(super) fn call() -> Item {
    Item {
        key: "call".into(),
        body: ItemBody::FunctionCall(FunctionCall {
            call: "c".into(),
            name: "f".into(),
            arguments: "{}".into(),
        }),
    }
}

// Each unit of a Run that a repeat finds done.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_fails_once_decides_no_turn() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(1);
    let path = scene.session("go").await;
    let mut run = scene.started().await;
    run.begin().await;
    scene.until_turn(&path, "in_progress").await;

    let fault = Fault::of(&scene, "AppendRun", "items").await;
    run.report(EventBody::ItemStarted(message("m", "hello")))
        .await;
    fault.passes(&scene).await;

    scene.say(&path, "more").await;
    let answer = scene
        .hear(|heard| match heard {
            Heard::Input(_, answer) => Some(answer),
            _ => None,
        })
        .await;
    let fault = Fault::of(&scene, "ConfirmInput", "inputs").await;
    answer.send(Answer::Done(())).unwrap();
    fault.passes(&scene).await;

    run.report(EventBody::ItemStarted(call())).await;
    scene.until_turn(&path, "waiting").await;
    let turn = scene.turn(&path).await["id"].as_str().unwrap().to_owned();
    scene
        .send(
            &path,
            &format!(r#"{{"type":"agent.session.input.tool_result","turn_id":"{turn}","call_id":"c","success":true,"output":"1"}}"#),
        )
        .await;
    let answer = scene
        .hear(|heard| match heard {
            Heard::Result(answer) => Some(answer),
            _ => None,
        })
        .await;
    let fault = Fault::of(&scene, "ApplyResult", "calls").await;
    answer.send(Answer::Done(())).unwrap();
    fault.passes(&scene).await;

    let appended = scene.units.count("AppendRun", Committed);
    finished(&mut run).await;
    scene.until_unit("AppendRun", Committed, appended).await;
    // `done` itself says nothing to a client, the end of the Turn does.
    let fault = Fault::of(&scene, "FinishTurn", "events").await;
    run.done(TurnStatus::Completed).await;
    fault.passes(&scene).await;
    scene.until_turn(&path, "completed").await;
    scene.end(running).await;
}

async fn finished(run: &mut Run) {
    let end = ItemEnd {
        item: message("m", "hello"),
        status: ItemStatus::Completed,
    };
    run.report(EventBody::ItemEnded(end)).await;
}

// Nothing was sent, so nothing is known to have been refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_read_is_delivered_later() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(1);
    let path = scene.session("go").await;
    let run = scene.started().await;
    run.signal(RunSignal::Sent).await;
    // It waits for the Run (D6).
    scene.say(&path, "more").await;
    scene.hide("items").await;
    run.signal(RunSignal::Started).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(scene.units.count("ConfirmInput", Committed), 0);
    scene.show("items").await;
    let (text, answer) = scene
        .hear(|heard| match heard {
            Heard::Input(text, answer) => Some((text, answer)),
            _ => None,
        })
        .await;
    assert_eq!(text, "more");
    answer.send(Answer::Done(())).unwrap();
    scene.until_unit("ConfirmInput", Committed, 0).await;
    run.done(TurnStatus::Completed).await;
    scene.until_turn(&path, "completed").await;
    scene.end(running).await;
}

/// A claimed Turn that no task of this process looks after.
async fn abandoned(scene: &Scene) -> (String, SessionId) {
    let path = scene.session("go").await;
    let session: SessionId = path.rsplit('/').next().unwrap().parse().unwrap();
    let store = &scene.api.core.store;
    let device = scene.device;
    let bound = store.write(BindDevice { session, device }).await.unwrap();
    let binding = bound.expect("it is bound");
    let turn = scene.turn(&path).await["id"].as_str().unwrap().to_owned();
    let claim = Claim {
        run_id: RunId::new(Uuid::new_v4()),
        owner_epoch: scene.token.epoch,
        binding_id: binding.id,
        binding_epoch: binding.epoch,
        device_id: device,
    };
    let turn = turn.parse().unwrap();
    let unit = ClaimTurn {
        session,
        turn,
        claim,
    };
    assert_eq!(store.write(unit).await.unwrap(), domain::turn::Claimed::Now);
    (path, session)
}

// SC-10.1: without a restart, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_turn_without_a_task_is_found() {
    let scene = Scene::on(TestDatabase::sqlite(), true).await;
    let (path, _) = abandoned(&scene).await;
    let (shared, actors) = (scene.shared(), Arc::new(Actors::default()));
    let scanning = tokio::spawn(tick::run(shared, actors.clone()));
    scene.until_turn(&path, "failed").await;
    assert!(scene.api.dump().await.contains("execution_interrupted"));
    scene.stop.cancel();
    timeout(SOON, scanning).await.unwrap().unwrap();
    timeout(SOON, actors.ended()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_always_fails_is_tried_now_and_then_and_a_stop_is_heard() {
    let scene = Scene::on(TestDatabase::sqlite(), true).await;
    let (path, session) = abandoned(&scene).await;
    scene.break_writes("events").await;
    let (shared, actors) = (scene.shared(), Arc::new(Actors::default()));
    actors.wake(&shared, session);
    scene.until_unit("InterruptTurn", Failed, 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tried = scene.units.count("InterruptTurn", Failed);
    assert!(tried < 20, "{tried} times in a second");
    scene.mend_writes().await;
    scene.until_turn(&path, "failed").await;
    scene.break_writes("events").await;
    scene.stop.cancel();
    timeout(SOON, actors.ended()).await.expect("it stops");
}
