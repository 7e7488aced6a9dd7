//! Hosted compute, from reservation to release (state-machines 1.9, SP-4, SP-6, SP-9). The right to each native call is
//! committed before the call; what the call told is committed after it; what it did not tell is observed, never repeated.

use std::sync::Arc;
use std::time::Duration;

use domain::allocation::{Allocation, AllocationPhase, Observed, Record, Reserve, Reserved};
use domain::provider::{NativeState, Outcome, SandboxInfo};
use domain::{AllocationId, DeviceId};
use plugin_host::providers::BootstrapFile;
use protocol::bootstrap::socket_address;
use protocol::wire::CloseReason;
use store::units::allocation::{BeginCreate, FinishRelease, RecordAllocation, ReserveAllocation};
use store::{StoreError, WriteError};
use tokio::time::Instant;
use uuid::Uuid;

use super::hosting::Hosting;
use super::tasks::Tasks;
use super::{Shared, bootstrap};

/// Period and page of the provider's loop (scheduler 3).
const PERIOD: Duration = Duration::from_secs(5);
const PAGE: u32 = 32;
/// While there is no room this is said again after so long.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Runs until the ownership ends. A native call in progress goes on to its answer: `calls` outlives the ownership, so that calls
/// for one allocation come one after another (SP-3.5) while nobody waits for them.
pub(super) async fn run(shared: Arc<Shared>, calls: Tasks<AllocationId>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // When it was last said that there is no room.
    let mut full: Option<Instant> = None;
    loop {
        let observe = tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = tick.tick() => true,
            () = shared.allocate.notified() => false,
            () = shared.deployment.changed() => false,
        };
        // Without a provider that is ready nothing new is made; what is there is still looked after (SP-12.2).
        if let Some(provider) = shared.deployment.current() {
            match reserve(&shared, &provider).await {
                Ok(Room::Left) => full = None,
                Ok(Room::None) if full.is_some_and(|said| said.elapsed() < SAY_AGAIN) => {}
                Ok(Room::None) => {
                    let most = provider.max_active();
                    tracing::warn!(
                        most,
                        "every sandbox of the provider is in use; Sessions wait until one is deleted"
                    );
                    full = Some(Instant::now());
                }
                Err(error) => {
                    tracing::warn!(%error, "Environments without compute could not be scanned");
                }
            }
        }
        if let Err(error) = advance(&shared, &calls, observe).await {
            tracing::warn!(%error, "allocations could not be scanned");
        }
    }
}

/// Whether the provider may hold more compute.
enum Room {
    Left,
    None,
}

/// Finds hosted Environments without an allocation (SP-6.6).
async fn reserve(shared: &Shared, provider: &Hosting) -> Result<Room, StoreError> {
    if shared.draining.is_cancelled() {
        return Ok(Room::Left);
    }
    let mut after = None;
    loop {
        let page = shared
            .store
            .read()
            .environments_to_allocate(after, PAGE)
            .await?;
        let Some(last) = page.last() else {
            return Ok(Room::Left);
        };
        after = Some(last.environment);
        for work in page {
            let device_id = DeviceId::new(Uuid::new_v4());
            let credential = bootstrap::credential(shared.store.fingerprints(), device_id)?;
            let unit = ReserveAllocation {
                session: work.session,
                reserve: Reserve {
                    provider: provider.id().to_owned(),
                    plugin: Some(provider.plugin()),
                    generation: provider.generation(),
                    device_id,
                    credential: bootstrap::digest(&credential),
                },
                limit: Some(provider.max_active()),
            };
            match shared.store.write(unit).await {
                Ok(Reserved::Now(_) | Reserved::NotWanted) | Err(WriteError::Refused(_)) => {}
                // Without capacity all of them stay as they are and are found again (A2).
                Ok(Reserved::NoCapacity) => return Ok(Room::None),
                Err(WriteError::Store(error)) if error.is_of_these_rows() => {
                    tracing::error!(session = %work.session, %error, "an Environment cannot be given compute");
                }
                Err(WriteError::Store(error)) => return Err(error),
            }
        }
    }
}

/// Gives every allocation with something to do a task.
async fn advance(
    shared: &Arc<Shared>,
    calls: &Tasks<AllocationId>,
    observe: bool,
) -> Result<(), StoreError> {
    let mut after: Option<Allocation> = None;
    loop {
        let page = shared
            .store
            .read()
            .allocations(after.as_ref(), PAGE)
            .await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.clone());
        for allocation in page {
            let quiet = allocation.phase == AllocationPhase::Running
                && (!observe || shared.peers.of(allocation.device_id).is_some());
            if quiet {
                continue;
            }
            let shared = shared.clone();
            calls.begin(allocation.id, async move {
                let id = allocation.id;
                if let Err(error) = step(&shared, allocation).await {
                    tracing::warn!(allocation = %id, %error, "an allocation could not be moved on");
                }
            });
        }
    }
}

/// Whether the compute is on the machine of another Core. Not seeing it from here says nothing about it (SP-4.5, SP-9.6): it
/// stays as it is until its own Core executes again.
fn elsewhere(shared: &Shared, allocation: &Allocation) -> bool {
    match (&allocation.node, shared.node) {
        (Some(node), Some(own)) => *node != own.to_string(),
        _ => false,
    }
}

/// One allocation by its phase (SP-6.3).
async fn step(shared: &Shared, allocation: Allocation) -> Result<(), StoreError> {
    if elsewhere(shared, &allocation) {
        tracing::debug!(allocation = %allocation.id, "it is looked after by the Core of its own data folder");
        return Ok(());
    }
    // Never by another generation's settings (SP-2.6).
    let Some(provider) = shared.deployment.of(&allocation).await? else {
        return Ok(());
    };
    let provider = &*provider;
    match allocation.phase {
        AllocationPhase::Reserved => create(shared, provider, allocation).await,
        AllocationPhase::Creating => find(shared, provider, allocation).await,
        AllocationPhase::Running => watch(shared, provider, allocation).await,
        AllocationPhase::Releasing => release(shared, provider, allocation).await,
        // No provider of this build suspends (SP-3.1).
        AllocationPhase::Suspending { .. }
        | AllocationPhase::Suspended
        | AllocationPhase::Resuming { .. }
        | AllocationPhase::Released => Ok(()),
    }
}

/// What hands the device's credential over; the same file each time (SP-5.8).
fn hand_over(shared: &Shared, allocation: &Allocation) -> Result<BootstrapFile, StoreError> {
    let credential = bootstrap::credential(shared.store.fingerprints(), allocation.device_id)?;
    let (core, installation) = (shared.runtime_url.clone(), shared.installation);
    let (device, environment) = (allocation.device_id, allocation.environment_id);
    Ok(Arc::new(move |seen| {
        let socket = seen.core.map(socket_address);
        bootstrap::file(
            socket.as_deref().unwrap_or(core.as_str()),
            installation,
            device,
            &credential,
            Some(environment),
            Some(seen.workspace),
        )
    }))
}

/// A3 to A7: the one create.
async fn create(
    shared: &Shared,
    provider: &Hosting,
    allocation: Allocation,
) -> Result<(), StoreError> {
    if shared.draining.is_cancelled() {
        return Ok(());
    }
    let (session, revision) = (allocation.session_id, allocation.revision);
    let node = provider
        .is_on_this_machine()
        .then(|| shared.node.map(|node| node.to_string()))
        .flatten();
    let begin = BeginCreate {
        session,
        revision,
        node,
    };
    let begun = shared.store.write(begin).await;
    if !matches!(begun, Ok(true)) {
        return store_error(begun.map(drop));
    }
    let bootstrap = hand_over(shared, &allocation)?;
    let outcome = provider.create(&allocation, bootstrap).await;
    crash::crash_point!("provider_create.sent");
    if !matches!(outcome, Outcome::Done(_)) {
        shared.deployment.doubt();
    }
    // `BeginCreate` has moved the revision by one.
    let allocation = Allocation {
        revision: revision + 1,
        ..allocation
    };
    settle_create(shared, provider, allocation, outcome).await
}

/// `creating` after a restart, or after an answer that told nothing: look, never create again (SP-6.3).
async fn find(
    shared: &Shared,
    provider: &Hosting,
    allocation: Allocation,
) -> Result<(), StoreError> {
    match provider.inspect(&allocation).await {
        // A provider that will not look says nothing about the create, which may have landed (SP-4.4, SP-4.5).
        Outcome::Rejected { code, .. } => {
            uncertain(&allocation, &code);
            Ok(())
        }
        outcome => settle_create(shared, provider, allocation, outcome).await,
    }
}

async fn settle_create(
    shared: &Shared,
    provider: &Hosting,
    allocation: Allocation,
    outcome: Outcome,
) -> Result<(), StoreError> {
    match outcome {
        Outcome::Done(info) | Outcome::Exists(info) => {
            if let Some(record) = running(&info) {
                return record_it(shared, &allocation, record).await;
            }
            // Ours, but the hand-off is not complete: the same file again changes nothing that is done (SP-5.8).
            let bootstrap = hand_over(shared, &allocation)?;
            match provider.finish(&allocation, bootstrap).await {
                Outcome::Done(info) | Outcome::Exists(info) => match running(&info) {
                    Some(record) => record_it(shared, &allocation, record).await,
                    None => Ok(()),
                },
                Outcome::Rejected { code, .. } => rejected(shared, &allocation, &code).await,
                Outcome::NotOurs => rejected(shared, &allocation, "not_ours").await,
                Outcome::NotFound => missing(shared, provider, &allocation).await,
                Outcome::Unknown { code, .. } => {
                    uncertain(&allocation, &code);
                    Ok(())
                }
            }
        }
        Outcome::Rejected { code, .. } => rejected(shared, &allocation, &code).await,
        Outcome::NotOurs => rejected(shared, &allocation, "not_ours").await,
        Outcome::NotFound => missing(shared, provider, &allocation).await,
        Outcome::Unknown { code, .. } => {
            uncertain(&allocation, &code);
            Ok(())
        }
    }
}

/// A missing observation settles nothing (SP-4.5): the scan looks again, unless the provider can make sure that the create
/// never lands. Then it has failed, whether it was sent or not (A7, SP-4.6).
async fn missing(
    shared: &Shared,
    provider: &Hosting,
    allocation: &Allocation,
) -> Result<(), StoreError> {
    if !provider.settles_by_name().await {
        return Ok(());
    }
    match provider.kill(allocation).await {
        Outcome::Done(info) if info.create_settled && is_gone(&info) => {
            rejected(shared, allocation, "create_lost").await
        }
        other => {
            tracing::warn!(allocation = %allocation.id, ?other, "a lost create is not settled yet; it is looked at again");
            Ok(())
        }
    }
}

/// Nothing is left of it but perhaps what occupies its name.
fn is_gone(info: &SandboxInfo) -> bool {
    matches!(info.state, NativeState::Gone | NativeState::Tombstone)
}

/// What a bootstrapped machine allows to record (A4).
fn running(info: &SandboxInfo) -> Option<Record> {
    let native_id = info.native_id.clone()?;
    (info.bootstrap_complete && matches!(info.state, NativeState::Running | NativeState::Starting))
        .then_some(Record::Running {
            native_id,
            lease_expires_at: info.lease_until,
        })
}

fn uncertain(allocation: &Allocation, code: &str) {
    tracing::warn!(allocation = %allocation.id, code, "the provider's answer tells nothing; it is looked at again");
}

/// A5: a settled no fails the Environment (D25).
async fn rejected(shared: &Shared, allocation: &Allocation, code: &str) -> Result<(), StoreError> {
    tracing::error!(allocation = %allocation.id, session = %allocation.session_id, code, "the provider refused to create");
    record_it(shared, allocation, Record::CreateRejected).await
}

/// A15: what happened to a machine whose daemon is not connected.
async fn watch(
    shared: &Shared,
    provider: &Hosting,
    allocation: Allocation,
) -> Result<(), StoreError> {
    let observed = match provider.inspect(&allocation).await {
        Outcome::NotFound => Some(Observed::Missing),
        Outcome::Done(info) => match info.state {
            NativeState::Stopped | NativeState::Suspended => Some(Observed::Stopped),
            NativeState::Gone => Some(Observed::Missing),
            NativeState::Starting
            | NativeState::Running
            | NativeState::Tombstone
            | NativeState::Other(_) => None,
        },
        Outcome::Exists(_)
        | Outcome::Rejected { .. }
        | Outcome::NotOurs
        | Outcome::Unknown { .. } => None,
    };
    match observed {
        Some(observed) if allocation.observation != Some(observed) => {
            tracing::warn!(allocation = %allocation.id, ?observed, "a machine does not run any more");
            record_it(shared, &allocation, Record::NotRunning(observed)).await
        }
        _ => Ok(()),
    }
}

/// How often it is looked whether a Turn whose cancel is awaited has ended.
const LOOK: Duration = Duration::from_millis(500);

/// A13, A14, SP-9.1: the connection is closed before the machine is removed; done only when everything is gone. An active Turn
/// gets the time that the receipt of its cancel needs (D42, SC-10.5).
async fn release(
    shared: &Shared,
    provider: &Hosting,
    allocation: Allocation,
) -> Result<(), StoreError> {
    while let Some(wait) = shared
        .store
        .read()
        .receipt_wait(allocation.session_id)
        .await?
    {
        tokio::select! {
            () = shared.stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait.min(LOOK)) => {}
        }
    }
    shared
        .peers
        .close(allocation.device_id, CloseReason::Revoked);
    crash::crash_point!("release.closed");
    let outcome = provider.kill(&allocation).await;
    crash::crash_point!("provider_kill.sent");
    let (session, mut revision) = (allocation.session_id, allocation.revision);
    match outcome {
        Outcome::Done(info) if is_gone(&info) => {
            if !allocation.create_settled {
                if !info.create_settled {
                    // A create that may still land keeps its cleanup (SP-9.5).
                    return Ok(());
                }
                let settled = RecordAllocation {
                    session,
                    revision,
                    record: Record::CreateSettled,
                };
                store_error(shared.store.write(settled).await.map(drop))?;
                revision += 1;
            }
            store_error(
                shared
                    .store
                    .write(FinishRelease { session, revision })
                    .await
                    .map(drop),
            )
        }
        other => {
            tracing::info!(allocation = %allocation.id, ?other, "a machine is not removed yet; the same again later");
            Ok(())
        }
    }
}

async fn record_it(
    shared: &Shared,
    allocation: &Allocation,
    record: Record,
) -> Result<(), StoreError> {
    let unit = RecordAllocation {
        session: allocation.session_id,
        revision: allocation.revision,
        record,
    };
    store_error(shared.store.write(unit).await.map(drop))?;
    shared.allocate.notify_one();
    Ok(())
}

/// A refusal means that the Session is gone; the scan sees the rest.
fn store_error<R>(written: Result<(), WriteError<R>>) -> Result<(), StoreError> {
    match written {
        Ok(()) | Err(WriteError::Refused(_)) => Ok(()),
        Err(WriteError::Store(error)) => Err(error),
    }
}
