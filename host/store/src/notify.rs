//! Wakes after commits: which Session got events, up to which number. A wake is a hint; losing one costs a scan.

use domain::{Hint, SessionId};
use tokio::sync::{broadcast, mpsc};

use crate::wakes::Wake;

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

/// Sends wakes to everybody who listens in this process, and to other processes where there can be some.
#[derive(Debug, Clone)]
pub(crate) struct Notifier {
    events: broadcast::Sender<Committed>,
    hints: broadcast::Sender<Hint>,
    others: Option<mpsc::Sender<Wake>>,
    /// Hints are lost, all of them.
    #[cfg(feature = "testing")]
    pub(crate) mute: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Notifier {
    pub(crate) fn new(others: Option<mpsc::Sender<Wake>>) -> Self {
        Self {
            events: broadcast::channel(BACKLOG).0,
            hints: broadcast::channel(BACKLOG).0,
            others,
            #[cfg(feature = "testing")]
            mute: Default::default(),
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Committed> {
        self.events.subscribe()
    }

    pub(crate) fn subscribe_hints(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }

    /// Announces what this process committed.
    pub(crate) fn publish(&self, outbox: Outbox) {
        let events = outbox.events.into_iter().map(Wake::from);
        for wake in events.chain(outbox.hints.into_iter().map(Wake::Hint)) {
            if let Some(others) = &self.others {
                // A full queue loses a hint, never a commit.
                let _ = others.try_send(wake);
            }
            self.deliver(wake);
        }
    }

    /// Wakes the listeners of this process. No listener is no error.
    pub(crate) fn deliver(&self, wake: Wake) {
        match wake {
            Wake::Event(session, last_event) => {
                let _ = self.events.send(Committed {
                    session,
                    last_event,
                });
            }
            #[cfg(feature = "testing")]
            Wake::Hint(_) if self.mute.load(std::sync::atomic::Ordering::Relaxed) => {}
            Wake::Hint(hint) => {
                let _ = self.hints.send(hint);
            }
        }
    }
}
