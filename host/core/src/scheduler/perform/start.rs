//! The right to run a Turn, and its start: the one effect that is never repeated (I17).

use domain::dispatch::{ClaimAnswer, Input, StartAnswer, Unsent, Waiting};
use domain::input::Delivery as Stored;
use domain::lease::Epoch;
use domain::reservation::{self, Promotion};
use domain::turn::{Claim, Claimed};
use domain::{PrepareId, RunId, TurnId};
use store::units::reservation::Promote;
use store::units::turn::ClaimTurn;
use store::{StoreError, WriteError};

use super::deliver::run_message;
use crate::peer::Start;
use crate::scheduler::actor::Actor;
use crate::scheduler::again;
use crate::scheduler::facts::Facts;
use crate::scheduler::journal::Journal;

impl Actor {
    pub(super) async fn claim(&mut self, waiting: Waiting, run: RunId) -> Input {
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
    pub(super) async fn start(
        &mut self,
        prepare: PrepareId,
        executor: domain::ExecutorId,
        run: RunId,
        turn: TurnId,
    ) -> Vec<Input> {
        let unsent = |why| vec![Input::Start(StartAnswer::Unsent(why))];
        let (Some(peer), Some(binding)) = (
            self.peer.clone(),
            self.facts.as_ref().and_then(Facts::binding),
        ) else {
            return unsent(Unsent::Peer);
        };
        // Nothing is sent yet, so nothing is decided by a database that does not answer at once.
        let store = &self.shared.store;
        let messages = || async move { store.read().messages(turn).await };
        let input = match again::read(&self.shared, messages).await {
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
            return unsent(Unsent::Content);
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
        crash::crash_point!("execution_start.sent");
        self.started = Some(binding);
        self.journal = Some(Journal::new(self.session, run, binding, peer, feed));
        Vec::new()
    }
}
