//! The effects of dispatch, one by one: units of the store and requests to the Runtime.

use std::sync::Arc;

use domain::dispatch::{
    BindAnswer, CancelAnswer, ClaimAnswer, Delivery, DeliveryAnswer, Effect, Ending, Input,
    PrepareAnswer, RunEnd, SettleAnswer, Waiting,
};
use domain::input::Delivery as Stored;
use domain::item::{InputPart, UserMessage};
use domain::lease::Epoch;
use domain::reservation::{self, Promotion};
use domain::run::{Binding, InputMessage, MessagePart, PrepareCode, TurnStatus};
use domain::turn::{self, Claim, Claimed, Settled};
use domain::{PrepareId, RunId, TurnId};
use protocol::wire::{CancelProof, CancelReason, CloseReason};
use store::units::environment::BindDevice;
use store::units::reservation::{FailReservation, Promote};
use store::units::turn::{
    ApplyResult, ClaimTurn, ConfirmInput, FailQueuedTurn, FinishTurn, InterruptTurn, SettleRun,
};
use store::{StoreError, WriteError};

use super::actor::Actor;
use super::capture;
use super::facts::Facts;
use super::journal::Journal;
use crate::peer::{Answer, Peer, ResultDelivery, Start};

impl Actor {
    /// Performs one effect; what is known at once comes back, the rest arrives later.
    pub(super) async fn perform(&mut self, effect: Effect) -> Vec<Input> {
        match effect {
            Effect::ChooseDevice => self.choose_device().await,
            Effect::Bind(_) => self.bind(),
            Effect::Release(prepare) => {
                self.release(prepare);
                Vec::new()
            }
            Effect::Claim { waiting, run } => vec![self.claim(waiting, run).await],
            Effect::Start {
                prepare,
                executor,
                run,
                turn,
            } => self.start(prepare, executor, run, turn).await,
            Effect::Deliver(run, delivery) => self.deliver(run, delivery).await,
            Effect::Confirm(delivery, answer) => self.confirm(delivery, answer).await,
            Effect::Cancel(run) => self.cancel(run),
            Effect::Abandon(run) => {
                self.abandon(run);
                Vec::new()
            }
            Effect::Settle { run, .. } => vec![self.settle(run).await],
            Effect::Capture(run) => self.capture(run),
            Effect::Finish { run, ending, .. } => vec![self.finish(run, ending).await],
            Effect::Fail(waiting) => self.fail(waiting).await,
            Effect::Interrupt { .. } => {
                let done = self
                    .shared
                    .store
                    .write(InterruptTurn {
                        session: self.session,
                    })
                    .await;
                self.stopped(done.map(drop)).into_iter().collect()
            }
            // The loop performs these itself.
            Effect::Prepare { .. } | Effect::Backoff | Effect::Read | Effect::Rest => Vec::new(),
        }
    }

    /// → `execution_prepare`. The configuration is opened here and nowhere before (architecture 2.7).
    pub(super) async fn prepare(&mut self, prepare: PrepareId, _waiting: Waiting) -> Vec<Input> {
        let ended = |code| {
            vec![Input::Prepare {
                prepare,
                answer: PrepareAnswer::Ended(code),
            }]
        };
        let Some((peer, binding)) = self.route() else {
            return ended(None);
        };
        let configuration = match &self.facts {
            Some(facts) => facts.execution_configuration(&self.shared).await,
            None => return ended(None),
        };
        match configuration {
            Ok(configuration) => {
                let feed = peer.prepare(binding, prepare, Box::new(configuration));
                self.preparing = Some((prepare, feed));
                self.peer = Some(peer);
                Vec::new()
            }
            Err(error) => {
                tracing::error!(session = %self.session, %error, "a frozen configuration could not be opened");
                // A snapshot that does not open fails closed (MDL-031); a database that does not answer is tried again.
                let code = matches!(error, StoreError::Seal(_))
                    .then_some(PrepareCode::InvalidConfiguration);
                ended(code)
            }
        }
    }

    /// The peer and authority that the last read found.
    fn route(&self) -> Option<(Arc<dyn Peer>, Binding)> {
        let facts = self.facts.as_ref()?;
        Some((facts.peer(&self.shared)?, facts.binding()?))
    }

    async fn choose_device(&mut self) -> Vec<Input> {
        let Some(facts) = &self.facts else {
            return Vec::new();
        };
        let Some(device) = self
            .shared
            .engine_host
            .device(&facts.configuration.harness)
            .await
        else {
            return Vec::new();
        };
        let chosen = self
            .shared
            .store
            .write(BindDevice {
                session: self.session,
                device,
            })
            .await;
        match self.stopped(chosen.map(drop)) {
            None => {
                self.wake.notify_one();
                Vec::new()
            }
            Some(stop) => vec![stop],
        }
    }

    fn bind(&mut self) -> Vec<Input> {
        let Some((peer, binding)) = self.route() else {
            return vec![Input::Bound(BindAnswer::NotNow)];
        };
        let Some(facts) = &self.facts else {
            return vec![Input::Bound(BindAnswer::NotNow)];
        };
        let (harness, workspace) = (facts.configuration.harness.clone(), facts.workspace());
        let session = self.session;
        self.pending.push(Box::pin(async move {
            match peer.bind(binding, harness, workspace).await {
                Answer::Done(()) => Input::Bound(BindAnswer::Done),
                Answer::Rejected(code) => {
                    // It can never serve this Session (RP-8.3).
                    tracing::error!(%session, ?code, "a Runtime refused its Session");
                    peer.close(CloseReason::BindingConflict);
                    Input::Bound(BindAnswer::NotNow)
                }
                Answer::Failed { .. } | Answer::Unanswered(_) => Input::Bound(BindAnswer::NotNow),
            }
        }));
        Vec::new()
    }

    fn release(&mut self, prepare: PrepareId) {
        self.preparing = None;
        if let (Some(peer), Some(binding)) =
            (&self.peer, self.facts.as_ref().and_then(Facts::binding))
        {
            peer.release_preparation(binding, prepare);
        }
    }

    async fn claim(&mut self, waiting: Waiting, run: RunId) -> Input {
        if self.shared.draining.is_cancelled() {
            return Input::Claimed(ClaimAnswer::Refused);
        }
        let Some(facts) = &self.facts else {
            return Input::Claimed(ClaimAnswer::Refused);
        };
        let Some(binding) = &facts.state.binding else {
            return Input::Claimed(ClaimAnswer::Refused);
        };
        let claim = Claim {
            run_id: run,
            // The unit writes the epoch under which it commits.
            owner_epoch: Epoch::default(),
            binding_id: binding.id,
            binding_epoch: binding.epoch,
            device_id: binding.device_id,
        };
        let session = self.session;
        let answer = match waiting {
            Waiting::Reservation(reservation_id) => {
                let generation = facts
                    .state
                    .environment
                    .as_ref()
                    .map_or(0, |row| row.observation.generation);
                let promote = reservation::Promote {
                    reservation_id,
                    claim,
                    generation,
                };
                self.shared
                    .store
                    .write(Promote { session, promote })
                    .await
                    .map(|answer| match answer {
                        Promotion::Claimed { turn_id } => ClaimAnswer::First(turn_id),
                        Promotion::Replay { .. } => ClaimAnswer::NoRight,
                        Promotion::Refused(why) => {
                            tracing::info!(%session, ?why, "a promotion was refused");
                            ClaimAnswer::Refused
                        }
                    })
            }
            Waiting::Turn(turn) => self
                .shared
                .store
                .write(ClaimTurn {
                    session,
                    turn,
                    claim,
                })
                .await
                .map(|answer| match answer {
                    Claimed::Now => ClaimAnswer::First(turn),
                    Claimed::Replay => ClaimAnswer::NoRight,
                    Claimed::Refused => ClaimAnswer::Refused,
                }),
        };
        match answer {
            Ok(answer) => Input::Claimed(answer),
            Err(WriteError::Store(StoreError::LeaseLost)) => Input::Stop,
            Err(WriteError::Store(error)) if error.is_unknown() => {
                Input::Claimed(ClaimAnswer::NoRight)
            }
            Err(error) => {
                tracing::warn!(%session, %error, "a claim was not written");
                Input::Claimed(ClaimAnswer::Refused)
            }
        }
    }

    /// → `execution_start`, the one effect that is never repeated (I17).
    async fn start(
        &mut self,
        prepare: PrepareId,
        executor: domain::ExecutorId,
        run: RunId,
        turn: TurnId,
    ) -> Vec<Input> {
        use domain::dispatch::StartAnswer::Unsent;
        let (Some(peer), Some(binding)) = (
            self.peer.clone(),
            self.facts.as_ref().and_then(Facts::binding),
        ) else {
            return vec![Input::Start(Unsent)];
        };
        let input = match self.shared.store.read().messages(turn).await {
            Ok(messages) => messages
                .into_iter()
                .filter(|(input, _)| input.delivery == Stored::Started)
                .map(|(input, message)| run_message(input.id, message))
                .collect::<Option<Vec<_>>>(),
            Err(error) => {
                tracing::error!(session = %self.session, %error, "the input of a Turn could not be read");
                None
            }
        };
        let Some(input) = input else {
            return vec![Input::Start(Unsent)];
        };
        self.preparing = None;
        let feed = peer.start(
            binding,
            Start {
                prepare,
                executor,
                run,
                input,
            },
        );
        store::crash_point!("execution_start.sent");
        self.journal = Some(Journal::new(self.session, run, binding, peer, feed));
        Vec::new()
    }

    async fn deliver(&mut self, run: RunId, delivery: Delivery) -> Vec<Input> {
        let not_sent = vec![Input::Delivered {
            delivery,
            answer: DeliveryAnswer::Rejected,
        }];
        let (Some(peer), Some(binding)) = (
            self.peer.clone(),
            self.facts.as_ref().and_then(Facts::binding),
        ) else {
            return not_sent;
        };
        match delivery {
            Delivery::Message(id) => {
                let Some(turn) = self
                    .facts
                    .as_ref()
                    .and_then(|facts| facts.state.turn.as_ref())
                else {
                    return not_sent;
                };
                let message = match self.shared.store.read().messages(turn.id).await {
                    Ok(messages) => messages.into_iter().find(|(input, _)| input.id == id),
                    Err(error) => {
                        tracing::error!(session = %self.session, %error, "a message could not be read");
                        return not_sent;
                    }
                };
                let message = message.and_then(|(input, message)| run_message(input.id, message));
                let Some(message) = message else {
                    return not_sent;
                };
                self.pending.push(Box::pin(async move {
                    let answer = settled(peer.input(binding, run, message).await);
                    Input::Delivered { delivery, answer }
                }));
                store::crash_point!("run_input.sent");
            }
            Delivery::Result(id) => {
                let Some(result) = self.facts.as_ref().and_then(|facts| facts.result(id)) else {
                    return not_sent;
                };
                let result: ResultDelivery = result;
                self.pending.push(Box::pin(async move {
                    let answer = settled(peer.result(binding, run, result).await);
                    Input::Delivered { delivery, answer }
                }));
            }
        }
        Vec::new()
    }

    async fn confirm(&mut self, delivery: Delivery, answer: DeliveryAnswer) -> Vec<Input> {
        let Some(run_id) = self.journal.as_ref().map(Journal::run) else {
            return Vec::new();
        };
        let session = self.session;
        let written = match delivery {
            Delivery::Message(input_id) => {
                let delivery = match answer {
                    DeliveryAnswer::Accepted => Stored::Accepted,
                    DeliveryAnswer::Rejected => Stored::Rejected,
                    DeliveryAnswer::Unknown => Stored::Unknown,
                };
                let confirm = turn::ConfirmInput {
                    run_id,
                    input_id,
                    delivery,
                };
                self.shared
                    .store
                    .write(ConfirmInput { session, confirm })
                    .await
                    .map(drop)
            }
            Delivery::Result(delivery_id) if answer == DeliveryAnswer::Accepted => {
                let apply = turn::ApplyResult {
                    run_id,
                    delivery_id,
                };
                self.shared
                    .store
                    .write(ApplyResult { session, apply })
                    .await
                    .map(drop)
            }
            Delivery::Result(_) => return Vec::new(),
        };
        self.stopped(written).into_iter().collect()
    }

    fn cancel(&mut self, run: RunId) -> Vec<Input> {
        let (Some(peer), Some(binding)) = (
            self.peer.clone(),
            self.facts.as_ref().and_then(Facts::binding),
        ) else {
            return Vec::new();
        };
        self.pending.push(Box::pin(async move {
            let answer = peer.cancel(binding, run, CancelReason::Requested).await;
            match answer {
                Answer::Done(proof) => Input::Cancelled(proved(&proof)),
                Answer::Rejected(_) | Answer::Failed { .. } => {
                    Input::Cancelled(CancelAnswer::Unavailable)
                }
                // Only the deadline or the loss of the socket ends this wait (K9).
                Answer::Unanswered(_) => std::future::pending().await,
            }
        }));
        store::crash_point!("run_cancel.sent");
        Vec::new()
    }

    fn abandon(&mut self, run: RunId) {
        let (Some(peer), Some(binding)) = (
            self.peer.clone(),
            self.facts.as_ref().and_then(Facts::binding),
        ) else {
            return;
        };
        // Best effort and not awaited (D30).
        tokio::spawn(async move {
            let _ = peer.cancel(binding, run, CancelReason::SessionEnded).await;
        });
    }

    async fn settle(&mut self, run: RunId) -> Input {
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

    fn capture(&mut self, _run: RunId) -> Vec<Input> {
        let (Some(peer), Some(binding)) = (
            self.peer.clone(),
            self.facts.as_ref().and_then(Facts::binding),
        ) else {
            return vec![Input::Captured(domain::dispatch::Capture::Discarded)];
        };
        let (shared, session) = (self.shared.clone(), self.session);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.captured = Some(receiver);
        self.pending.push(Box::pin(async move {
            match capture::copy(&shared, peer, binding).await {
                Ok(files) => {
                    let _ = sender.send(files);
                    Input::Captured(domain::dispatch::Capture::Staged)
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "outputs could not be captured");
                    Input::Captured(domain::dispatch::Capture::Discarded)
                }
            }
        }));
        Vec::new()
    }

    async fn finish(&mut self, run: RunId, ending: Ending) -> Input {
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

    async fn fail(&mut self, waiting: Waiting) -> Vec<Input> {
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
    fn stopped<R: std::fmt::Debug>(&self, written: Result<(), WriteError<R>>) -> Option<Input> {
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
    pub(super) async fn interrupt(&mut self) {
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

/// A stored message as the link carries it; `None` for a picture, which admission refuses for every harness that does not
/// declare pictures, so that none can be stored.
fn run_message(id: domain::InputId, message: UserMessage) -> Option<InputMessage> {
    let text = |part| match part {
        InputPart::InputText { text } => Some(MessagePart::Text(text)),
        InputPart::InputImage { .. } => None,
    };
    let content = message
        .content
        .into_iter()
        .map(text)
        .collect::<Option<_>>()?;
    Some(InputMessage { id, content })
}

fn settled(answer: Answer<()>) -> DeliveryAnswer {
    use crate::peer::Unanswered;
    match answer {
        Answer::Done(()) => DeliveryAnswer::Accepted,
        Answer::Rejected(_) | Answer::Failed { .. } | Answer::Unanswered(Unanswered::NotSent) => {
            DeliveryAnswer::Rejected
        }
        Answer::Unanswered(Unanswered::Unknown) => DeliveryAnswer::Unknown,
    }
}

fn proved(proof: &CancelProof) -> CancelAnswer {
    match (proof.settled, proof.outcome) {
        (true, TurnStatus::Cancelled) => CancelAnswer::Settled(RunEnd::Cancelled),
        (true, TurnStatus::Completed) => CancelAnswer::Settled(RunEnd::Completed),
        (true, TurnStatus::Failed) => CancelAnswer::Settled(RunEnd::Failed(None)),
        (true, TurnStatus::Unknown) | (false, _) => CancelAnswer::Unavailable,
    }
}
