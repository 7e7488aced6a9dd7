//! The scans: what is due, and which Sessions have work. A lost hint costs one period (SC-3.3).

use std::sync::Arc;
use std::time::Duration;

use domain::SessionId;
use store::read::QueuedTurn;
use store::units::reservation::{ExpireReservation, Expired};
use store::{StoreError, WriteError};
use tokio::sync::broadcast::error::RecvError;

use super::Shared;
use super::actors::Actors;

/// Period of every scan here.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Due reservations of one tick (SC-3.1).
const DUE: u32 = 32;
/// Candidates of one page (scheduler 3).
const CANDIDATES: u32 = 100;
/// Queued Turns that one scan looks at for each free place: more than one, since some may wait for a Runtime that is away, and
/// not all, since each look costs several reads.
const PER_PLACE: u32 = 16;

/// Runs until the ownership ends.
pub(super) async fn run(shared: Arc<Shared>, actors: Arc<Actors>) {
    let mut hints = shared.store.hints();
    let mut cursors = Cursors::default();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = tick.tick() => {
                if let Err(error) = expire(&shared).await {
                    tracing::warn!(%error, "due reservations could not be expired");
                }
                scan(&shared, &actors, &mut cursors).await;
                if let Err(error) = scan_claims(&shared, &actors, &mut cursors).await {
                    tracing::warn!(%error, "claimed Turns could not be scanned");
                }
            }
            () = shared.scan.notified() => scan(&shared, &actors, &mut cursors).await,
            () = shared.slots.freed() => scan(&shared, &actors, &mut cursors).await,
            hint = hints.recv() => match hint {
                Ok(hint) => shared.hint(&actors, hint),
                Err(RecvError::Lagged(_)) => scan(&shared, &actors, &mut cursors).await,
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// Settles what is due, before devices and slots are looked at (ENV-250).
async fn expire(shared: &Shared) -> Result<(), StoreError> {
    for due in shared.store.read().due_reservations(DUE).await? {
        let unit = ExpireReservation {
            session: due.session,
            reservation: due.reservation,
        };
        match shared.store.write(unit).await {
            Ok(Expired::Now) => tracing::info!(session = %due.session, "input expired"),
            Ok(Expired::NotDue | Expired::Locked) => {}
            Err(WriteError::Store(error)) if error.is_of_these_rows() => {
                tracing::error!(session = %due.session, %error, "input cannot expire");
            }
            Err(WriteError::Store(error)) => return Err(error),
            Err(WriteError::Refused(refusal)) => {
                tracing::error!(session = %due.session, ?refusal, "an expiry was refused");
            }
        }
    }
    Ok(())
}

/// Where each scan goes on; it moves before readiness is known, so an offline Runtime blocks nobody (SC-4.4).
#[derive(Default)]
struct Cursors {
    input: Option<SessionId>,
    turn: Option<QueuedTurn>,
    claim: Option<SessionId>,
}

async fn scan(shared: &Arc<Shared>, actors: &Arc<Actors>, cursors: &mut Cursors) {
    if shared.draining.is_cancelled() {
        return;
    }
    if let Err(error) = scan_inputs(shared, actors, cursors).await {
        tracing::warn!(%error, "pending input could not be scanned");
    }
    if let Err(error) = scan_turns(shared, actors, cursors).await {
        tracing::warn!(%error, "queued Turns could not be scanned");
    }
}

async fn scan_inputs(
    shared: &Arc<Shared>,
    actors: &Arc<Actors>,
    cursors: &mut Cursors,
) -> Result<(), StoreError> {
    let mut page = shared
        .store
        .read()
        .pending_inputs(cursors.input, CANDIDATES)
        .await?;
    if page.is_empty() && cursors.input.take().is_some() {
        page = shared.store.read().pending_inputs(None, CANDIDATES).await?;
    }
    cursors.input = page
        .last()
        .filter(|_| page.len() == CANDIDATES as usize)
        .map(|last| last.session);
    for input in page {
        actors.wake(shared, input.session);
    }
    Ok(())
}

async fn scan_turns(
    shared: &Arc<Shared>,
    actors: &Arc<Actors>,
    cursors: &mut Cursors,
) -> Result<(), StoreError> {
    // Without a place nothing can begin, however much waits; the place that is freed asks for this scan (SC-3.4).
    if !shared.slots.has_place() {
        return Ok(());
    }
    let places = u32::try_from(shared.slots.places()).unwrap_or(CANDIDATES);
    let most = places.saturating_mul(PER_PLACE).min(CANDIDATES);
    let mut page = shared.store.read().queued_turns(cursors.turn, most).await?;
    if page.is_empty() && cursors.turn.take().is_some() {
        page = shared.store.read().queued_turns(None, most).await?;
    }
    cursors.turn = page.last().copied().filter(|_| page.len() == most as usize);
    for turn in page {
        actors.wake(shared, turn.session);
    }
    Ok(())
}

/// A claimed Turn whose task ended all the same is settled by the next one: without it, only a restart would (SC-10.1).
async fn scan_claims(
    shared: &Arc<Shared>,
    actors: &Arc<Actors>,
    cursors: &mut Cursors,
) -> Result<(), StoreError> {
    if shared.draining.is_cancelled() {
        return Ok(());
    }
    let after = cursors.claim.take();
    let page = shared.store.read().claimed_turns(after, CANDIDATES).await?;
    cursors.claim = page
        .last()
        .copied()
        .filter(|_| page.len() == CANDIDATES as usize);
    for session in page {
        actors.ensure(shared, session);
    }
    Ok(())
}
