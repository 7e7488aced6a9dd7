//! What a Runtime is told as soon as it connects, without waiting for work: releases that it owes an answer to (RP-8.7),
//! and the binding of the Environment that it serves (state-machines 4.1 row 4).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::binding::Binding;
use domain::configuration::EnvironmentConfiguration;
use domain::environment::Observe;
use domain::run::{self, HarnessId, RefusalCode};
use domain::{BindingId, ConnectionId};
use protocol::wire::CloseReason;
use store::units::environment::{AckRelease, ObserveConnection};
use store::{StoreError, WriteError};
use tokio::sync::Semaphore;

use super::facts::WORKSPACE;
use super::tasks::Tasks;
use super::{Shared, again};
use crate::peer::{Answer, Peer};

/// Releases and bindings that were not acknowledged are sent again at least this often while their device is connected, and
/// what the store says of connections is compared with those that are here.
const PERIOD: Duration = Duration::from_secs(5);
/// Releases that wait for one Runtime's answer at a time: fewer than Core may ask it at once, so that work goes on meanwhile.
const RELEASES: usize = 8;
const _: () = assert!(RELEASES * 2 <= protocol::wire::limits::OUTSTANDING);
/// Environments of one page.
const PAGE: u32 = 100;

/// What is under way on the connections of one ownership.
#[derive(Clone, Default)]
pub(super) struct Talks {
    /// Environments that are bound as soon as their Runtime is here.
    greetings: Tasks<ConnectionId>,
    /// One release of a binding on one connection (RP-6.3).
    releases: Tasks<(ConnectionId, BindingId)>,
}

/// A connection and how far it has been told what it serves.
struct Known {
    greeted: Arc<AtomicBool>,
    releases: Arc<Semaphore>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            greeted: Arc::default(),
            releases: Arc::new(Semaphore::new(RELEASES)),
        }
    }
}

/// Runs until the ownership ends.
pub(super) async fn run(shared: Arc<Shared>, talks: Talks) {
    let mut changes = shared.peers.changes();
    let mut period = tokio::time::interval(PERIOD);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut known: HashMap<ConnectionId, Known> = HashMap::new();
    loop {
        let due = tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = period.tick() => true,
            () = shared.connect.notified() => false,
            changed = changes.changed() => {
                if changed.is_err() { return }
                false
            }
        };
        if due && let Err(error) = close_what_is_gone(&shared).await {
            tracing::warn!(%error, "connections could not be compared with what is stored of them");
        }
        if let Err(error) = wake_engine_host(&shared).await {
            tracing::warn!(%error, "the releases of the shared Runtime could not be read");
        }
        let connected = shared.peers.connected();
        known.retain(|known, _| connected.iter().any(|peer| peer.connection() == *known));
        for peer in connected {
            let known = known.entry(peer.connection()).or_default();
            greet(&shared, &talks, &peer, known);
            let (shared, talks) = (shared.clone(), talks.clone());
            let places = known.releases.clone();
            // A stuck Runtime delays no other (SC-3.5).
            tokio::spawn(async move {
                if let Err(error) = release_owed(&shared, &talks, &peer, &places).await {
                    tracing::warn!(device = %peer.device(), %error, "releases could not be read");
                }
            });
        }
        // Whatever waited for a device looks again.
        shared.scan.notify_one();
        shared.initialize.notify_one();
    }
}

/// The end of a connection is recorded once, by its socket. Where that was lost, the connection is not here and the store says
/// that it is (SC-9.1, C3).
async fn close_what_is_gone(shared: &Shared) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = shared
            .store
            .read()
            .environments_observed(after, PAGE)
            .await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.session_id);
        for environment in page {
            let seen = environment.observation;
            let here = seen
                .connection_id
                .is_some_and(|connection| shared.peers.is_here(connection));
            if here {
                continue;
            }
            let session = environment.session_id;
            let observe = Observe::Lost {
                generation: seen.generation,
                revision: seen.revision + 1,
            };
            match shared
                .store
                .write(ObserveConnection { session, observe })
                .await
            {
                Ok(_) => tracing::warn!(%session, "a connection has ended unrecorded"),
                Err(WriteError::Refused(_)) => {}
                Err(WriteError::Store(error)) if error.is_of_these_rows() => {
                    tracing::error!(%session, %error, "the end of a connection cannot be recorded");
                }
                Err(WriteError::Store(error)) => return Err(error),
            }
        }
    }
}

/// The shared Runtime is our own child: nobody else starts it so that it can keep what it owes.
async fn wake_engine_host(shared: &Shared) -> Result<(), StoreError> {
    let device = shared.engine_host.device_id();
    if shared.peers.of(device).is_none() && !shared.store.read().releases(device).await?.is_empty()
    {
        shared.engine_host.ensure_started().await;
    }
    Ok(())
}

/// Binds what a Runtime serves, once; asked again in the next period as long as that did not do.
fn greet(shared: &Arc<Shared>, talks: &Talks, peer: &Arc<dyn Peer>, known: &Known) {
    if known.greeted.load(Ordering::Relaxed) {
        return;
    }
    let (shared, peer, greeted) = (shared.clone(), peer.clone(), known.greeted.clone());
    talks.greetings.begin(peer.connection(), async move {
        match bind_all(&shared, &*peer).await {
            Ok(done) => greeted.store(done, Ordering::Relaxed),
            Err(error) => {
                tracing::warn!(device = %peer.device(), %error, "a Runtime could not be told what it serves");
            }
        }
    });
}

/// Sends what a Runtime owes, each once at a time and a few at a time.
async fn release_owed(
    shared: &Arc<Shared>,
    talks: &Talks,
    peer: &Arc<dyn Peer>,
    places: &Arc<Semaphore>,
) -> Result<(), StoreError> {
    for owed in shared.store.read().releases(peer.device()).await? {
        let (shared, peer, places) = (shared.clone(), peer.clone(), places.clone());
        talks
            .releases
            .begin((peer.connection(), owed.id), async move {
                let closed = peer.closed();
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    () = closed.cancelled() => {}
                    () = async {
                        // Never closed.
                        let _place = places.acquire().await;
                        release(&shared, &*peer, &owed).await;
                    } => {}
                }
            });
    }
    Ok(())
}

/// Binds the Environment that a Runtime serves; whether all is done.
async fn bind_all(shared: &Shared, peer: &dyn Peer) -> Result<bool, StoreError> {
    let mut bound = true;
    for binding in shared.store.read().bindings(peer.device()).await? {
        if binding.environment_id.is_some() {
            bound &= bind(shared, peer, &binding).await?;
        }
    }
    Ok(bound)
}

fn authority(binding: &Binding) -> run::Binding {
    run::Binding {
        session: binding.session_id,
        environment: binding.environment_id,
        id: binding.id,
        epoch: binding.epoch,
    }
}

/// Sends a recorded release; the same epoch is sent again until it is acknowledged (RP-8.6).
async fn release(shared: &Shared, peer: &dyn Peer, owed: &Binding) {
    let remove_home = owed.release.is_some_and(|release| release.remove_home);
    let session = owed.session_id;
    match peer.release(authority(owed), remove_home).await {
        Answer::Done(()) => {
            let unit = AckRelease {
                session,
                binding: owed.id,
                epoch: owed.epoch,
            };
            if let Err(error) = again::write(shared, unit).await {
                tracing::warn!(%session, %error, "an acknowledged release was not stored; it is sent again");
            }
        }
        other => tracing::info!(%session, ?other, "a release is not acknowledged yet"),
    }
}

/// Whether nothing is left to ask for.
async fn bind(shared: &Shared, peer: &dyn Peer, binding: &Binding) -> Result<bool, StoreError> {
    let authority = authority(binding);
    if peer.is_bound(&authority) {
        return Ok(true);
    }
    let Some(configuration) = shared
        .store
        .read()
        .configuration(binding.session_id)
        .await?
    else {
        return Ok(true);
    };
    let workspace = match configuration.environment {
        EnvironmentConfiguration::None => None,
        EnvironmentConfiguration::OpenaiHosted(_) => Some(WORKSPACE.to_owned()),
    };
    let bound = ask_to_bind(peer, authority, configuration.harness, workspace).await;
    if bound {
        shared.scan.notify_one();
    }
    shared.initialize.notify_one();
    Ok(bound)
}

/// Binds a Session to a Runtime; whether it is bound now. A Runtime without the harness is not asked. A new Environment fails
/// of this (N2); what is initialized waits until the Runtime greets again, with the harness.
pub(super) async fn ask_to_bind(
    peer: &dyn Peer,
    authority: run::Binding,
    harness: HarnessId,
    workspace: Option<String>,
) -> bool {
    if !peer.can_run(&harness) {
        return false;
    }
    match peer.bind(authority, harness, workspace).await {
        Answer::Done(()) => true,
        // The harness went away just now, which the Runtime declares next; or the binding was released since we read it
        // (RP-2.5). Whoever asked reads again.
        Answer::Rejected(RefusalCode::HarnessUnavailable | RefusalCode::BindingStale) => false,
        Answer::Rejected(code) => {
            tracing::error!(session = %authority.session, ?code, "a Runtime refused a Session");
            let conflict = matches!(
                code,
                RefusalCode::BindingConflict | RefusalCode::WorkspaceMismatch
            );
            // One that is there for this Session alone can never serve it (RP-8.2, RP-8.3). A shared one serves the others.
            if conflict && authority.environment.is_some() {
                peer.close(CloseReason::BindingConflict);
            }
            false
        }
        Answer::Failed { .. } | Answer::Unanswered(_) => false,
    }
}
