//! The ends of a Turn: its Run is settled, its outputs are captured, it is finished, failed or interrupted.

use domain::RunId;
use domain::dispatch::{Capture, Ending, Input, SettleAnswer, Waiting};
use domain::turn::Settled;
use store::units::reservation::FailReservation;
use store::units::turn::{FailQueuedTurn, FinishTurn, InterruptTurn, SettleRun};
use store::{StoreError, WriteError};

use crate::scheduler::actor::Actor;
use crate::scheduler::{again, capture};

impl Actor {
    pub(super) async fn settle(&mut self, run: RunId) -> Input {
        if let Some(journal) = &mut self.journal {
            journal.flush(&self.shared).await;
        }
        let unit = SettleRun {
            session: self.session,
            run,
        };
        let settled = again::write(&self.shared, unit).await;
        crash::crash_point!("settle_run.answered");
        if settled.is_ok()
            && let Some(journal) = &mut self.journal
        {
            journal.acknowledge_end();
        }
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
        if answer != SettleAnswer::Capture {
            self.land();
        }
        Input::Settled(answer)
    }

    pub(super) fn capture(&mut self) -> Vec<Input> {
        let Some((peer, binding)) = self.run_route() else {
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

    pub(super) async fn finish(&mut self, run: RunId, proposed: Ending) -> Input {
        let mut ending = proposed;
        if let Some(journal) = &mut self.journal
            && let Some(fault) = journal.flush(&self.shared).await
            && ending == Ending::Completed
        {
            // What could not be stored never becomes a completed Turn (RP-11.9).
            ending = Ending::Failed(fault.cause());
        }
        let captured = self
            .captured
            .take()
            .and_then(|mut files| files.try_recv().ok())
            .unwrap_or_default();
        let unit = FinishTurn {
            session: self.session,
            run,
            ending,
            captured,
        };
        let finished = again::write(&self.shared, unit).await;
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
    pub(super) fn land(&mut self) {
        self.journal = None;
        self.preparing = None;
        self.give_slot_back();
    }

    pub(super) async fn fail(&mut self, waiting: Waiting) -> Input {
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
        self.written(failed)
    }

    /// How a unit that decides what comes next ended.
    pub(super) fn written<R: std::fmt::Debug>(&self, written: Result<(), WriteError<R>>) -> Input {
        let done = written.is_ok();
        self.stopped(written).unwrap_or(Input::Written(done))
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
