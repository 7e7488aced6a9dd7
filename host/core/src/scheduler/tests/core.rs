//! A scheduler without any Runtime.

use std::sync::Arc;
use std::time::Duration;

use domain::{ConnectionId, DeviceId, OwnerId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use protocol::wire::CloseReason;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::scene::deployment;
use crate::api::tests::fixture::Fixture;
use crate::deployment::Deployment;
use crate::issuers::{IssuerSettings, Issuers};
use crate::peer::{Peer, Peers};
use crate::scheduler::{EngineHost, EngineHostSettings, Hosting, Scheduler, SchedulerSettings};

/// Of the selection of a fresh database.
pub(super) const GENERATION: u64 = 1;
/// Longest wait for something that must happen.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// No Runtime at all.
#[derive(Debug)]
pub(super) struct Nobody(watch::Sender<u64>);

impl Default for Nobody {
    fn default() -> Self {
        Self(watch::channel(0).0)
    }
}

impl Peers for Nobody {
    fn of(&self, _: DeviceId) -> Option<Arc<dyn Peer>> {
        None
    }

    fn connected(&self) -> Vec<Arc<dyn Peer>> {
        Vec::new()
    }

    fn is_here(&self, _: ConnectionId) -> bool {
        false
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn close(&self, _: DeviceId, _: CloseReason) {}

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn revoke(&self, _: ConnectionId) {}
}

/// The scheduler of a fixture's Core.
pub(super) async fn scheduler(
    api: &Fixture,
    hosting: Option<Arc<Hosting>>,
    stop: &CancellationToken,
) -> Scheduler {
    let deployment = deployment(api, Arc::default()).await;
    if hosting.is_some() {
        deployment.use_now(GENERATION, Ok(hosting));
    }
    scheduler_of(api, Arc::new(deployment), stop)
}

/// The same with a deployment of the test's own.
pub(super) fn scheduler_of(
    api: &Fixture,
    deployment: Arc<Deployment>,
    stop: &CancellationToken,
) -> Scheduler {
    let peers: Arc<dyn Peers> = Arc::new(Nobody::default());
    let store = api.core.store.clone();
    let nobody = "http://127.0.0.1:9/".parse::<url::Url>().unwrap();
    Scheduler {
        store: store.clone(),
        peers: peers.clone(),
        blobs: api.core.blobs.clone(),
        deployment,
        issuers: Issuers::new(&IssuerSettings::default()).unwrap(),
        engine_host: Arc::new(EngineHost::new(
            EngineHostSettings {
                home: api.folder.path().join("engine-host"),
                program: "/nonexistent".into(),
                args: Vec::new(),
                installation: store.installation(),
                device: DeviceId::new(store.installation().uuid()),
                core_url: nobody.to_string(),
            },
            store.clone(),
            peers,
            stop.clone(),
        )),
        settings: SchedulerSettings {
            concurrency: 1,
            owner: OwnerId::new(Uuid::new_v4()),
            node: None,
            drain: Duration::from_secs(1),
            write_audit_retention: Duration::from_secs(3600),
            installation: store.installation(),
            runtime_url: nobody,
        },
    }
}
