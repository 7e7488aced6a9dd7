//! What a Runtime is told as soon as it connects, without waiting for work: releases that it owes an answer to (RP-8.7),
//! and the binding of the Environment that it serves (state-machines 4.1 row 4).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::ConnectionId;
use domain::binding::Binding;
use domain::configuration::EnvironmentConfiguration;
use domain::run::{self, HarnessId, RefusalCode};
use protocol::wire::CloseReason;
use store::StoreError;
use store::units::environment::AckRelease;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::facts::WORKSPACE;
use crate::peer::{Answer, Peer};

/// Releases and bindings that were not acknowledged are sent again at least this often while their device is connected.
const PERIOD: Duration = Duration::from_secs(5);

/// How far the Runtimes on their connections are told what they serve.
type Greetings = Arc<Mutex<HashMap<ConnectionId, Greeting>>>;

enum Greeting {
    UnderWay,
    Done,
}

fn lock(greetings: &Greetings) -> MutexGuard<'_, HashMap<ConnectionId, Greeting>> {
    greetings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the ownership ends.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut changes = shared.peers.changes();
    let mut period = tokio::time::interval(PERIOD);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let tasks = TaskTracker::new();
    let greetings = Greetings::default();
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = period.tick() => {}
            () = shared.connect.notified() => {}
            changed = changes.changed() => if changed.is_err() { return },
        }
        if let Err(error) = wake_engine_host(&shared).await {
            tracing::warn!(%error, "the releases of the shared Runtime could not be read");
        }
        let connected = shared.peers.connected();
        lock(&greetings)
            .retain(|known, _| connected.iter().any(|peer| peer.connection() == *known));
        for peer in connected {
            let (shared, greetings) = (shared.clone(), greetings.clone());
            // A stuck Runtime delays no other (SC-3.5).
            tasks.spawn(async move {
                if let Err(error) = attend(&shared, &*peer, &greetings).await {
                    tracing::warn!(device = %peer.device(), %error, "a connected Runtime could not be looked after");
                }
            });
        }
        // Whatever waited for a device looks again.
        shared.scan.notify_one();
        shared.initialize.notify_one();
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

async fn attend(shared: &Shared, peer: &dyn Peer, greetings: &Greetings) -> Result<(), StoreError> {
    for owed in shared.store.read().releases(peer.device()).await? {
        release(shared, peer, &owed).await;
    }
    let connection = peer.connection();
    if let Entry::Vacant(first) = lock(greetings).entry(connection) {
        first.insert(Greeting::UnderWay);
    } else {
        return Ok(());
    }
    let greeted = greet(shared, peer).await;
    match greeted {
        Ok(true) => lock(greetings).insert(connection, Greeting::Done),
        // Asked again in the next period, as long as it is connected.
        Ok(false) | Err(_) => lock(greetings).remove(&connection),
    };
    greeted.map(drop)
}

/// Binds the Environment that a Runtime serves; whether all is done.
async fn greet(shared: &Shared, peer: &dyn Peer) -> Result<bool, StoreError> {
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
            if let Err(error) = shared.store.write(unit).await {
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
