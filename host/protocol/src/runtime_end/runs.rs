//! Runs of this process: whose they are, whether they still take orders, what is not acknowledged (state-machines 1.10).

use std::collections::HashMap;

use domain::run::{
    Binding, Done, EventBody, FailureCode, RefusalCode, RunEvent, RunFailure, TurnStatus,
};
use domain::{RunId, SessionId};

use super::{Notice, Output, RuntimeEnd};
use crate::wire::limits::{EVENT_BATCH, EVENT_BATCH_BYTES};
use crate::wire::{Answer, HeldRun, Message, RunEvents, RuntimeFrame};

#[derive(Debug)]
struct Run {
    binding: Binding,
    last_seq: u64,
    acknowledged: u64,
    /// What a cancel is answered once the Run is settled.
    proof: Option<Answer>,
    /// Core has given it up: its events go nowhere.
    abandoned: bool,
}

impl Run {
    /// Nothing of it is of interest any more.
    fn is_over(&self) -> bool {
        self.proof.is_some() && (self.abandoned || self.acknowledged == self.last_seq)
    }
}

/// Settled and acknowledged Runs that still answer a late cancel.
const REMEMBERED_RUNS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Runs(HashMap<RunId, Run>);

impl Runs {
    /// A new Run; false if the id is known.
    pub fn begin(&mut self, run_id: RunId, binding: Binding) -> bool {
        if self.0.contains_key(&run_id) {
            return false;
        }
        if self.0.len() >= REMEMBERED_RUNS {
            self.0.retain(|_, run| !run.is_over());
        }
        self.0.insert(
            run_id,
            Run {
                binding,
                last_seq: 0,
                acknowledged: 0,
                proof: None,
                abandoned: false,
            },
        );
        true
    }

    pub fn forget(&mut self, run_id: RunId) {
        self.0.remove(&run_id);
    }

    /// A Run takes frames under the epoch that started it, until the release (RP-2.6).
    pub fn may_address(&self, binding: &Binding, run_id: RunId) -> Result<(), RefusalCode> {
        match self.0.get(&run_id) {
            None => Err(RefusalCode::UnknownRun),
            Some(run) if run.binding == *binding => Ok(()),
            Some(run) if run.binding.same_authority(binding) => Err(RefusalCode::BindingStale),
            Some(_) => Err(RefusalCode::BindingConflict),
        }
    }

    /// It takes input and results.
    pub fn open(&self, run_id: RunId) -> bool {
        self.0
            .get(&run_id)
            .is_some_and(|run| run.proof.is_none() && !run.abandoned)
    }

    pub fn proof(&self, run_id: RunId) -> Option<Answer> {
        self.0.get(&run_id).and_then(|run| run.proof.clone())
    }

    pub fn settle(&mut self, run_id: RunId, proof: Answer) {
        if let Some(run) = self.0.get_mut(&run_id) {
            run.proof.get_or_insert(proof);
            if run.abandoned {
                self.0.remove(&run_id);
            }
        }
    }

    /// The Session is released: nobody asks for its settled Runs any more (RP-2.6).
    pub fn released(&mut self, session: SessionId) {
        self.0
            .retain(|_, run| run.binding.session != session || run.proof.is_none());
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A Run of the Session is not settled, so nothing else may be prepared (architecture 10).
    pub fn has_unsettled(&self, binding: &Binding) -> bool {
        self.0
            .values()
            .any(|run| run.binding.session == binding.session && run.proof.is_none())
    }

    pub fn acknowledge(&mut self, binding: &Binding, run_id: RunId, seq: u64) -> bool {
        match self.0.get_mut(&run_id) {
            Some(run)
                if run.binding == *binding && seq > run.acknowledged && seq <= run.last_seq =>
            {
                run.acknowledged = seq;
                true
            }
            _ => false,
        }
    }

    /// What a new connection is told.
    pub fn held(&self) -> Vec<HeldRun> {
        let held = self.0.iter().filter(|(_, run)| !run.is_over());
        let mut held: Vec<_> = held
            .map(|(id, run)| HeldRun {
                run_id: *id,
                binding: run.binding,
                last_seq: run.last_seq,
            })
            .collect();
        held.sort_by_key(|run| run.run_id);
        held
    }

    /// Gives up every held Run that does not go on; answers those that still have to end.
    pub fn abandon_all_but(&mut self, resumed: &[RunId]) -> Vec<RunId> {
        let mut unsettled = Vec::new();
        self.0.retain(|id, run| {
            if resumed.contains(id) || run.is_over() {
                return true;
            }
            run.abandoned = true;
            if run.proof.is_none() {
                unsettled.push(*id);
            }
            run.proof.is_none()
        });
        unsettled.sort();
        unsettled
    }
}

impl RuntimeEnd {
    /// Sends numbered events in frames of at most 64 events and 3 MiB.
    pub(super) fn events(&mut self, batch: RunEvents) {
        let RunEvents {
            run_id,
            seq,
            events,
        } = batch;
        let Some(run) = self.runs.0.get_mut(&run_id) else {
            return;
        };
        let last = (seq + events.len() as u64).saturating_sub(1);
        run.last_seq = run.last_seq.max(last);
        let binding = run.binding;
        if run.abandoned || !self.is_up() {
            return;
        }
        for (seq, events) in frames(seq, events) {
            let events = RunEvents {
                run_id,
                seq,
                events,
            };
            match RuntimeFrame::RunEvents(binding, events).encode() {
                Ok(text) => self.outputs.push_back(Output::Send(Message::Text(text))),
                Err(_) => return self.break_run(run_id, seq),
            }
        }
    }

    /// An event that no frame can carry: the Run ends with it, and the connection, which others use too, goes on. Its end is
    /// told in the place of the event, so that nothing is missing in the numbers.
    fn break_run(&mut self, run_id: RunId, seq: u64) {
        let Some(run) = self.runs.0.get_mut(&run_id) else {
            return;
        };
        run.abandoned = true;
        run.last_seq = seq + 1;
        let binding = run.binding;
        let failure = RunFailure::new(
            Some(FailureCode::ServerError),
            None,
            "an event was too large for the link",
        );
        let status = TurnStatus::Failed;
        let events = vec![
            RunEvent::root(EventBody::Error(failure)),
            RunEvent::root(EventBody::Done(Done { status })),
        ];
        self.send(&RuntimeFrame::RunEvents(
            binding,
            RunEvents {
                run_id,
                seq,
                events,
            },
        ));
        self.notice(Notice::Abandon { run_id });
    }
}

/// Cuts a list into frames. An event counts as its JSON text plus some punctuation.
fn frames(mut seq: u64, events: Vec<RunEvent>) -> Vec<(u64, Vec<RunEvent>)> {
    const FRAMING: usize = 256;
    let mut frames: Vec<(u64, Vec<RunEvent>)> = Vec::new();
    let mut bytes = 0;
    for event in events {
        let size = serde_json::to_vec(&event).map_or(0, |text| text.len() + 1);
        match frames.last_mut() {
            Some((_, frame))
                if frame.len() < EVENT_BATCH && bytes + size + FRAMING <= EVENT_BATCH_BYTES =>
            {
                frame.push(event);
                bytes += size;
            }
            _ => {
                frames.push((seq, vec![event]));
                bytes = size;
            }
        }
        seq += 1;
    }
    frames
}
