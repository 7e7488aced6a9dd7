//! Tasks that never end without being noticed: at most one for each thing, and loops that outlive a fault of ours.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Between the fault of a task and its next attempt.
pub(super) const AFTER_A_FAULT: Duration = Duration::from_secs(1);

/// Tasks of one kind, at most one for each key (SP-3.5).
#[derive(Debug)]
pub(super) struct Tasks<K> {
    busy: Arc<Mutex<HashSet<K>>>,
    tracker: TaskTracker,
}

impl<K> Clone for Tasks<K> {
    fn clone(&self) -> Self {
        Self {
            busy: self.busy.clone(),
            tracker: self.tracker.clone(),
        }
    }
}

impl<K> Default for Tasks<K> {
    fn default() -> Self {
        let tracker = TaskTracker::new();
        // Only then can it be waited for; it takes new tasks all the same.
        tracker.close();
        Self {
            busy: Arc::default(),
            tracker,
        }
    }
}

impl<K: Copy + Eq + Hash + Debug + Send + 'static> Tasks<K> {
    /// Starts a task unless one with this key is alive; whether it did. A panic is logged and frees the key.
    pub(super) fn begin(&self, key: K, work: impl Future<Output = ()> + Send + 'static) -> bool {
        let new = self.lock().insert(key);
        if new {
            let tasks = self.clone();
            self.tracker.spawn(async move {
                if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                    tracing::error!(?key, "a task of the scheduler failed");
                }
                tasks.lock().remove(&key);
            });
        }
        new
    }

    /// Waits until none is alive.
    pub(super) async fn ended(&self) {
        self.tracker.wait().await;
    }

    /// The set is consistent after every statement.
    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<K>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a loop to its end. One that panics is a fault of ours, and while the lease is renewed nobody else would do its work:
/// it begins again.
pub(crate) async fn keep<F: Future<Output = ()>>(
    name: &'static str,
    stop: &CancellationToken,
    pause: Duration,
    begin: impl Fn() -> F,
) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        tracing::error!(name, "a loop of the scheduler failed; it begins again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_key_is_taken_as_long_as_its_task_lives_however_that_ends() {
        let tasks = Tasks::default();
        for fails in [false, true] {
            let (end, ended) = oneshot::channel::<()>();
            assert!(tasks.begin(1, async move {
                let _ = ended.await;
                assert!(!fails, "a fault");
            }));
            assert!(!tasks.begin(1, async {}));
            assert!(tasks.begin(2, async {}));
            end.send(()).unwrap();
            tasks.ended().await;
        }
        assert!(tasks.begin(1, async {}));
    }

    #[tokio::test]
    async fn a_loop_that_fails_begins_again_until_it_ends_or_is_stopped() {
        let stop = CancellationToken::new();
        let begun = Cell::new(0);
        keep("test", &stop, Duration::ZERO, || {
            begun.set(begun.get() + 1);
            let fails = begun.get() < 3;
            async move { assert!(!fails, "a fault") }
        })
        .await;
        assert_eq!(begun.get(), 3);
        stop.cancel();
        keep("test", &stop, Duration::from_secs(3600), || async {
            panic!("a fault")
        })
        .await;
    }
}
