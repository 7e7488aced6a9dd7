//! Live events: one room per followed Session, with the newest frames encoded once for all its readers.
//!
//! The store is the truth and the cursor of each reader points into it; a room is a cache of frames and a place to wait.
//! A reader registers for the wake before it reads, so nothing can fall between a read and a wait (F10).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use domain::event::{Cause, EventPayload, SessionEvent, TurnEvent};
use domain::{SessionId, TurnId};
use store::{Store, StoreError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::render::event;
use crate::api::render::session::SessionBase;

/// Frames that a room keeps (S-LS-3).
pub(crate) const RING_EVENTS: usize = 256;
/// Bytes that a room keeps; one larger frame still fits (S-LS-3).
const RING_BYTES: usize = 64 * 1024 * 1024;
/// How often commits of other Core processes are looked for.
const SCAN: Duration = Duration::from_secs(1);

/// The rooms of this process.
pub(crate) struct Hub {
    store: Store,
    rooms: Mutex<HashMap<SessionId, Weak<Room>>>,
}

/// One followed Session.
pub(crate) struct Room {
    /// What is the same in all its events.
    pub base: SessionBase,
    news: watch::Sender<u64>,
    ended: CancellationToken,
    ring: Mutex<Ring>,
    reading: tokio::sync::Mutex<()>,
}

/// One encoded event.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Its number in the Session.
    pub number: u64,
    /// What a stream has to know of it.
    pub mark: Mark,
    /// The bytes.
    pub bytes: Bytes,
}

/// What ends streams, or names their Turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing.
    Plain,
    /// A root Turn begins.
    TurnCreated(TurnId),
    /// A Session event, with its cause.
    Session(SessionEvent, Cause),
}

#[derive(Default)]
struct Ring {
    frames: VecDeque<Frame>,
    bytes: usize,
}

impl Hub {
    /// No rooms yet.
    pub(crate) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self {
            store,
            rooms: Mutex::default(),
        })
    }

    /// Carries commits into rooms until `stop`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut commits = self.store.commits();
        let mut scan = tokio::time::interval(SCAN);
        let alone = self.store.dialect() == store::Dialect::Sqlite;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = scan.tick(), if !alone => self.scan().await,
                commit = commits.recv() => match commit {
                    Ok(commit) => {
                        if let Some(room) = self.find(commit.session) {
                            room.committed(commit.last_event);
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.scan().await,
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    /// Looks at every room's Session once: commits of other processes, missed wakes, deletions.
    async fn scan(&self) {
        let rooms: Vec<_> = lock(&self.rooms)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for room in rooms {
            self.look(&room).await;
        }
    }

    /// Looks at a room's Session in the store.
    pub(crate) async fn look(&self, room: &Room) {
        match self.store.read().last_event(room.base.id).await {
            Ok(Some(number)) => room.committed(number),
            Ok(None) => room.ended.cancel(),
            Err(error) => {
                tracing::warn!(%error, "the newest event of a Session could not be read")
            }
        }
    }

    fn find(&self, session: SessionId) -> Option<Arc<Room>> {
        lock(&self.rooms).get(&session).and_then(Weak::upgrade)
    }

    /// Enters a Session's room; the newest committed event that is known is `seen`.
    pub(crate) fn enter(&self, base: SessionBase, seen: u64) -> Arc<Room> {
        let mut rooms = lock(&self.rooms);
        if let Some(room) = rooms.get(&base.id).and_then(Weak::upgrade) {
            room.committed(seen);
            return room;
        }
        // Rooms that everybody left are dropped here, so the map stays as large as what is followed.
        rooms.retain(|_, room| room.strong_count() > 0);
        let id = base.id;
        let room = Arc::new(Room {
            base,
            news: watch::Sender::new(seen),
            ended: CancellationToken::new(),
            ring: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        });
        rooms.insert(id, Arc::downgrade(&room));
        room
    }

    /// The Session was deleted: its streams end (S-LS-2).
    pub(crate) fn ended(&self, session: SessionId) {
        if let Some(room) = self.find(session) {
            room.ended.cancel();
        }
    }

    /// Some frames after a cursor, oldest first; from the ring, or the store's next page.
    pub(crate) async fn frames(&self, room: &Room, after: u64) -> Result<Vec<Frame>, StoreError> {
        if let Some(frames) = lock(&room.ring).after(after) {
            return Ok(frames);
        }
        // One reader fetches and encodes, the others find its frames in the ring.
        let _reading = room.reading.lock().await;
        if let Some(frames) = lock(&room.ring).after(after) {
            return Ok(frames);
        }
        let events = self.store.read().events_after(room.base.id, after).await?;
        let mut frames = Vec::with_capacity(events.len());
        for stored in events {
            match event::frame(&room.base, stored.id, &stored.payload) {
                Ok(bytes) => {
                    frames.push(Frame {
                        number: stored.number,
                        mark: Mark::of(&stored.payload),
                        bytes,
                    });
                }
                Err(error) => {
                    tracing::error!(%error, number = stored.number, "a stored event cannot be shown")
                }
            }
        }
        lock(&room.ring).append(after, &frames);
        Ok(frames)
    }
}

impl Room {
    /// Wakes readers that are behind `number`.
    fn committed(&self, number: u64) {
        self.news.send_if_modified(|newest| {
            let newer = number > *newest;
            *newest = number.max(*newest);
            newer
        });
    }

    /// A place to wait for news.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Cancelled when the Session is gone.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }
}

impl Mark {
    fn of(payload: &EventPayload) -> Self {
        match payload {
            EventPayload::Session { event, cause, .. } => Self::Session(*event, *cause),
            EventPayload::Turn {
                event: TurnEvent::Created,
                turn,
            } => Self::TurnCreated(turn.id),
            _ => Self::Plain,
        }
    }
}

impl Ring {
    /// Frames after a cursor, if the ring holds all of them.
    fn after(&self, cursor: u64) -> Option<Vec<Frame>> {
        let first = self.frames.front()?.number;
        let last = self.frames.back()?.number;
        // Every frame of the ring follows the one before it without a hole.
        (first <= cursor + 1 && cursor < last).then(|| {
            self.frames
                .iter()
                .filter(|frame| frame.number > cursor)
                .cloned()
                .collect()
        })
    }

    /// Takes frames that were read after `cursor`; a hole empties the ring first.
    fn append(&mut self, cursor: u64, frames: &[Frame]) {
        let contiguous = self.frames.back().is_some_and(|last| last.number == cursor);
        if !contiguous {
            self.frames.clear();
            self.bytes = 0;
        }
        let mut expected = cursor + 1;
        for frame in frames {
            // Trimmed deltas leave holes in old history: only what follows without one can be served from here.
            if frame.number != expected {
                self.frames.clear();
                self.bytes = 0;
            }
            expected = frame.number + 1;
            self.bytes += frame.bytes.len();
            self.frames.push_back(frame.clone());
        }
        while self.frames.len() > RING_EVENTS || (self.bytes > RING_BYTES && self.frames.len() > 1)
        {
            if let Some(frame) = self.frames.pop_front() {
                self.bytes -= frame.bytes.len();
            }
        }
    }
}

/// The rooms and rings stay usable after a panic elsewhere: they are caches.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(number: u64) -> Frame {
        Frame {
            number,
            mark: Mark::Plain,
            bytes: Bytes::from(vec![0; 8]),
        }
    }

    fn numbers(frames: &[Frame]) -> Vec<u64> {
        frames.iter().map(|frame| frame.number).collect()
    }

    #[test]
    fn a_ring_serves_only_what_it_holds_completely() {
        let mut ring = Ring::default();
        assert!(ring.after(0).is_none());
        ring.append(2, &[frame(3), frame(4)]);
        assert!(ring.after(1).is_none(), "event 2 is missing");
        assert_eq!(numbers(&ring.after(2).unwrap()), [3, 4]);
        assert_eq!(numbers(&ring.after(3).unwrap()), [4]);
        assert!(ring.after(4).is_none(), "nothing newer");
    }

    #[test]
    fn a_ring_is_bounded() {
        // S-LS-3
        let mut ring = Ring::default();
        let frames: Vec<_> = (1..=600).map(frame).collect();
        ring.append(0, &frames);
        assert_eq!(
            (ring.frames.len(), ring.bytes),
            (RING_EVENTS, RING_EVENTS * 8)
        );
        let huge = Frame {
            bytes: Bytes::from(vec![0; RING_BYTES + 1]),
            ..frame(601)
        };
        ring.append(600, &[huge]);
        assert_eq!(numbers(&ring.after(600).unwrap()), [601]);
    }

    proptest! {
        #[test]
        fn what_a_ring_serves_has_no_hole(batches in proptest::collection::vec((0u64..20, 1u64..6), 1..20)) {
            let mut ring = Ring::default();
            for (cursor, count) in batches {
                let frames: Vec<_> = (cursor + 1..=cursor + count).map(frame).collect();
                ring.append(cursor, &frames);
                for cursor in 0..30 {
                    if let Some(frames) = ring.after(cursor) {
                        let expected: Vec<_> = (cursor + 1..=cursor + frames.len() as u64).collect();
                        prop_assert_eq!(numbers(&frames), expected);
                    }
                }
            }
        }
    }
}
