//! Wakes after commits: which Session got events, up to which number. A wake is a hint; losing one costs a scan.

use domain::SessionId;
use tokio::sync::broadcast;

/// One Session's events were committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The Session.
    pub session: SessionId,
    /// The number of its newest committed event.
    pub last_event: i64,
}

/// How many wakes a slow listener may fall behind before it must rescan.
const BACKLOG: usize = 4096;

/// What a transaction wants to announce once it is committed.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) events: Vec<Committed>,
}

impl Outbox {
    pub(crate) fn mark(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn truncate(&mut self, mark: usize) {
        self.events.truncate(mark);
    }
}

/// Sends wakes to everybody who listens in this process.
#[derive(Debug, Clone)]
pub(crate) struct Notifier {
    sender: broadcast::Sender<Committed>,
}

impl Notifier {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0 }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Committed> {
        self.sender.subscribe()
    }

    pub(crate) fn publish(&self, outbox: Outbox) {
        for committed in outbox.events {
            // No listener is no error.
            let _ = self.sender.send(committed);
        }
    }
}
