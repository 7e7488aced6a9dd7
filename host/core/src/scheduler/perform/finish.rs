//! The ends of a Turn: its Run is settled, its outputs are captured, it is finished, failed or interrupted.

use domain::RunId;
use domain::dispatch::{Capture, Ending, Input, SettleAnswer, Waiting};
use domain::turn::Settled;
use store::units::reservation::FailReservation;
use store::units::turn::{FailQueuedTurn, FinishTurn, InterruptTurn, SettleRun};
use store::{StoreError, WriteError};

use crate::scheduler::actor::Actor;
use crate::scheduler::capture;
use crate::scheduler::facts::Facts;

impl Actor {
    pub(super) async fn settle(&mut self, run: RunId) -> Input {
        if let Some(journal) = &mut self.journal {
            journal.flush(&self.shared).await;
        }
        let settled = self
            .shared
            .store
            .write(SettleRun {
                session: self.session,
                run,
            })
            .await;
        store::crash_point!("settle_run.answered");
        let answer = match settled {
            Ok(Settled::Capture) => SettleAnswer::Capture,
            Ok(Settled::Ended(_)) => SettleAnswer::Finished,
            Ok(Settled::Inert) => SettleAnswer::Unsettled,
            Err(WriteError::Store(StoreError::LeaseLost)) => return Input::Stop,
            Err(error) => {
                tracing::error!(session = %self.session, %error, "the end of a Run was not stored");
                SettleAnswer::Unsettled
            }
        };
        if answer != SettleAnswer::Unsettled
            && let Some(journal) = &mut self.journal
        {
            journal.acknowledge_end();
        }
        if answer != SettleAnswer::Capture {
            self.land();
        }
        Input::Settled(answer)
    }

    pub(super) fn capture(&mut self, _run: RunId) -> Vec<Input> {
        let (Some(peer), Some(binding)) = (
            self.peer.clone(),
            self.facts.as_ref().and_then(Facts::binding),
        ) else {
            return vec![Input::Captured(Capture::Discarded)];
        };
        let (shared, session) = (self.shared.clone(), self.session);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.captured = Some(receiver);
        self.pending.push(Box::pin(async move {
            match capture::copy(&shared, peer, binding).await {
                Ok(files) => {
                    let _ = sender.send(files);
                    Input::Captured(Capture::Staged)
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "outputs could not be captured");
                    Input::Captured(Capture::Discarded)
                }
            }
        }));
        Vec::new()
    }

    pub(super) async fn finish(&mut self, run: RunId, ending: Ending) -> Input {
        if let Some(journal) = &mut self.journal {
            journal.flush(&self.shared).await;
        }
        let captured = self
            .captured
            .take()
            .and_then(|mut files| files.try_recv().ok())
            .unwrap_or_default();
        let finished = self
            .shared
            .store
            .write(FinishTurn {
                session: self.session,
                run,
                ending,
                captured,
            })
            .await;
        let known = match finished {
            Ok(_) => {
                if let Some(journal) = &mut self.journal {
                    journal.acknowledge_end();
                }
                true
            }
            Err(WriteError::Store(StoreError::LeaseLost)) => return Input::Stop,
            Err(error) => {
                tracing::error!(session = %self.session, %error, "the end of a Turn was not stored");
                false
            }
        };
        self.land();
        Input::Finished(known)
    }

    /// The Turn is over: the slot is free and nothing of the Run is observed any more.
    fn land(&mut self) {
        self.journal = None;
        self.preparing = None;
        self.give_slot_back();
    }

    pub(super) async fn fail(&mut self, waiting: Waiting) -> Vec<Input> {
        let session = self.session;
        self.give_slot_back();
        let failed = match waiting {
            Waiting::Reservation(reservation) => self
                .shared
                .store
                .write(FailReservation {
                    session,
                    reservation,
                })
                .await
                .map(drop),
            Waiting::Turn(turn) => self
                .shared
                .store
                .write(FailQueuedTurn { session, turn })
                .await
                .map(drop),
        };
        self.stopped(failed).into_iter().collect()
    }

    /// Logs a unit that did not commit; a lost lease stops the actor.
    pub(super) fn stopped<R: std::fmt::Debug>(
        &self,
        written: Result<(), WriteError<R>>,
    ) -> Option<Input> {
        match written {
            Ok(()) => {}
            Err(WriteError::Store(StoreError::LeaseLost)) => return Some(Input::Stop),
            Err(WriteError::Refused(refusal)) => {
                tracing::error!(session = %self.session, ?refusal, "an execution unit was refused");
            }
            Err(WriteError::Store(error)) => {
                tracing::warn!(session = %self.session, %error, "an execution unit did not commit");
            }
        }
        None
    }

    /// The process ends and the Run does not: its Turn is settled while this process still may, and the Runtime is told
    /// (SC-2.9, D30).
    pub(in crate::scheduler) async fn interrupt(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.flush(&self.shared).await;
            let run = journal.run();
            self.abandon(run);
        }
        let done = self
            .shared
            .store
            .write(InterruptTurn {
                session: self.session,
            })
            .await;
        self.stopped(done.map(drop));
    }
}
