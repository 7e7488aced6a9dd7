//! The events of one Run: numbered, bounded, counted until Core has committed them (RP-11.2, RP-11.11, RP-4).

use std::collections::{HashMap, VecDeque};

use domain::run::{Delta, DeltaKind, EventBody, RunEvent};
use protocol::wire::limits;

use super::fit::{self, OUTPUT_LIMIT};

/// Largest piece of text in one event; several fit into one frame.
const PIECE: usize = 256 * 1024;
/// Events of one Turn, without the reserved last one.
const TURN_EVENTS: u64 = 65_536;
/// Bytes of one Turn's events.
const TURN_BYTES: usize = 32 * 1024 * 1024;
/// What is unacknowledged when the harness is no longer read: half of what may be, since what one more read brings (64 KiB
/// of lines, about a thousand events) must fit in too, or Core gives the Run up (RP-11.11).
const UNACKED_EVENTS: usize = limits::UNACKED_EVENTS as usize / 2;
const UNACKED_BYTES: usize = limits::UNACKED_BYTES / 2;

/// The Turn produced more than a Turn may, or more at once than a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

/// Numbers the events of one Run and remembers what is not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Journal {
    last_seq: u64,
    bytes: usize,
    unacked: VecDeque<(u64, usize)>,
    unacked_bytes: usize,
    outputs: HashMap<String, usize>,
    /// Core's connection is gone: events are dropped, the Run only has to end (state-machines 1.10).
    detached: bool,
}

impl Journal {
    /// Number of the newest event; 0 for none.
    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Whether the harness may be read on.
    pub(super) fn has_room(&self) -> bool {
        self.unacked.len() < UNACKED_EVENTS && self.unacked_bytes < UNACKED_BYTES
    }

    /// Nobody listens any more.
    pub(super) fn detach(&mut self) {
        self.detached = true;
        self.unacked.clear();
        self.unacked_bytes = 0;
    }

    /// Core has committed everything up to `seq`.
    pub(super) fn ack(&mut self, seq: u64) {
        while let Some((first, bytes)) = self.unacked.front().copied().filter(|(s, _)| *s <= seq) {
            debug_assert!(first <= self.last_seq);
            self.unacked_bytes -= bytes;
            self.unacked.pop_front();
        }
    }

    /// Cuts an event to the limits, numbers the pieces and appends them.
    pub(super) fn push(
        &mut self,
        event: RunEvent,
        out: &mut Vec<RunEvent>,
    ) -> Result<(), Overflow> {
        let RunEvent { origin, body } = event;
        match body {
            EventBody::Delta(delta) => {
                let delta = self.bounded(delta);
                for text in pieces(&delta.text) {
                    let piece = Delta {
                        text: text.to_owned(),
                        ..delta.clone()
                    };
                    self.append(
                        RunEvent {
                            origin: origin.clone(),
                            body: EventBody::Delta(piece),
                        },
                        text.len(),
                        out,
                    )?;
                }
                Ok(())
            }
            mut body => {
                if let EventBody::ItemEnded(end) = &body {
                    self.outputs.remove(&end.item.key);
                }
                let size = fit::fit(&mut body).map_err(|_| Overflow)?;
                self.append(RunEvent { origin, body }, size, out)
            }
        }
    }

    /// Appends one of the reserved events that end a Run; no limit applies.
    pub(super) fn push_last(&mut self, event: RunEvent, out: &mut Vec<RunEvent>) {
        self.number(0);
        self.keep(event, out);
    }

    /// Output beyond what the Item will hold is not sent either.
    fn bounded(&mut self, mut delta: Delta) -> Delta {
        if delta.kind == DeltaKind::Output {
            let sent = self.outputs.entry(delta.key.clone()).or_default();
            let room = OUTPUT_LIMIT.saturating_sub(*sent);
            truncate(&mut delta.text, room);
            *sent += delta.text.len();
        }
        delta
    }

    fn append(
        &mut self,
        event: RunEvent,
        size: usize,
        out: &mut Vec<RunEvent>,
    ) -> Result<(), Overflow> {
        if self.last_seq >= TURN_EVENTS || self.bytes + size > TURN_BYTES {
            return Err(Overflow);
        }
        self.bytes += size;
        self.number(size);
        self.keep(event, out);
        Ok(())
    }

    fn number(&mut self, size: usize) {
        self.last_seq += 1;
        if !self.detached {
            self.unacked.push_back((self.last_seq, size));
            self.unacked_bytes += size;
        }
    }

    fn keep(&self, event: RunEvent, out: &mut Vec<RunEvent>) {
        if !self.detached {
            out.push(event);
        }
    }
}

fn truncate(text: &mut String, at: usize) {
    text.truncate(text.floor_char_boundary(at));
}

fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE).max(1));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(kind: DeltaKind, text: String) -> RunEvent {
        RunEvent::root(EventBody::Delta(Delta {
            key: "k".to_owned(),
            kind,
            index: 0,
            text,
        }))
    }

    fn texts(events: &[RunEvent]) -> String {
        events
            .iter()
            .map(|e| match &e.body {
                EventBody::Delta(d) => d.text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    // F05: deltas stay within the payload limit, output within 1 MiB, characters stay whole.
    #[test]
    fn long_text_travels_in_pieces_and_output_is_cut() {
        let (mut journal, mut out) = (Journal::default(), Vec::new());
        let text = "é🦀".repeat(400_000);
        journal
            .push(delta(DeltaKind::Text, text.clone()), &mut out)
            .unwrap();
        assert_eq!(texts(&out), text);
        assert!(out.len() as u64 == journal.last_seq() && out.len() > 8);

        out.clear();
        for _ in 0..40 {
            journal
                .push(
                    delta(DeltaKind::Output, "0123456789abcdef".repeat(4096)),
                    &mut out,
                )
                .unwrap();
        }
        assert_eq!(texts(&out).len(), OUTPUT_LIMIT);
    }

    // RP-11.11: whatever one read brings after the tap was last seen open, Core does not give the Run up.
    #[test]
    fn one_more_read_fits_into_what_may_be_unacknowledged() {
        const READ: usize = 64 * 1024;
        let shortest_line = r#"{"method":"item/agentMessage/delta","params":{}}"#.len();
        let room = usize::try_from(limits::UNACKED_EVENTS).unwrap() - UNACKED_EVENTS;
        assert!(READ / shortest_line * 2 < room);
    }

    // RP-11.11
    #[test]
    fn unacknowledged_events_close_the_tap_and_an_ack_opens_it() {
        let (mut journal, mut out) = (Journal::default(), Vec::new());
        for _ in 0..UNACKED_EVENTS {
            assert!(journal.has_room());
            journal
                .push(delta(DeltaKind::Text, "a".to_owned()), &mut out)
                .unwrap();
        }
        assert!(!journal.has_room());
        journal.ack(1);
        assert!(journal.has_room());
        journal.ack(u64::MAX);
        assert_eq!(journal.unacked_bytes, 0);
    }

    #[test]
    fn a_turn_without_end_overflows_and_can_still_be_ended() {
        let (mut journal, mut out) = (Journal::default(), Vec::new());
        journal.detach();
        for _ in 0..TURN_EVENTS {
            journal
                .push(delta(DeltaKind::Text, "a".to_owned()), &mut out)
                .unwrap();
        }
        assert_eq!(
            journal.push(delta(DeltaKind::Text, "a".to_owned()), &mut out),
            Err(Overflow)
        );
        journal.push_last(delta(DeltaKind::Text, "end".to_owned()), &mut out);
        assert_eq!(journal.last_seq(), TURN_EVENTS + 1);
        assert!(out.is_empty(), "nobody listens");
    }
}
