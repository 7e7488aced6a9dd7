//! A Runtime that refuses to bind a Session.

use std::sync::Arc;

use domain::run::{Binding, RefusalCode, TurnStatus};
use domain::{BindingId, DeviceId, EnvironmentId, SessionId};
use store::testing::TestDatabase;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::runtime::Runtime;
use super::scene::Scene;
use crate::api::tests::fixture::declaration;
use crate::peer::Peer;
use crate::scheduler::connections::ask_to_bind;

fn authority(environment: Option<EnvironmentId>) -> Binding {
    Binding {
        session: SessionId::new(Uuid::from_u128(1)),
        environment,
        id: BindingId::new(Uuid::from_u128(2)),
        epoch: 1,
    }
}

/// RP-2.5, RP-8.2, RP-8.3: only a Runtime that is there for one Session and can never serve it is told so for good.
#[tokio::test]
async fn only_a_conflict_of_a_dedicated_runtime_closes_it() {
    let environment = EnvironmentId::new(Uuid::from_u128(3));
    for (code, conflict) in [
        (RefusalCode::BindingStale, false),
        (RefusalCode::HarnessUnavailable, false),
        (RefusalCode::Busy, false),
        (RefusalCode::BindingConflict, true),
        (RefusalCode::WorkspaceMismatch, true),
    ] {
        for environment in [None, Some(environment)] {
            let device = DeviceId::new(Uuid::from_u128(4));
            let runtime = Arc::new(Runtime::new(device, mpsc::unbounded_channel().0));
            runtime.refuse(code);
            let harness = declaration().id;
            let bound = ask_to_bind(&*runtime, authority(environment), harness.clone(), None).await;
            assert!(!bound);
            assert_eq!(
                runtime.closed().is_cancelled(),
                conflict && environment.is_some(),
                "{code:?}"
            );
            assert!(ask_to_bind(&*runtime, authority(environment), harness, None).await);
        }
    }
}

/// RP-17.1 row 1: a Session that the shared Runtime refuses costs nobody its Turn, and is asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn the_shared_runtime_outlives_a_refusal() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let running = scene.run(2);
    let first = scene.session("one").await;
    let run = scene.started().await;
    run.begin().await;
    for code in [RefusalCode::BindingStale, RefusalCode::BindingConflict] {
        scene.runtime().refuse(code);
    }
    let second = scene.session("two").await;
    let later = scene.started().await;
    later.begin().await;
    later.done(TurnStatus::Completed).await;
    run.done(TurnStatus::Completed).await;
    scene.until_turn(&second, "completed").await;
    scene.until_turn(&first, "completed").await;
    assert!(!scene.runtime().closed().is_cancelled());
    scene.end(running).await;
}
