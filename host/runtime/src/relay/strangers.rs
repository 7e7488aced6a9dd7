//! Connections that have not shown a token yet.
//!
//! The relay's port can be reached by everything on the machine's loopback, the harnesses of other Sessions included. So a
//! connection belongs to nobody until its first request carries a token. Strangers have few places and little time, and when
//! there are too many, the one that has been silent longest goes: a harness, which asks at once, always finds a place.
//! Once a token is shown, the connection counts for that token only.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::routes::Open;

/// Strangers at a time.
pub(super) const STRANGERS: usize = 256;

/// The strangers, oldest first.
#[derive(Debug, Default, Clone)]
pub(super) struct Strangers(Arc<Mutex<BTreeMap<u64, CancellationToken>>>);

impl Strangers {
    /// A connection was accepted; `number` grows.
    pub(super) fn enter(&self, number: u64) -> Visitor {
        let leave = CancellationToken::new();
        let mut strangers = self.lock();
        strangers.insert(number, leave.clone());
        if strangers.len() > STRANGERS
            && let Some((_, oldest)) = strangers.pop_first()
        {
            oldest.cancel();
        }
        drop(strangers);
        Visitor {
            number,
            leave,
            strangers: self.clone(),
            place: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, CancellationToken>> {
        // The map is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Visitor {
    number: u64,
    leave: CancellationToken,
    strangers: Strangers,
    /// Its place among the connections of the token that it showed first.
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Visitor {
    /// It has shown a token. False if that has too many connections.
    pub(super) fn known(&self, open: &Open) -> bool {
        if self.is_known() {
            return true;
        }
        let Ok(place) = Arc::clone(&open.connections).try_acquire_owned() else {
            return false;
        };
        // Requests of one connection come one after another, so nobody else sets it.
        let _ = self.place.set(place);
        self.strangers.lock().remove(&self.number);
        true
    }

    /// Whether it has shown a token.
    pub(super) fn is_known(&self) -> bool {
        self.place.get().is_some()
    }

    /// Others need its place. Once it is known this never comes.
    pub(super) async fn must_leave(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.strangers.lock().remove(&self.number);
    }
}
