//! The execution lease and what hangs on it (SC-2, SC-10, state-machines 1.15).

use std::sync::Arc;
use std::time::Duration;

use blobs::Blobs;
use domain::lease::Authority;
use domain::{InstallationId, OwnerId, time};
use store::units::recovery::RecoverSession;
use store::{Acquired, LeaseToken, Store, StoreError, WriteError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::actors::Actors;
use super::authorize::Authorizer;
use super::engine_host::EngineHost;
use super::slots::Slots;
use super::{Shared, allocate, connections, initialize, sweep, tick};
use crate::deployment::Deployment;
use crate::issuers::Issuers;
use crate::peer::Peers;

/// How often a process without the lease asks for it.
const ASK: Duration = Duration::from_secs(1);
/// Renewal without other leased work, and how long renewals may fail before ownership counts as lost (SC-12.4).
const RENEW: Duration = time::LEASE_RENEWAL;
const MARGIN: Duration = time::LEASE_TTL.saturating_sub(time::LEASE_MARGIN);
/// Sessions of one page of recovery.
const PAGE: u32 = 100;

/// What the scheduler works with.
#[derive(Debug, Clone)]
pub struct SchedulerSettings {
    /// Concurrent Turns, 1 to 1024 (SC-4.1); initialization has as many places of its own (SC-4.2).
    pub concurrency: u16,
    /// Stands for the data folder, whose lock this process holds: a former process of it is dead (D31).
    pub owner: OwnerId,
    /// Longest time for settling what is in flight when the process drains.
    pub drain: Duration,
    /// How long records of public writes are kept (OPS-066).
    pub write_audit_retention: Duration,
    /// This installation.
    pub installation: InstallationId,
    /// Core's address as Runtimes dial it.
    pub runtime_url: Url,
}

/// Whether this process owns execution, and since which epoch. `None` while it does not, and while it recovers: no
/// `hello` may be answered before (SC-9.5).
pub type Ownership = watch::Receiver<Option<LeaseToken>>;

/// The part of a Core that executes: what it works with.
pub struct Scheduler {
    /// The truth.
    pub store: Store,
    /// Live Runtimes.
    pub peers: Arc<dyn Peers>,
    /// Bytes of outputs.
    pub blobs: Blobs,
    /// The deployment's provider.
    pub deployment: Arc<Deployment>,
    /// The Runtime for Sessions without an Environment.
    pub engine_host: Arc<EngineHost>,
    /// Where OAuth grants are renewed.
    pub(crate) issuers: Issuers,
    /// Figures and identities.
    pub settings: SchedulerSettings,
}

/// Takes the lease when it can be had, recovers, works, and starts over when it is lost. Returns after `stop`.
///
/// `owned` becomes `Some` when recovery is complete and `None` when ownership ends.
pub async fn run(
    scheduler: Scheduler,
    owned: watch::Sender<Option<LeaseToken>>,
    stop: CancellationToken,
) {
    let Scheduler {
        store,
        peers,
        blobs,
        deployment,
        engine_host,
        issuers,
        settings,
    } = scheduler;
    while !stop.is_cancelled() {
        let acquired = store.acquire_lease(settings.owner, Authority::Folder).await;
        let token = match acquired {
            Ok(Acquired::Held(token)) => token,
            Ok(Acquired::Other { .. }) => {
                idle(&stop).await;
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "the execution lease could not be asked for");
                idle(&stop).await;
                continue;
            }
        };
        tracing::info!(epoch = token.epoch.0, "this process owns execution");
        let shared = Arc::new(Shared {
            store: store.clone(),
            peers: peers.clone(),
            blobs: blobs.clone(),
            deployment: deployment.clone(),
            engine_host: engine_host.clone(),
            installation: settings.installation,
            write_audit_retention: settings.write_audit_retention,
            runtime_url: settings.runtime_url.clone(),
            stop: CancellationToken::new(),
            draining: stop.clone(),
            authorizer: Authorizer::new(issuers.clone()),
            slots: Slots::new(settings.concurrency),
            initializing: Slots::new(settings.concurrency),
            scan: tokio::sync::Notify::new(),
            initialize: tokio::sync::Notify::new(),
            allocate: tokio::sync::Notify::new(),
            connect: tokio::sync::Notify::new(),
        });
        own(&shared, token, &settings, &owned, &stop).await;
    }
}

async fn idle(stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(ASK) => {}
    }
}

/// One ownership, from recovery to its end.
async fn own(
    shared: &Arc<Shared>,
    token: LeaseToken,
    settings: &SchedulerSettings,
    owned: &watch::Sender<Option<LeaseToken>>,
    stop: &CancellationToken,
) {
    let renewal = tokio::spawn(renew(shared.clone(), token));
    if let Err(error) = recover(shared).await {
        tracing::error!(%error, "recovery did not finish; execution is given up and tried again");
        shared.stop.cancel();
        renewal.abort();
        shared.store.abandon_lease(token);
        return;
    }
    owned.send_replace(Some(token));
    let actors = Arc::new(Actors::default());
    let loops = TaskTracker::new();
    loops.spawn(tick::run(shared.clone(), actors.clone()));
    loops.spawn(connections::run(shared.clone()));
    loops.spawn(initialize::run(shared.clone()));
    loops.spawn(allocate::run(shared.clone()));
    loops.spawn(sweep::run(shared.clone()));
    loops.close();

    tokio::select! {
        () = stop.cancelled() => drain(shared, &actors, settings.drain).await,
        () = shared.stop.cancelled() => tracing::error!(epoch = token.epoch.0, "this process lost the execution lease"),
    }
    let still_ours = !shared.stop.is_cancelled();
    if !still_ours {
        owned.send_replace(None);
    }
    shared.stop.cancel();
    actors.ended().await;
    loops.wait().await;
    shared.authorizer.settled().await;
    if still_ours {
        // The sockets close as `core_shutdown`; the last observations need the lease.
        shared.peers.shut_down().await;
    }
    owned.send_replace(None);
    renewal.abort();
    if still_ours && let Err(error) = shared.store.release_lease().await {
        tracing::warn!(%error, "the execution lease was not released; it expires by itself");
    }
}

/// Lets what is in flight end by itself for a while (SC-2.9). New work is not begun: `draining` is already cancelled.
async fn drain(shared: &Arc<Shared>, actors: &Arc<Actors>, longest: Duration) {
    let until = Instant::now() + longest;
    while actors.count() > 0 && Instant::now() < until && !shared.stop.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Settles what a former owner left, Session by Session (units.md 3).
async fn recover(shared: &Shared) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = shared.store.read().sessions_to_recover(after, PAGE).await?;
        let Some(last) = page.last().copied() else {
            return Ok(());
        };
        for session in page {
            match shared.store.write(RecoverSession { session }).await {
                Ok(changed) => tracing::info!(%session, changed, "recovered"),
                // Purged between the page and the lock.
                Err(WriteError::Refused(domain::Refusal::NotFound)) => {}
                Err(WriteError::Refused(refusal)) => {
                    tracing::error!(%session, ?refusal, "a Session cannot be recovered");
                }
                Err(WriteError::Store(error)) => return Err(error),
            }
        }
        after = Some(last);
    }
}

/// Renews while nothing else does, and ends everything when that fails for too long or the row names another.
async fn renew(shared: Arc<Shared>, token: LeaseToken) {
    let mut lease = shared.store.lease();
    let mut renewed = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(RENEW) => {}
            changed = lease.changed() => {
                if changed.is_err() || *lease.borrow() != Some(token) {
                    break;
                }
                continue;
            }
        }
        match shared.store.renew_lease().await {
            Ok(()) => renewed = Instant::now(),
            Err(StoreError::LeaseLost) => break,
            Err(error) => {
                tracing::warn!(%error, "the execution lease was not renewed");
                if renewed.elapsed() >= MARGIN {
                    break;
                }
            }
        }
    }
    shared.store.abandon_lease(token);
    shared.stop.cancel();
}
