//! Which Sessions have a task: at most one each (SC-4.3), made on demand, gone when there is nothing to do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::SessionId;
use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::actor::Actor;

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
                Actor::new(shared.clone(), session, wake.clone())
                    .run()
                    .await;
                let mut living = actors.living.lock().unwrap_or_else(PoisonError::into_inner);
                // A hint that came while the task was ending begins it again.
                if shared.stop.is_cancelled() || wake.notified().now_or_never().is_none() {
                    living.remove(&session);
                    return;
                }
            }
        });
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
