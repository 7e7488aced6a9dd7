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

/// Settles what is due, before devices and slots are looked at (ENV-250). What cannot be settled now takes nobody's place: the
/// scan goes on behind it (SC-3.1).
pub(super) async fn expire(shared: &Shared) -> Result<(), StoreError> {
    let (mut settled, mut after) = (0, None);
    loop {
        let page = shared.store.read().due_reservations(after, DUE).await?;
        let Some(last) = page.last().copied() else {
            return Ok(());
        };
        after = Some(last);
        for due in page {
            if settled == DUE {
                return Ok(());
            }
            let unit = ExpireReservation {
                session: due.session,
                reservation: due.reservation,
            };
            match shared.store.write(unit).await {
                Ok(Expired::Now) => {
                    tracing::info!(session = %due.session, "input expired");
                    settled += 1;
                }
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
    }
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
    let inputs = scan_inputs(shared, cursors).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "pending input could not be scanned");
        Vec::new()
    });
    let turns = scan_turns(shared, cursors).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "queued Turns could not be scanned");
        Vec::new()
    });
    // In turns, so that neither kind takes every free place (scheduler 3).
    for session in alternating(inputs, turns) {
        actors.wake(shared, session);
    }
}

/// One of each, as long as both last.
fn alternating(one: Vec<SessionId>, other: Vec<SessionId>) -> impl Iterator<Item = SessionId> {
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    std::iter::from_fn(move || {
        let pair = [one.next(), other.next()];
        pair.iter().any(Option::is_some).then_some(pair)
    })
    .flatten()
    .flatten()
}

/// A page of Sessions with pending input.
async fn scan_inputs(shared: &Shared, cursors: &mut Cursors) -> Result<Vec<SessionId>, StoreError> {
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
    Ok(page.into_iter().map(|input| input.session).collect())
}

/// A page of Sessions with a queued Turn.
async fn scan_turns(shared: &Shared, cursors: &mut Cursors) -> Result<Vec<SessionId>, StoreError> {
    // Without a place nothing can begin, however much waits; the place that is freed asks for this scan (SC-3.4).
    if !shared.slots.has_place() {
        return Ok(Vec::new());
    }
    let places = u32::try_from(shared.slots.places()).unwrap_or(CANDIDATES);
    let most = places.saturating_mul(PER_PLACE).min(CANDIDATES);
    let mut page = shared.store.read().queued_turns(cursors.turn, most).await?;
    if page.is_empty() && cursors.turn.take().is_some() {
        page = shared.store.read().queued_turns(None, most).await?;
    }
    cursors.turn = page.last().copied().filter(|_| page.len() == most as usize);
    Ok(page.into_iter().map(|turn| turn.session).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_kind_of_work_comes_behind_all_of_the_other() {
        let id = |n| SessionId::new(uuid::Uuid::from_u128(n));
        let woken = |one: &[u128], other: &[u128]| -> Vec<u128> {
            let ids = |all: &[u128]| all.iter().map(|n| id(*n)).collect();
            alternating(ids(one), ids(other))
                .map(|session| session.uuid().as_u128())
                .collect()
        };
        assert_eq!(woken(&[1, 2, 3], &[11]), [1, 11, 2, 3]);
        assert_eq!(woken(&[], &[11, 12]), [11, 12]);
        assert_eq!(woken(&[1], &[11, 12]), [1, 11, 12]);
    }
}
