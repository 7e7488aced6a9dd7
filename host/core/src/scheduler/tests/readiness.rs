//! A provider that stops being ready, and is ready again (SP-12.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::allocation::AllocationPhase;
use store::testing::TestDatabase;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::core::{GENERATION, SOON, scheduler_of};
use super::hosting::{HOSTED, Scripted, hosting, phase, state, until};
use super::scene::deployment;
use crate::api::tests::fixture::Fixture;
use crate::deployment::Deployment;
use crate::scheduler::run;

/// Waits until the deployment says this of its provider.
async fn says(deployment: &Deployment, problem: Option<&str>) {
    let said = async {
        while deployment.problem().as_deref() != problem {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, said).await.expect("it is asked again");
}

// SP-12.2, SP-2.1: only the admission of hosted Environments is closed, and nothing is written by what is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_ready_closes_hosted_admission_and_nothing_else() {
    let api = Fixture::on(TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let provider = Arc::new(Scripted::default());
    let hosting = hosting(provider.clone(), &store).await;
    let deployment = Arc::new(deployment(&api, api.core.hosts.clone()).await);
    deployment.use_now(GENERATION, Ok(Some(hosting)));
    let stop = CancellationToken::new();
    let watching = tokio::spawn(deployment.clone().watch(stop.clone()));
    let scheduler = scheduler_of(&api, deployment.clone(), &stop);
    let running = tokio::spawn(run(scheduler, watch::channel(None).0, stop.clone()));

    let before = api.session(HOSTED).await;
    until(&store, &before, |state| {
        phase(state) == Some(AllocationPhase::Running)
    })
    .await;

    provider.unready.store(true, Ordering::SeqCst);
    says(&deployment, Some("capacity_insufficient")).await;
    let written = api.dump().await;
    for body in [
        HOSTED,
        r#"{"environment":{"type":"openai_hosted"},"input":"x"}"#,
    ] {
        let refused = api.post("/v1/agents/sessions", body).await;
        assert_eq!(refused.status, 503, "{}", refused.body);
    }
    assert_eq!(api.dump().await, written);

    // What is there goes on, and so does what needs no sandbox.
    let path = format!("/v1/agents/sessions/{before}");
    assert_eq!(api.get(&path).await.status, 200);
    let cancel = r#"{"events":[{"type":"agent.session.input.cancel"}]}"#;
    let cancelled = api.post(&format!("{path}/events"), cancel).await;
    assert!(cancelled.status < 300, "{}", cancelled.body);
    api.session(r#"{"environment":{"type":"none"},"input":"x"}"#)
        .await;
    let deleted = api.send("DELETE", &path, Some(&api.key), None).await;
    assert!(deleted.status < 300, "{}", deleted.body);
    until(&store, &before, |state| {
        phase(state) == Some(AllocationPhase::Released)
    })
    .await;

    provider.unready.store(false, Ordering::SeqCst);
    says(&deployment, None).await;
    let after = api.session(HOSTED).await;
    until(&store, &after, |state| {
        phase(state) == Some(AllocationPhase::Running)
    })
    .await;
    assert!(state(&store, &after).await.environment.is_some());
    stop.cancel();
    running.await.unwrap();
    watching.await.unwrap();
}

// SP-12.2: what is admitted already waits for a provider that is ready; it is not given to one that is not.
#[tokio::test(flavor = "multi_thread")]
async fn an_environment_that_was_admitted_waits_for_the_provider() {
    let api = Fixture::on(TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let provider = Arc::new(Scripted::default());
    let hosting = hosting(provider.clone(), &store).await;
    let deployment = Arc::new(deployment(&api, api.core.hosts.clone()).await);
    deployment.use_now(GENERATION, Ok(Some(hosting)));
    let admitted = api.session(HOSTED).await;

    provider.unready.store(true, Ordering::SeqCst);
    let stop = CancellationToken::new();
    let watching = tokio::spawn(deployment.clone().watch(stop.clone()));
    says(&deployment, Some("capacity_insufficient")).await;
    let scheduler = scheduler_of(&api, deployment.clone(), &stop);
    let running = tokio::spawn(run(scheduler, watch::channel(None).0, stop.clone()));
    // Another loop of the same scheduler has seen the Session when a creation without an Environment was seen.
    let other = api
        .session(r#"{"environment":{"type":"none"},"input":"x"}"#)
        .await;
    until(&store, &other, |state| state.turn.is_some()).await;
    assert_eq!(phase(&state(&store, &admitted).await), None);

    provider.unready.store(false, Ordering::SeqCst);
    until(&store, &admitted, |state| {
        phase(state) == Some(AllocationPhase::Running)
    })
    .await;
    stop.cancel();
    running.await.unwrap();
    watching.await.unwrap();
}
