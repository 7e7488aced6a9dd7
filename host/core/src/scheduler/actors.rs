//! Which Sessions have a task: at most one each (SC-4.3), made on demand, gone when there is nothing to do.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::SessionId;
use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::actor::Actor;
use super::tasks::AFTER_A_FAULT;

/// The living tasks.
#[derive(Default)]
pub(super) struct Actors {
    living: Mutex<HashMap<SessionId, Arc<Notify>>>,
    tracker: TaskTracker,
}

impl Actors {
    /// Something may have changed for this Session. Hints coalesce and never block (SC-3.3).
    pub(super) fn wake(self: &Arc<Self>, shared: &Arc<Shared>, session: SessionId) {
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = living.get(&session) {
            wake.notify_one();
            return;
        }
        if shared.stop.is_cancelled() {
            return;
        }
        let wake = Arc::new(Notify::new());
        living.insert(session, wake.clone());
        drop(living);
        let (actors, shared) = (self.clone(), shared.clone());
        self.tracker.spawn(async move {
            loop {
                let run = Box::pin(Actor::new(shared.clone(), session, wake.clone()).run());
                outlive(session, run, &wake, AFTER_A_FAULT).await;
                let mut living = actors.living.lock().unwrap_or_else(PoisonError::into_inner);
                // A hint that came while the task was ending begins it again.
                if shared.stop.is_cancelled() || wake.notified().now_or_never().is_none() {
                    living.remove(&session);
                    return;
                }
            }
        });
    }

    /// Starts the task of a Session that has none and should. A living one needs no hint for it.
    pub(super) fn ensure(self: &Arc<Self>, shared: &Arc<Shared>, session: SessionId) {
        let lives = self
            .living
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(&session);
        if !lives {
            tracing::warn!(%session, "a claimed Turn has no task; one is started");
            self.wake(shared, session);
        }
    }

    /// Sessions with a task; for metrics and tests.
    pub(super) fn count(&self) -> usize {
        self.living
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Waits until every task has ended.
    pub(super) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Runs a Session's task to its end. One that panics is a fault of ours that must not leave its Session without a task for
/// ever: it is woken again after a pause, and the next task settles what this one had begun (SC-10.1).
async fn outlive(
    session: SessionId,
    run: impl Future<Output = ()>,
    wake: &Notify,
    pause: Duration,
) {
    if AssertUnwindSafe(run).catch_unwind().await.is_err() {
        tracing::error!(%session, "the task of a Session failed; it begins again");
        tokio::time::sleep(pause).await;
        wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_begun_again_and_one_that_ends_is_not() {
        let session = SessionId::new(uuid::Uuid::from_u128(1));
        let wake = Notify::new();
        outlive(session, async { panic!("a fault") }, &wake, Duration::ZERO).await;
        assert!(wake.notified().now_or_never().is_some());
        outlive(session, async {}, &wake, Duration::ZERO).await;
        assert!(wake.notified().now_or_never().is_none());
    }
}
