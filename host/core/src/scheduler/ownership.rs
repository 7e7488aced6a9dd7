//! The execution lease and what hangs on it (SC-2, SC-10, state-machines 1.15).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use blobs::Blobs;
use domain::lease::Authority;
use domain::{AllocationId, InstallationId, OwnerId, time};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use store::units::recovery::RecoverSession;
use store::{Acquired, LeaseToken, Store, StoreError, WriteError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::actors::Actors;
use super::authorize::Authorizer;
use super::connections::Talks;
use super::engine_host::EngineHost;
use super::initialize::BUDGET;
use super::slots::Slots;
use super::tasks::{AFTER_A_FAULT, Tasks, keep};
use super::{Shared, allocate, connections, initialize, sweep, tick};
use crate::deployment::Deployment;
use crate::issuers::Issuers;
use crate::peer::Peers;

/// How often a process without the lease asks for it.
const ASK: Duration = Duration::from_secs(1);
/// Renewal without other leased work, and how long renewals may fail before ownership counts as lost (SC-12.4).
const RENEW: Duration = time::LEASE_RENEWAL;
const MARGIN: Duration = time::LEASE_TTL.saturating_sub(time::LEASE_MARGIN);
/// How long the last writes of a process that ends may take, once nothing new is begun.
const LAST: Duration = Duration::from_secs(2);
/// Sessions of one page of recovery.
const PAGE: u32 = 100;

/// What the scheduler works with.
#[derive(Debug, Clone)]
pub struct SchedulerSettings {
    /// Concurrent Turns, 1 to 1024 (SC-4.1); initialization has as many places of its own (SC-4.2).
    pub concurrency: u16,
    /// Stands for the data folder, whose lock this process holds: a former process of it is dead (D31).
    pub owner: OwnerId,
    /// What names this Core's machine where several Cores may share the database: only it sees what it made there. None where
    /// there is but one.
    pub node: Option<OwnerId>,
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
    // They outlive each ownership, and the next one begins meanwhile.
    let calls = Tasks::default();
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
            node: settings.node,
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
        let owning = own(&shared, &calls, token, &settings, &owned, &stop);
        if AssertUnwindSafe(owning).catch_unwind().await.is_err() {
            // Nobody would work under a lease that is still renewed.
            tracing::error!(
                epoch = token.epoch.0,
                "execution failed; it is given up and begins again"
            );
            shared.stop.cancel();
            store.abandon_lease(token);
            owned.send_replace(None);
            idle(&stop).await;
        }
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
    calls: &Tasks<AllocationId>,
    token: LeaseToken,
    settings: &SchedulerSettings,
    owned: &watch::Sender<Option<LeaseToken>>,
    stop: &CancellationToken,
) {
    let (store, lost) = (shared.store.clone(), shared.stop.clone());
    let renewal = tokio::spawn(renew(store, token, lost, RENEW, MARGIN));
    if let Err(error) = recover(shared).await {
        tracing::error!(%error, "recovery did not finish; execution is given up and tried again");
        shared.stop.cancel();
        renewal.abort();
        shared.store.abandon_lease(token);
        // Each attempt writes an epoch; what is wrong will not be mended at once.
        idle(stop).await;
        return;
    }
    owned.send_replace(Some(token));
    let actors = Arc::new(Actors::default());
    let loops = loops(shared, &actors, calls);
    let ended = async {
        actors.ended().await;
        loops.wait().await;
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = shared.stop.cancelled() => {
            tracing::error!(epoch = token.epoch.0, "this process lost the execution lease");
            owned.send_replace(None);
            ended.await;
            renewal.abort();
            return;
        }
    }
    let until = Instant::now() + settings.drain;
    drain(shared, &actors, until).await;
    let still_ours = !shared.stop.is_cancelled();
    if !still_ours {
        owned.send_replace(None);
    }
    shared.stop.cancel();
    // A native call that goes on for longer is left alone: its record is fenced, and the next owner looks at what it did.
    let until = until.max(Instant::now() + LAST);
    let ended = async {
        ended.await;
        calls.ended().await;
    };
    if tokio::time::timeout_at(until, ended).await.is_err() {
        tracing::warn!(
            "calls to the provider are still under way; the next start looks at what they did"
        );
    }
    // An issuer has its own deadline, and what it answers must not be lost.
    shared.authorizer.settled().await;
    if still_ours {
        // The sockets close as `core_shutdown`; the last observations need the lease.
        let last = async {
            shared.peers.shut_down().await;
            shared.store.release_lease().await
        };
        match tokio::time::timeout(LAST, last).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the execution lease was not released; it expires by itself");
            }
            Err(_) => {
                tracing::warn!("the execution lease was not released in time; it expires by itself")
            }
        }
    }
    owned.send_replace(None);
    renewal.abort();
}

/// Starts the loops of one ownership, each kept alive to its end.
fn loops(shared: &Arc<Shared>, actors: &Arc<Actors>, calls: &Tasks<AllocationId>) -> TaskTracker {
    let loops = TaskTracker::new();
    let (attempts, talks) = (Tasks::default(), Talks::default());
    let start = |name, begin: Box<dyn Fn(Arc<Shared>) -> BoxFuture<'static, ()> + Send + Sync>| {
        let shared = shared.clone();
        loops.spawn(async move {
            let stop = shared.stop.clone();
            keep(name, &stop, AFTER_A_FAULT, || begin(shared.clone())).await;
        });
    };
    let actors = actors.clone();
    start(
        "tick",
        Box::new(move |shared| tick::run(shared, actors.clone()).boxed()),
    );
    start(
        "connections",
        Box::new(move |shared| connections::run(shared, talks.clone()).boxed()),
    );
    start(
        "initialize",
        Box::new(move |shared| initialize::run(shared, attempts.clone(), BUDGET).boxed()),
    );
    let calls = calls.clone();
    start(
        "allocate",
        Box::new(move |shared| allocate::run(shared, calls.clone()).boxed()),
    );
    start("sweep", Box::new(|shared| sweep::run(shared).boxed()));
    loops.close();
    loops
}

/// Lets what is in flight end by itself for a while (SC-2.9). New work is not begun: `draining` is already cancelled.
async fn drain(shared: &Arc<Shared>, actors: &Arc<Actors>, until: Instant) {
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
                // Only its own work is lost: it must not keep all others from theirs.
                Err(WriteError::Store(error)) if error.is_of_these_rows() => {
                    tracing::error!(%session, %error, "a Session cannot be recovered");
                }
                Err(WriteError::Store(error)) => return Err(error),
            }
        }
        after = Some(last);
    }
}

/// Renews while nothing else does, and ends everything when that fails for too long or the row names another. A database that
/// does not answer is one that fails: another process may reach it, and takes the lease when it expires (SC-12.4).
pub(super) async fn renew(
    store: Store,
    token: LeaseToken,
    lost: CancellationToken,
    period: Duration,
    margin: Duration,
) {
    // Whatever ends this task ends the ownership.
    let lost = lost.drop_guard();
    let mut lease = store.lease();
    let (mut renewed, mut pause) = (Instant::now(), period);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = lease.changed() => {
                if changed.is_err() || *lease.borrow() != Some(token) {
                    break;
                }
                continue;
            }
        }
        let asked = Instant::now();
        match tokio::time::timeout_at(renewed + margin, store.renew_lease()).await {
            Ok(Ok(())) => (renewed, pause) = (asked, period),
            Ok(Err(StoreError::LeaseLost)) => break,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the execution lease was not renewed");
                pause = ASK.min(period);
            }
            Err(_) => {
                tracing::error!("the database does not answer; execution is given up");
                break;
            }
        }
    }
    store.abandon_lease(token);
    drop(lost);
}
