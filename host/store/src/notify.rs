//! Wakes after commits: which Session got events, up to which number. A wake is a hint; losing one costs a scan.

use domain::{Hint, SessionId};
use tokio::sync::broadcast;

/// One Session's events were committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The Session.
    pub session: SessionId,
    /// The number of its newest committed event.
    pub last_event: u64,
}

/// How many wakes a slow listener may fall behind before it must rescan.
const BACKLOG: usize = 4096;

/// What a transaction wants to announce once it is committed.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) events: Vec<Committed>,
    pub(crate) hints: Vec<Hint>,
}

impl Outbox {
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.events.len(), self.hints.len())
    }

    pub(crate) fn truncate(&mut self, (events, hints): (usize, usize)) {
        self.events.truncate(events);
        self.hints.truncate(hints);
    }
}

/// Sends wakes to everybody who listens in this process.
#[derive(Debug, Clone)]
pub(crate) struct Notifier {
    events: broadcast::Sender<Committed>,
    hints: broadcast::Sender<Hint>,
}

impl Notifier {
    pub(crate) fn new() -> Self {
        Self {
            events: broadcast::channel(BACKLOG).0,
            hints: broadcast::channel(BACKLOG).0,
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Committed> {
        self.events.subscribe()
    }

    pub(crate) fn subscribe_hints(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }

    /// No listener is no error.
    pub(crate) fn publish(&self, outbox: Outbox) {
        for committed in outbox.events {
            let _ = self.events.send(committed);
        }
        for hint in outbox.hints {
            let _ = self.hints.send(hint);
        }
    }
}
