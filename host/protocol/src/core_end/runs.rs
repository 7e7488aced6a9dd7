//! Events of the Runs that were started on this connection: in order, without gap and repeat (RP-11.2).

use std::collections::HashMap;

use domain::run::{Binding, RunEvent};
use domain::{FrameId, RunId};

use super::{CoreEnd, Notice, RunBreak, Settled};
use crate::moment::Moment;
use crate::wire::RunEvents;
use crate::wire::limits::EVENT_BATCH;

#[derive(Debug)]
struct Run {
    binding: Binding,
    start: FrameId,
    /// Number of the next event.
    next: u64,
    acknowledged: u64,
    /// `done` was seen.
    ended: bool,
}

#[derive(Debug)]
pub(super) struct Runs {
    runs: HashMap<RunId, Run>,
    window: u64,
}

impl Runs {
    pub fn new(window: u64) -> Self {
        Self {
            runs: HashMap::new(),
            window,
        }
    }

    /// Events may overtake the receipt of the start, so the record is there before the frame leaves (RP-10.6).
    pub fn open(&mut self, run_id: RunId, binding: Binding, start: FrameId) {
        self.runs.insert(
            run_id,
            Run {
                binding,
                start,
                next: 1,
                acknowledged: 0,
                ended: false,
            },
        );
    }

    /// The start ran nothing.
    pub fn refused(&mut self, start: FrameId) {
        self.runs.retain(|_, run| run.start != start);
    }

    pub fn forget(&mut self, run_id: RunId) {
        self.runs.remove(&run_id);
    }

    /// Moves the acknowledgement forward; answers the binding if the Runtime must hear of it.
    pub fn acknowledge(&mut self, run_id: RunId, seq: u64) -> Option<Binding> {
        let run = self.runs.get_mut(&run_id)?;
        if seq <= run.acknowledged || seq >= run.next {
            return None;
        }
        run.acknowledged = seq;
        let binding = run.binding;
        if run.ended && seq + 1 == run.next {
            self.runs.remove(&run_id);
        }
        Some(binding)
    }

    pub fn drain(&mut self) -> Vec<RunId> {
        let mut ids: Vec<_> = self.runs.drain().map(|(id, _)| id).collect();
        ids.sort();
        ids
    }
}

impl CoreEnd {
    pub(super) fn run_events(&mut self, now: Moment, binding: Binding, batch: RunEvents) {
        let RunEvents {
            run_id,
            seq,
            mut events,
        } = batch;
        let window = self.runs.window;
        // Events of a Run that nobody observes here are inert (RP-11.8).
        let Some(run) = self.runs.runs.get_mut(&run_id) else {
            return;
        };
        if run.binding != binding {
            return;
        }
        if seq > run.next {
            return self.break_run(run_id, RunBreak::Gap);
        }
        if run.ended {
            return;
        }
        // What is already known is skipped: a repeat is a no-op.
        let known = usize::try_from(run.next - seq)
            .unwrap_or(usize::MAX)
            .min(events.len());
        events.drain(..known);
        if events.is_empty() {
            return;
        }
        let first = run.next;
        run.next += events.len() as u64;
        if run.next - 1 - run.acknowledged > window + EVENT_BATCH as u64 {
            return self.break_run(run_id, RunBreak::Overflow);
        }
        run.ended |= events.last().is_some_and(RunEvent::is_last);
        let start = run.start;
        if let Some((id, of)) = self.requests.take(start) {
            // A first event proves the start as well as the status does (RP-10.6).
            self.settle(id, of, Settled::Started);
            self.pump_queue(now);
        }
        self.notice(Notice::Events {
            run_id,
            seq: first,
            events,
        });
    }

    fn break_run(&mut self, run_id: RunId, why: RunBreak) {
        self.runs.forget(run_id);
        self.notice(Notice::RunBroken { run_id, why });
    }
}
