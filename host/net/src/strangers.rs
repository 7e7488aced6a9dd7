//! Connections that have not shown who they are.
//!
//! A listener on loopback can be reached by everything on the machine, sandboxes included. So a connection belongs to nobody
//! until a request of it is authenticated. Its listener decides how many strangers there may be; one too many makes the one go
//! that has been here longest. A client, which asks at once, always finds a place, however many others say nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The strangers of one listener. Clones are the same ones.
#[derive(Debug, Default, Clone)]
pub struct Strangers(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    oldest_first: BTreeMap<u64, CancellationToken>,
}

impl Strangers {
    /// A connection was accepted.
    #[must_use]
    pub fn enter(&self) -> Stranger {
        let leave = CancellationToken::new();
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.oldest_first.insert(number, leave.clone());
        drop(waiting);
        Stranger {
            number,
            leave,
            all: self.clone(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().oldest_first.len()
    }

    /// Others need a place: the one that has been here longest must leave. Nothing happens when there is none.
    pub fn oldest_leaves(&self) {
        if let Some((_, oldest)) = self.lock().oldest_first.pop_first() {
            oldest.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // It is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection; dropped when it ends.
#[derive(Debug)]
pub struct Stranger {
    number: u64,
    leave: CancellationToken,
    all: Strangers,
}

impl Stranger {
    /// It has shown who it is, and is no stranger any more: it keeps its place.
    pub fn becomes_known(&self) {
        self.all.lock().oldest_first.remove(&self.number);
    }

    /// Its place is needed. Once it is known this never comes.
    pub async fn must_leave(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.becomes_known();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaves_and_who_is_known_stays() {
        let strangers = Strangers::default();
        let [first, second, third] = [(); 3].map(|()| strangers.enter());
        first.becomes_known();
        strangers.oldest_leaves();
        let left = [&first, &second, &third].map(|one| one.leave.is_cancelled());
        assert_eq!(left, [false, true, false]);
        assert_eq!(strangers.count(), 1);
        drop(third);
        strangers.oldest_leaves();
        assert_eq!(strangers.count(), 0);
        assert!(!first.leave.is_cancelled());
    }
}
