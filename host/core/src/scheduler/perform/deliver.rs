//! What reaches a Run while it goes on: messages, function results, its cancel.

use domain::RunId;
use domain::dispatch::{CancelAnswer, Delivery, DeliveryAnswer, Input, RunEnd};
use domain::input::Delivery as Stored;
use domain::item::{InputPart, UserMessage};
use domain::run::{InputMessage, MessagePart, TurnStatus};
use domain::turn;
use protocol::wire::{CancelProof, CancelReason};
use store::units::turn::{ApplyResult, ConfirmInput};

use crate::peer::{Answer, ResultDelivery};
use crate::scheduler::actor::Actor;
use crate::scheduler::again;
use crate::scheduler::journal::Journal;

impl Actor {
    pub(super) async fn deliver(&mut self, run: RunId, delivery: Delivery) -> Vec<Input> {
        let not_now = vec![Input::Undelivered(delivery)];
        let (Some((peer, binding)), Some(facts)) = (self.run_route(), &self.facts) else {
            return not_now;
        };
        match delivery {
            Delivery::Message(id) => {
                let Some(input) = facts.state.inputs.iter().find(|input| input.id == id) else {
                    return not_now;
                };
                let message = match self.shared.store.read().message(input.item_id).await {
                    Ok(message) => run_message(id, message),
                    Err(error) => {
                        tracing::error!(session = %self.session, %error, "a message could not be read");
                        if again::passes(&error) {
                            return not_now;
                        }
                        None
                    }
                };
                // It can never be sent.
                let Some(message) = message else {
                    let answer = DeliveryAnswer::Rejected;
                    return vec![Input::Delivered { delivery, answer }];
                };
                self.pending.push(Box::pin(async move {
                    let answer = settled(peer.input(binding, run, message).await);
                    Input::Delivered { delivery, answer }
                }));
                crash::crash_point!("run_input.sent");
            }
            Delivery::Result(id) => {
                let Some(result) = facts.result(id) else {
                    return not_now;
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

    pub(super) async fn confirm(
        &mut self,
        delivery: Delivery,
        answer: DeliveryAnswer,
    ) -> Vec<Input> {
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
                again::write(&self.shared, ConfirmInput { session, confirm })
                    .await
                    .map(drop)
            }
            Delivery::Result(delivery_id) if answer == DeliveryAnswer::Accepted => {
                let apply = turn::ApplyResult {
                    run_id,
                    delivery_id,
                };
                again::write(&self.shared, ApplyResult { session, apply })
                    .await
                    .map(drop)
            }
            Delivery::Result(_) => return Vec::new(),
        };
        self.stopped(written).into_iter().collect()
    }

    pub(super) fn cancel(&mut self, run: RunId) -> Vec<Input> {
        let Some((peer, binding)) = self.run_route() else {
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
        crash::crash_point!("run_cancel.sent");
        Vec::new()
    }

    pub(super) fn abandon(&mut self, run: RunId) {
        // Nothing of it is observed any more, whoever ended its Turn.
        self.land();
        let Some((peer, binding)) = self.run_route() else {
            return;
        };
        // Best effort and not awaited (D30).
        tokio::spawn(async move {
            let _ = peer.cancel(binding, run, CancelReason::SessionEnded).await;
        });
    }
}

/// A stored message as the link carries it; `None` for a picture, which admission refuses for every harness that does not
/// declare pictures, so that none can be stored.
pub(super) fn run_message(id: domain::InputId, message: UserMessage) -> Option<InputMessage> {
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
