//! Event streams: one cursor reader for the creation stream and the live stream (sessions 7.4, 7.5).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use domain::event::{Cause, SessionEvent};
use domain::{EventId, KeyId, TurnId};
use futures_util::stream;
use store::StoreError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::Reply;
use super::error::ApiError;
use super::render::event::{KEEPALIVE, OPENING, interrupted};
use crate::hub::{Frame, Mark, RING_EVENTS, Room};
use crate::state::Core;

/// A comment keeps a silent stream open (S-SSE-1).
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
/// An idle stream looks at its key so often (S-LS-5).
const KEY_EVERY: Duration = Duration::from_secs(1);
/// Between two reads of events when one failed.
const READ_AGAIN: Duration = Duration::from_millis(500);
/// Only a reader that let this much time pass between two frames can have fallen behind: our own delays are not its fault.
const SLOW: Duration = Duration::from_millis(250);

/// Which stream, and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Ends with its Turn, or with the reservation that never became one (S-CS-1 to S-CS-7).
    Creation {
        /// The Turn that this stream follows, once it is known.
        turn: Option<TurnId>,
        /// Something was admitted; if not, the stream ends right after `created`.
        admitted: bool,
    },
    /// Ends when the Environment failed to initialize (S-LS-2).
    Live,
}

impl Mode {
    /// Takes an event in; true = it is the last one of this stream.
    fn ends_after(&mut self, mark: Mark) -> bool {
        match (self, mark) {
            (Self::Live, Mark::Session(SessionEvent::Failed, Cause::InitFailed)) => true,
            (Self::Live, _) => false,
            (Self::Creation { turn, .. }, Mark::TurnCreated(id)) => {
                turn.get_or_insert(id);
                false
            }
            (
                Self::Creation {
                    admitted: false, ..
                },
                Mark::Session(SessionEvent::Created, _),
            ) => true,
            (Self::Creation { .. }, Mark::Session(SessionEvent::Failed, _)) => true,
            (Self::Creation { turn, .. }, Mark::Session(_, Cause::TurnEnded { turn_id })) => {
                *turn == Some(turn_id)
            }
            (
                Self::Creation { turn: None, .. },
                Mark::Session(SessionEvent::Idle, Cause::ReservationSettled { .. }),
            ) => true,
            (Self::Creation { .. }, Mark::Session(..) | Mark::Plain) => false,
        }
    }
}

/// Whether a stream can be opened now: asked before anything is written for it.
///
/// # Errors
/// E503-03 while the process drains (S-LS-7).
pub(crate) fn available(core: &Core) -> Result<(), ApiError> {
    if core.stop.is_cancelled() {
        return Err(ApiError::StreamUnavailable);
    }
    Ok(())
}

/// Opens a stream of a room from a cursor. The reader is registered before this returns, so headers promise every later
/// event. A stream that is opened while the process drains ends with the last event.
pub(crate) async fn open(
    core: Arc<Core>,
    room: Arc<Room>,
    cursor: u64,
    mode: Mode,
    key: KeyId,
    status: StatusCode,
) -> Reply {
    let news = room.news();
    // What was committed before the room was there has woken nobody, and a deletion has ended nothing.
    core.hub.look(&room).await;
    let reader = Reader {
        news,
        core,
        room,
        cursor,
        mode,
        key,
        ready: VecDeque::new(),
        opened: false,
        ended: false,
        last: false,
        left: Instant::now(),
        sent: Instant::now(),
    };
    let body = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        reader.left = Instant::now();
        Some((Ok::<_, Infallible>(bytes), reader))
    });
    respond(status, Body::from_stream(body))
}

/// The stream of a repeated creation: the comment and nothing else (S-CS-5).
pub(crate) fn empty(status: StatusCode) -> Reply {
    respond(status, Body::from(Bytes::from_static(OPENING)))
}

fn respond(status: StatusCode, body: Body) -> Reply {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Reply(response)
}

struct Reader {
    core: Arc<Core>,
    room: Arc<Room>,
    news: watch::Receiver<u64>,
    /// Number of the last event that was sent.
    cursor: u64,
    mode: Mode,
    key: KeyId,
    ready: VecDeque<Frame>,
    opened: bool,
    ended: bool,
    /// The process has drained: what is committed is sent, then the stream ends.
    last: bool,
    /// When the client was last handed something.
    left: Instant,
    /// When something was last sent, comments included.
    sent: Instant,
}

/// What a reader finds behind its cursor.
enum Fetched {
    /// Events without a hole, or none this time.
    Whole,
    /// The next one is not there any more.
    Hole,
}

impl Reader {
    /// The next bytes; `None` = the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        let slow = self.opened && self.left.elapsed() >= SLOW;
        if self.ended {
            return None;
        }
        if !self.opened {
            self.opened = true;
            return Some(self.send(Bytes::from_static(OPENING)));
        }
        loop {
            if self.room.ended().is_cancelled() {
                return None;
            }
            if let Some(frame) = self.ready.pop_front() {
                if !self.core.keys.is_valid(&self.core.store, self.key).await {
                    return None;
                }
                self.cursor = frame.number;
                self.ended = self.mode.ends_after(frame.mark);
                return Some(self.send(frame.bytes));
            }
            let newest = *self.news.borrow_and_update();
            if newest > self.cursor {
                if slow && newest - self.cursor > RING_EVENTS as u64 && self.mode == Mode::Live {
                    return self.fell_behind();
                }
                match self.fetch().await? {
                    Fetched::Whole => continue,
                    Fetched::Hole => return self.fell_behind(),
                }
            }
            if self.last {
                return None;
            }
            if let Some(comment) = self.wait().await? {
                return Some(self.send(comment));
            }
        }
    }

    /// Takes the next events in; `None` = the stream is over.
    async fn fetch(&mut self) -> Option<Fetched> {
        match self.core.hub.frames(&self.room, self.cursor).await {
            Ok(frames) => {
                // A hole are deltas that were trimmed: who has not had them fell behind (S-SSE-2, S-LS-3).
                let numbers = self.cursor + 1..;
                let whole = frames.into_iter().zip(numbers);
                let whole = whole.take_while(|(frame, number)| frame.number == *number);
                self.ready = whole.map(|(frame, _)| frame).collect();
                Some(match self.ready.is_empty() {
                    true => Fetched::Hole,
                    false => Fetched::Whole,
                })
            }
            // The end would be taken for the real one (S-LS-2): it is read again, until nothing more can be.
            Err(error) => {
                tracing::warn!(%error, "events could not be read");
                if self.last || matches!(error, StoreError::Closed) {
                    return None;
                }
                tokio::select! {
                    () = self.core.drained.cancelled() => self.last = true,
                    () = tokio::time::sleep(READ_AGAIN) => {}
                }
                Some(Fetched::Whole)
            }
        }
    }

    /// Waits for news, for the end, or until the key must be looked at; a comment may be due.
    async fn wait(&mut self) -> Option<Option<Bytes>> {
        tokio::select! {
            () = self.room.ended().cancelled() => None,
            () = self.core.drained.cancelled() => {
                self.last = true;
                self.core.hub.look(&self.room).await;
                Some(None)
            }
            changed = self.news.changed() => changed.ok().map(|()| None),
            () = tokio::time::sleep(KEY_EVERY) => {
                if !self.core.keys.is_valid(&self.core.store, self.key).await {
                    return None;
                }
                let due = self.sent.elapsed() >= KEEPALIVE_EVERY;
                Some(due.then(|| Bytes::from_static(KEEPALIVE)))
            }
        }
    }

    /// S-LS-3.
    fn fell_behind(&mut self) -> Option<Bytes> {
        self.ended = true;
        let id = EventId::new(uuid::Uuid::new_v4());
        interrupted(self.room.base.id, id)
            .ok()
            .map(|bytes| self.send(bytes))
    }

    fn send(&mut self, bytes: Bytes) -> Bytes {
        self.sent = Instant::now();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use domain::ReservationId;

    use super::*;

    fn session(event: SessionEvent, cause: Cause) -> Mark {
        Mark::Session(event, cause)
    }

    #[test]
    fn a_creation_stream_ends_with_its_own_turn() {
        // S-CS-1, S-CS-3, S-CS-7, D38
        let (mine, later) = (
            TurnId::new(uuid::Uuid::from_u128(1)),
            TurnId::new(uuid::Uuid::from_u128(2)),
        );
        let mut mode = Mode::Creation {
            turn: None,
            admitted: true,
        };
        for mark in [
            session(SessionEvent::Created, Cause::Created),
            Mark::TurnCreated(mine),
            session(SessionEvent::InProgress, Cause::Other),
            session(SessionEvent::RequiresAction, Cause::Other),
            Mark::Plain,
            Mark::TurnCreated(later),
            session(SessionEvent::Idle, Cause::TurnEnded { turn_id: later }),
        ] {
            assert!(!mode.ends_after(mark), "{mark:?}");
        }
        assert!(mode.ends_after(session(
            SessionEvent::RequiresAction,
            Cause::TurnEnded { turn_id: mine }
        )));
    }

    #[test]
    fn a_creation_stream_ends_when_nothing_will_come() {
        // ENV-166, ENV-168
        let created = session(SessionEvent::Created, Cause::Created);
        assert!(
            Mode::Creation {
                turn: None,
                admitted: false
            }
            .ends_after(created)
        );
        let reservation_id = ReservationId::new(uuid::Uuid::from_u128(1));
        let settled = session(
            SessionEvent::Idle,
            Cause::ReservationSettled { reservation_id },
        );
        assert!(
            Mode::Creation {
                turn: None,
                admitted: true
            }
            .ends_after(settled)
        );
        let mut with_turn = Mode::Creation {
            turn: Some(TurnId::NEVER),
            admitted: true,
        };
        assert!(!with_turn.ends_after(settled));
        for cause in [Cause::Other, Cause::InitFailed] {
            assert!(with_turn.ends_after(session(SessionEvent::Failed, cause)));
        }
        // ENV-167: a connection that clears the action ends nothing.
        assert!(
            !Mode::Creation {
                turn: None,
                admitted: true
            }
            .ends_after(session(SessionEvent::Idle, Cause::Other))
        );
    }

    #[test]
    fn a_live_stream_outlives_everything_but_a_failed_initialization() {
        // S-LS-2, D35
        let ended = Cause::TurnEnded {
            turn_id: TurnId::NEVER,
        };
        assert!(!Mode::Live.ends_after(session(SessionEvent::Failed, ended)));
        assert!(!Mode::Live.ends_after(session(SessionEvent::Idle, ended)));
        assert!(Mode::Live.ends_after(session(SessionEvent::Failed, Cause::InitFailed)));
    }
}
