//! From the Runtime's events to committed Items and public events: the pump of one Run.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::dispatch::{Input, JournalFault, RunEnd};
use domain::projection::Append;
use domain::run::{Binding, RunEvent, RunFailure, TurnStatus};
use domain::turn::FailureClass;
use domain::{RunId, SessionId};
use store::units::turn::AppendRun;
use store::{StoreError, WriteError};

use super::{Shared, again};
use crate::peer::{Peer, RunFeed, RunSignal};

/// Most events that are committed together; a ceiling, not a wait: what is there is taken (RP-11.9).
const BATCH: usize = 64;

/// The observation of one Run.
pub(super) struct Journal {
    session: SessionId,
    run: RunId,
    binding: Binding,
    peer: Arc<dyn Peer>,
    feed: RunFeed,
    /// The feed has ended; nothing more will come.
    dry: bool,
    /// Signals that were taken while looking for more events.
    held: VecDeque<RunSignal>,
    /// The last native error: the end is judged with it, whatever `done` says (RP-11.4).
    failure: Option<RunFailure>,
    /// `done` is acknowledged only once the Turn's end is committed.
    owed: Option<u64>,
    seen: bool,
}

impl Journal {
    pub(super) fn new(
        session: SessionId,
        run: RunId,
        binding: Binding,
        peer: Arc<dyn Peer>,
        feed: RunFeed,
    ) -> Self {
        Self {
            session,
            run,
            binding,
            peer,
            feed,
            dry: false,
            held: VecDeque::new(),
            failure: None,
            owed: None,
            seen: false,
        }
    }

    pub(super) fn run(&self) -> RunId {
        self.run
    }

    /// The next signal; `None` once when the feed ends, then never again.
    pub(super) async fn next(&mut self) -> Option<RunSignal> {
        if let Some(signal) = self.held.pop_front() {
            return Some(signal);
        }
        if self.dry {
            return std::future::pending().await;
        }
        let signal = self.feed.recv().await;
        self.dry = signal.is_none();
        signal
    }

    /// Commits these events and whatever more is already there, then acknowledges them.
    pub(super) async fn append(
        &mut self,
        shared: &Shared,
        seq: u64,
        events: Vec<RunEvent>,
    ) -> Vec<Input> {
        let (first_seq, mut events) = (seq, events);
        while events.len() < BATCH {
            match self.feed.try_recv() {
                Ok(RunSignal::Events { seq, events: more })
                    if seq == first_seq + events.len() as u64 =>
                {
                    events.extend(more);
                }
                Ok(other) => {
                    self.held.push_back(other);
                    break;
                }
                Err(_) => break,
            }
        }
        let append = Append {
            run_id: self.run,
            first_seq,
            events,
        };
        let unit = AppendRun {
            session: self.session,
            append,
        };
        // A repeat skips what is stored (RP-11.2).
        let appended = match again::write(shared, unit).await {
            Ok(appended) => appended,
            Err(WriteError::Store(StoreError::LeaseLost)) => return vec![Input::Stop],
            Err(error) => {
                tracing::error!(session = %self.session, run = %self.run, %error, "events could not be stored");
                return vec![Input::JournalBroken(self.run, JournalFault::Storage)];
            }
        };
        let mut inputs = Vec::new();
        if !self.seen {
            self.seen = true;
            inputs.push(Input::Event(self.run));
        }
        if let Some(failure) = appended.failure {
            tracing::info!(
                session = %self.session, run = %self.run, code = ?failure.code(), http_status = ?failure.http_status(),
                detail = failure.detail(), "the harness reported a failure"
            );
            self.failure = Some(failure);
        }
        let fault = match (appended.invalid_call, appended.gap) {
            (true, _) => Some(JournalFault::Call),
            (false, Some(_)) => Some(JournalFault::Stream),
            (false, None) => None,
        };
        if let Some(fault) = fault {
            inputs.push(Input::JournalBroken(self.run, fault));
            return inputs;
        }
        match appended.done {
            Some(status) => {
                self.owed = Some(appended.through);
                inputs.push(Input::Ended(self.run, self.end(status)));
            }
            None => self
                .peer
                .acknowledge(self.binding, self.run, appended.through),
        }
        inputs
    }

    /// Commits everything that has arrived, so that nothing reported is lost by the end of the Turn; answers why that could
    /// not be done (RP-11.9).
    pub(super) async fn flush(&mut self, shared: &Shared) -> Option<JournalFault> {
        let mut fault = None;
        // As much as is there now: a Run that reports without a pause would else never let its end be written.
        for _ in 0..self.held.len() + self.feed.len() {
            let signal = self.held.pop_front().or_else(|| self.feed.try_recv().ok());
            if let Some(RunSignal::Events { seq, events }) = signal {
                for input in self.append(shared, seq, events).await {
                    if let Input::JournalBroken(_, why) = input {
                        fault.get_or_insert(why);
                    }
                }
            }
        }
        fault
    }

    /// The Turn's end is committed: the Runtime may forget the Run.
    pub(super) fn acknowledge_end(&mut self) {
        if let Some(seq) = self.owed.take() {
            self.peer.acknowledge(self.binding, self.run, seq);
        }
    }

    fn end(&self, status: TurnStatus) -> RunEnd {
        let class = self.failure.as_ref().and_then(FailureClass::of);
        match status {
            TurnStatus::Completed if self.failure.is_none() => RunEnd::Completed,
            TurnStatus::Cancelled => RunEnd::Cancelled,
            TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Unknown => {
                RunEnd::Failed(class)
            }
        }
    }
}
