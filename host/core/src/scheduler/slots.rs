//! Places for concurrent work (SC-4.1): bounded, and a freed one tells the scan that somebody was turned away (SC-3.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The places of one kind of work.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    places: Arc<Semaphore>,
    starved: Arc<AtomicBool>,
    freed: Arc<Notify>,
}

/// One place, free again when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    of: Slots,
}

impl Slots {
    pub(super) fn new(places: u16) -> Self {
        Self {
            places: Arc::new(Semaphore::new(usize::from(places))),
            starved: Arc::new(AtomicBool::new(false)),
            freed: Arc::new(Notify::new()),
        }
    }

    /// A place, if there is one now. Whoever gets none is found again by the scan that [`Slots::freed`] asks for.
    pub(super) fn take(&self) -> Option<Slot> {
        let taken = self.places.clone().try_acquire_owned().ok().or_else(|| {
            self.starved.store(true, Ordering::SeqCst);
            // A place may have been freed between the attempt and the mark.
            self.places.clone().try_acquire_owned().ok()
        });
        taken.map(|permit| Slot {
            permit: Some(permit),
            of: self.clone(),
        })
    }

    /// Whether there is a place now. If not, whoever asked is found again as after [`Slots::take`].
    pub(super) fn has_place(&self) -> bool {
        self.places.available_permits() > 0 || {
            self.starved.store(true, Ordering::SeqCst);
            self.places.available_permits() > 0
        }
    }

    /// Places that are free now.
    pub(super) fn places(&self) -> usize {
        self.places.available_permits()
    }

    /// A place became free while somebody had been turned away; one notice for any number of them.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.permit = None;
        if self.of.starved.swap(false, Ordering::SeqCst) {
            self.of.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    // SC-3.4: many refused callers cause exactly one scan when a place becomes free.
    #[tokio::test]
    async fn a_freed_place_asks_for_one_scan() {
        let slots = Slots::new(1);
        let first = slots.take();
        assert!(first.is_some());
        assert!(slots.take().is_none());
        assert!(slots.take().is_none());
        assert!(slots.freed().now_or_never().is_none());
        drop(first);
        assert!(slots.freed().now_or_never().is_some());
        assert!(slots.freed().now_or_never().is_none());
        assert!(slots.take().is_some());
    }

    #[tokio::test]
    async fn asking_for_a_place_takes_none_and_is_answered_when_one_is_freed() {
        let slots = Slots::new(1);
        assert!(slots.has_place());
        let taken = slots.take();
        assert!(taken.is_some());
        assert!(!slots.has_place());
        drop(taken);
        assert!(slots.freed().now_or_never().is_some());
        assert!(slots.has_place());
    }

    #[tokio::test]
    async fn nobody_refused_nobody_told() {
        let slots = Slots::new(1);
        drop(slots.take());
        assert!(slots.freed().now_or_never().is_none());
    }
}
