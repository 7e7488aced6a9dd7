//! Hosted compute over a scripted provider.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use domain::allocation::AllocationPhase;
use domain::environment::EnvironmentStatus;
use domain::{SessionId, SessionState};
use plugin_host::contract::common::Failure;
use plugin_host::contract::sandbox_types::*;
use plugin_host::contract::{Host, SandboxProvider};
use plugin_host::providers::{Provider, ProviderHandle};
use store::{Parts, Store};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::core::{GENERATION, SOON, scheduler};
use crate::api::tests::fixture::Fixture;
use crate::provider_memory::Records;
use crate::scheduler::{Hosting, run};

const MANIFEST: &str = r#"
id = "scripted"
version = "1.0.0"
name = "Scripted"
license = "Apache-2.0"
kind = "sandbox-provider"
contract = "0.2.0"
[permissions]
"#;

/// Makes sandboxes that are only words, and fails as it is told.
#[derive(Default)]
pub(super) struct Scripted {
    /// `create` loses its answer.
    loses_creates: AtomicBool,
    /// `inspect` refuses to look.
    refuses_to_look: AtomicBool,
    inspected: AtomicU32,
    /// `create` waits while this is true.
    stands: (Mutex<bool>, Condvar),
    creating: AtomicBool,
    creates: AtomicU32,
    /// `inspect` finds nothing.
    finds_nothing: AtomicBool,
    /// It cannot occupy a name.
    cannot_fence: AtomicBool,
    /// `check` says so.
    pub(super) unready: AtomicBool,
    /// Kills that were to occupy the name, and all.
    fences: AtomicU32,
    kills: AtomicU32,
}

impl Scripted {
    fn go_on(&self) {
        *self.stands.0.lock().unwrap() = false;
        self.stands.1.notify_all();
    }
}

fn sandbox(state: SandboxState) -> Outcome {
    Outcome::Done(SandboxInfo {
        native_id: Some("it".into()),
        state,
        bootstrap_complete: true,
        create_settled: true,
        lease_until_ms: None,
        operation: None,
        facts: Vec::new(),
    })
}

fn no(code: &str) -> Outcome {
    Outcome::Rejected(Rejection {
        code: code.into(),
        remains: None,
    })
}

impl SandboxProvider for Scripted {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, _: &dyn Host, _: &Selection) -> Result<ProviderDeclaration, Failure> {
        Ok(ProviderDeclaration {
            id: "scripted".into(),
            display_name: "Scripted".into(),
            abilities: ProviderAbilities {
                suspend_cold: false,
                suspend_warm: false,
                observe: false,
                settle_by_expiry: false,
                settle_by_name: !self.cannot_fence.load(Ordering::SeqCst),
                finish_bootstrap: true,
                network_disabled: false,
                network_restricted: false,
                system_packages: false,
                public_core_url: false,
            },
            resources: ResourceSupport {
                cpus: ResourceUse::Refused,
                memory: ResourceUse::Refused,
                root_disk: ResourceUse::Refused,
                environment_disk: ResourceUse::Refused,
            },
            sizes: Vec::new(),
            images: Vec::new(),
            longest_lease_ms: None,
            ephemeral_workspace_s: None,
            workspace_limit_bytes: None,
            artifact_session_limit_bytes: None,
            max_active: 8,
            max_retained: 8,
            facts: Vec::new(),
            more: Vec::new(),
        })
    }

    fn check(&self, _: &dyn Host, _: &Selection) -> Health {
        let unready = self.unready.load(Ordering::SeqCst);
        Health {
            ready: !unready,
            code: unready.then(|| "capacity_insufficient".into()),
            resolved: Resources {
                cpus: None,
                memory_mib: None,
                root_disk_mib: None,
                environment_disk_mib: None,
            },
            facts: Vec::new(),
        }
    }

    fn create(&self, _: &dyn Host, _: &Target, _: CreateKind, _: &Bootstrap) -> Outcome {
        self.creating.store(true, Ordering::SeqCst);
        self.creates.fetch_add(1, Ordering::SeqCst);
        let stands = self.stands.0.lock().unwrap();
        drop(self.stands.1.wait_while(stands, |stands| *stands).unwrap());
        if self.loses_creates.load(Ordering::SeqCst) {
            return Outcome::Unknown(Doubt {
                code: "lost".into(),
                evidence: None,
            });
        }
        sandbox(SandboxState::Running)
    }

    fn inspect(&self, _: &dyn Host, _: &Target) -> Outcome {
        self.inspected.fetch_add(1, Ordering::SeqCst);
        if self.refuses_to_look.load(Ordering::SeqCst) {
            return no("credentials_refused");
        }
        if self.finds_nothing.load(Ordering::SeqCst) {
            return Outcome::NotFound;
        }
        sandbox(SandboxState::Running)
    }

    fn renew(&self, _: &dyn Host, _: &Target, _: u64) -> Outcome {
        no("unsupported_operation")
    }

    fn suspend(&self, _: &dyn Host, _: &Target, _: &str, _: bool) -> Outcome {
        no("unsupported_operation")
    }

    fn resume(&self, _: &dyn Host, _: &Target, _: &str) -> Outcome {
        no("unsupported_operation")
    }

    fn kill(&self, _: &dyn Host, _: &Target, fence: bool) -> Outcome {
        self.kills.fetch_add(1, Ordering::SeqCst);
        self.fences.fetch_add(fence.into(), Ordering::SeqCst);
        sandbox(SandboxState::Gone)
    }

    fn list_owned(
        &self,
        _: &dyn Host,
        _: &Selection,
        _: &str,
        _: Option<&str>,
    ) -> Result<OwnedPage, Failure> {
        Ok(OwnedPage {
            entries: Vec::new(),
            next: None,
        })
    }

    fn observe(&self, _: &dyn Host, _: &[Target]) -> Result<Vec<Measurement>, Failure> {
        Ok(Vec::new())
    }
}

pub(super) async fn hosting(provider: Arc<Scripted>, store: &Store) -> Arc<Hosting> {
    let provider = Provider::new(provider, MANIFEST).unwrap();
    let granted = provider.granted.clone();
    let memory = Arc::new(Records::new(store.clone()));
    let handle = ProviderHandle::new(provider, &granted, memory, None);
    let url = "http://127.0.0.1:9/".to_owned();
    let selection = (GENERATION, Vec::new());
    let mut hosting = Hosting::new(handle, selection, store.installation(), url);
    hosting.make_ready().await.unwrap();
    Arc::new(hosting)
}

pub(super) async fn state(store: &Store, session: &str) -> SessionState {
    let id: SessionId = session.parse().unwrap();
    let state = store.read().state(id, &Parts::whole()).await.unwrap();
    state.unwrap()
}

/// Waits until a Session is in such a state.
pub(super) async fn until(
    store: &Store,
    session: &str,
    holds: impl Fn(&SessionState) -> bool,
) -> SessionState {
    let reached = async {
        loop {
            let state = state(store, session).await;
            if holds(&state) {
                return state;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, reached).await.expect("the state is reached")
}

pub(super) fn phase(state: &SessionState) -> Option<AllocationPhase> {
    state.allocation.as_ref().map(|allocation| allocation.phase)
}

pub(super) const HOSTED: &str = r#"{"environment":{"type":"openai_hosted"}}"#;

/// SP-4.4, SP-4.5: a provider that does not look has not said that the create failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_look_leaves_a_lost_create_open() {
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let provider = Arc::new(Scripted::default());
    provider.loses_creates.store(true, Ordering::SeqCst);
    provider.refuses_to_look.store(true, Ordering::SeqCst);
    let hosting = hosting(provider.clone(), &store).await;
    let stop = CancellationToken::new();
    let scheduler = scheduler(&api, Some(hosting), &stop).await;
    let running = tokio::spawn(run(scheduler, watch::channel(None).0, stop.clone()));
    let session = api.session(HOSTED).await;
    let looked = async {
        while provider.inspected.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, looked).await.expect("it looks");
    let open = state(&store, &session).await;
    assert_eq!(phase(&open), Some(AllocationPhase::Creating));
    assert!(!open.environment.unwrap().status.is_terminal());
    provider.refuses_to_look.store(false, Ordering::SeqCst);
    until(&store, &session, |state| {
        phase(state) == Some(AllocationPhase::Running)
    })
    .await;
    stop.cancel();
    timeout(SOON, running).await.expect("it drains").unwrap();
}

/// SC-2.9: a native call may take a minute; the process that is told to end does not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_for_a_native_call() {
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let provider = Arc::new(Scripted::default());
    *provider.stands.0.lock().unwrap() = true;
    let hosting = hosting(provider.clone(), &store).await;
    let stop = CancellationToken::new();
    let scheduler = scheduler(&api, Some(hosting), &stop).await;
    let drain = scheduler.settings.drain;
    let running = tokio::spawn(run(scheduler, watch::channel(None).0, stop.clone()));
    let session = api.session(HOSTED).await;
    let begun = async {
        while !provider.creating.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, begun).await.expect("the create begins");
    stop.cancel();
    let ended = timeout(drain + Duration::from_secs(5), running).await;
    provider.go_on();
    ended.expect("it ends in time").unwrap();
    assert_eq!(
        store.lease_row().await.unwrap().owner,
        None,
        "the lease is given up"
    );
    assert_eq!(
        phase(&state(&store, &session).await),
        Some(AllocationPhase::Creating)
    );
}

/// A7, A5, SP-4.6: a create that was lost and of which nothing is there fails its Environment and gives its place back, where
/// the provider can make sure that it never lands; never a second create (SP-4.3).
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_create_is_settled_by_its_name() {
    let provider = Arc::new(Scripted::default());
    provider.loses_creates.store(true, Ordering::SeqCst);
    provider.finds_nothing.store(true, Ordering::SeqCst);
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let hosting = hosting(provider.clone(), &store).await;
    let stop = CancellationToken::new();
    let scheduler = scheduler(&api, Some(hosting), &stop).await;
    let running = tokio::spawn(run(scheduler, watch::channel(None).0, stop.clone()));
    let session = api
        .session(r#"{"environment":{"type":"openai_hosted"},"input":"hello"}"#)
        .await;
    let lost = until(&store, &session, |state| {
        phase(state) == Some(AllocationPhase::Released)
    })
    .await;
    assert!(lost.pending_reservation().is_none());
    assert_eq!(lost.environment.unwrap().status, EnvironmentStatus::Failed);
    assert_eq!(provider.fences.load(Ordering::SeqCst), 1);
    assert!(provider.kills.load(Ordering::SeqCst) > 1, "and removed");
    assert_eq!(provider.creates.load(Ordering::SeqCst), 1);

    // The next one works.
    provider.loses_creates.store(false, Ordering::SeqCst);
    provider.finds_nothing.store(false, Ordering::SeqCst);
    let next = api.session(HOSTED).await;
    until(&store, &next, |state| {
        phase(state) == Some(AllocationPhase::Running)
    })
    .await;
    stop.cancel();
    timeout(SOON, running).await.expect("it drains").unwrap();
}

/// SP-4.5, SP-9.5: without a fence nothing proves that it never lands, so it stays, and stays ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_create_without_a_fence_stays_open() {
    let provider = Arc::new(Scripted::default());
    provider.loses_creates.store(true, Ordering::SeqCst);
    provider.finds_nothing.store(true, Ordering::SeqCst);
    provider.cannot_fence.store(true, Ordering::SeqCst);
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let hosting = hosting(provider.clone(), &store).await;
    let stop = CancellationToken::new();
    let scheduler = scheduler(&api, Some(hosting), &stop).await;
    let running = tokio::spawn(run(scheduler, watch::channel(None).0, stop.clone()));
    let session = api.session(HOSTED).await;
    let looked = async {
        while provider.inspected.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, looked).await.expect("it looks");
    assert_eq!(
        phase(&state(&store, &session).await),
        Some(AllocationPhase::Creating)
    );
    assert_eq!(provider.kills.load(Ordering::SeqCst), 0);
    // It may be late.
    provider.finds_nothing.store(false, Ordering::SeqCst);
    until(&store, &session, |state| {
        phase(state) == Some(AllocationPhase::Running)
    })
    .await;
    stop.cancel();
    timeout(SOON, running).await.expect("it drains").unwrap();
}

/// SC-3.5: nobody else owns execution after a lost lease, so the next ownership waits for no native call; and the call that goes
/// on is the only one for its allocation (SP-3.5).
#[tokio::test(flavor = "multi_thread")]
async fn a_native_call_keeps_no_next_ownership_waiting() {
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let provider = Arc::new(Scripted::default());
    *provider.stands.0.lock().unwrap() = true;
    let hosting = hosting(provider.clone(), &store).await;
    let stop = CancellationToken::new();
    let scheduler = scheduler(&api, Some(hosting), &stop).await;
    let (owned, mut ownership) = watch::channel(None);
    let running = tokio::spawn(run(scheduler, owned, stop.clone()));
    let session = api.session(HOSTED).await;
    let begun = async {
        while !provider.creating.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, begun).await.expect("the create begins");
    let first = ownership.borrow().expect("it owns");
    store.abandon_lease(first);
    let again = ownership.wait_for(|token| token.is_some_and(|token| token != first));
    timeout(SOON, again).await.expect("it owns again").unwrap();
    assert_eq!(
        phase(&state(&store, &session).await),
        Some(AllocationPhase::Creating)
    );
    provider.go_on();
    until(&store, &session, |state| {
        phase(state) == Some(AllocationPhase::Running)
    })
    .await;
    assert_eq!(provider.creates.load(Ordering::SeqCst), 1);
    stop.cancel();
    timeout(SOON, running).await.expect("it drains").unwrap();
}
