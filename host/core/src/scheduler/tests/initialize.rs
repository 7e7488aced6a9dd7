//! The one preparation of an Environment, whatever fails meanwhile.

use std::sync::Arc;
use std::time::Duration;

use domain::SessionId;
use domain::environment::{FailureReason, Initialization};
use domain::run::RefusalCode;
use store::testing::TestDatabase;
use store::units::environment::BeginInit;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::faults::Fault;
use super::runtime::{Heard, Runtime, SOON};
use super::scene::Scene;
use crate::peer::Answer;
use crate::scheduler::initialize::{BUDGET, Budget, run};
use crate::scheduler::tasks::Tasks;

const TINY: Duration = Duration::from_millis(50);

fn start(scene: &Scene, budget: Budget) -> JoinHandle<()> {
    tokio::spawn(run(scene.shared(), Tasks::default(), budget))
}

async fn step(scene: &mut Scene) -> (domain::DeviceId, oneshot::Sender<Answer<()>>) {
    let asked = |heard| match heard {
        Heard::Initialize(device, answer) => Some((device, answer)),
        _ => None,
    };
    scene.hear(asked).await
}

/// A hosted Session whose Runtime is here.
async fn connected(scene: &Scene) -> (SessionId, Arc<Runtime>) {
    let (session, runtime) = scene.hosted().await;
    scene.connect(&runtime);
    (session, runtime)
}

async fn ready(scene: &Scene, session: SessionId) {
    let complete = |is: Initialization| matches!(is, Initialization::Complete { .. });
    let reached =
        |state: &domain::SessionState| complete(state.environment.as_ref().unwrap().initialization);
    scene.until(session, reached).await;
}

async fn failed(scene: &Scene, session: SessionId) {
    scene
        .until(session, |state| {
            let failure = state.environment.as_ref().unwrap().failure;
            failure.is_some_and(|failure| failure.reason == FailureReason::Incomplete)
        })
        .await;
}

async fn end(scene: &Scene, running: JoinHandle<()>) {
    scene.stop.cancel();
    timeout(SOON, running).await.expect("it ends").unwrap();
}

// Each unit of a preparation.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_fails_leaves_no_environment_half_prepared() {
    let mut scene = Scene::on(TestDatabase::sqlite(), false).await;
    let (session, _) = connected(&scene).await;
    let fault = Fault::of(&scene, "BeginInit", "environments").await;
    let running = start(&scene, BUDGET);
    fault.passes(&scene).await;
    let (_, answer) = step(&mut scene).await;
    let fault = Fault::of(&scene, "CompleteInit", "environments").await;
    answer.send(Answer::Done(())).unwrap();
    fault.passes(&scene).await;
    ready(&scene, session).await;

    let (session, _) = connected(&scene).await;
    let (_, answer) = step(&mut scene).await;
    let fault = Fault::of(&scene, "FailEnvironment", "environments").await;
    let code = RefusalCode::StepFailed;
    answer.send(Answer::Rejected(code)).unwrap();
    fault.passes(&scene).await;
    failed(&scene, session).await;
    end(&scene, running).await;
}

// SC-8.5: without a restart, too. This is what an unknown commit of the beginning, or a lost end, leaves behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_preparation_that_was_begun_and_has_no_task_is_failed() {
    let scene = Scene::on(TestDatabase::sqlite(), false).await;
    // Its socket does not matter any more.
    let (session, _) = scene.hosted().await;
    let generation = 1;
    let unit = BeginInit {
        session,
        generation,
    };
    assert!(scene.api.core.store.write(unit).await.unwrap());
    let running = start(&scene, BUDGET);
    failed(&scene, session).await;
    assert_eq!(
        scene
            .api
            .get(&format!("/v1/agents/sessions/{session}"))
            .await
            .json()["status"],
        "failed"
    );
    end(&scene, running).await;
}

// SC-8.5: what comes after the end of an ownership is not written under the next one.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_ownership_ends_its_preparations() {
    let mut scene = Scene::on(TestDatabase::sqlite(), false).await;
    let (session, _) = connected(&scene).await;
    let running = start(&scene, BUDGET);
    let (_, answer) = step(&mut scene).await;
    end(&scene, running).await;
    assert!(answer.is_closed(), "nobody waits for it");
    let left = scene.state(session).await.environment.unwrap();
    assert!(matches!(
        left.initialization,
        Initialization::Running { .. }
    ));
}

// SC-8.3
#[tokio::test(flavor = "multi_thread")]
async fn a_preparation_that_takes_too_long_is_failed() {
    let long = Duration::from_secs(3600);
    for (step_budget, whole) in [(TINY, long), (long, TINY)] {
        let mut scene = Scene::on(TestDatabase::sqlite(), false).await;
        let (session, _) = connected(&scene).await;
        let budget = Budget {
            step: step_budget,
            whole,
        };
        let running = start(&scene, budget);
        let (_, _answer) = step(&mut scene).await;
        failed(&scene, session).await;
        end(&scene, running).await;
    }
}

// SC-8.1, SC-8.2: a page of those without a socket keeps nobody waiting, and uses none of their attempts up.
#[tokio::test(flavor = "multi_thread")]
async fn environments_without_a_socket_wait_and_keep_nobody_waiting() {
    let mut scene = Scene::on(TestDatabase::sqlite(), false).await;
    let mut all = Vec::new();
    for _ in 0..34 {
        let (session, runtime) = scene.hosted().await;
        let environment = scene.state(session).await.environment.unwrap();
        all.push((environment.id.to_string(), session, runtime));
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    let running = start(&scene, BUDGET);
    // The last one is on the second page, and the first one is found again behind it.
    for (_, session, runtime) in [&all[33], &all[0]] {
        scene.connect(runtime);
        let (device, answer) = step(&mut scene).await;
        assert_eq!(device, runtime.device);
        answer.send(Answer::Done(())).unwrap();
        ready(&scene, *session).await;
    }
    let waiting = scene.state(all[1].1).await.environment.unwrap();
    assert_eq!(waiting.initialization, Initialization::Pending);
    end(&scene, running).await;
}
