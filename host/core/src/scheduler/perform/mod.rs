//! The effects of dispatch, one by one: units of the store and requests to the Runtime.

mod deliver;
mod finish;
mod start;

use std::sync::Arc;

use domain::PrepareId;
use domain::dispatch::{BindAnswer, Effect, Input, PrepareAnswer};
use domain::run::{Binding, PrepareCode};
use store::StoreError;
use store::units::environment::BindDevice;
use store::units::turn::InterruptTurn;

use super::actor::Actor;
use super::authorize::{self, Request};
use super::connections::ask_to_bind;
use super::facts::Facts;
use crate::peer::Peer;

impl Actor {
    /// Performs one effect; what is known at once comes back, the rest arrives later.
    pub(super) async fn perform(&mut self, effect: Effect) -> Vec<Input> {
        match effect {
            Effect::ChooseDevice => vec![self.choose_device().await],
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
            Effect::Capture(_) => self.capture(),
            Effect::Finish { run, ending, .. } => vec![self.finish(run, ending).await],
            Effect::Fail(waiting) => vec![self.fail(waiting).await],
            Effect::Interrupt { .. } => {
                let unit = InterruptTurn {
                    session: self.session,
                };
                let done = self.shared.store.write(unit).await;
                vec![self.written(done.map(drop))]
            }
            // The loop performs these itself.
            Effect::Prepare { .. } | Effect::Backoff | Effect::Read | Effect::Rest => Vec::new(),
        }
    }

    /// → `execution_prepare`. The configuration is opened here and nowhere before (architecture 2.7).
    pub(super) async fn prepare(&mut self, prepare: PrepareId) -> Vec<Input> {
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
                let wanted = self.facts.as_ref().map(Facts::credentials);
                let wanted = wanted.unwrap_or_default();
                let feed = if wanted.is_empty() {
                    peer.prepare(binding, prepare, Box::new(configuration))
                } else {
                    let shared = Arc::clone(&self.shared);
                    let request = Request {
                        session: self.session,
                        binding,
                        prepare,
                        configuration,
                        wanted,
                    };
                    authorize::prepare(shared, Arc::clone(&peer), request)
                };
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

    /// The connection and the authority of the Run in progress.
    fn run_route(&self) -> Option<(Arc<dyn Peer>, Binding)> {
        Some((self.peer.clone()?, self.started?))
    }

    /// The peer and authority that the last read found.
    fn route(&self) -> Option<(Arc<dyn Peer>, Binding)> {
        let facts = self.facts.as_ref()?;
        Some((facts.peer(&self.shared)?, facts.binding()?))
    }

    async fn choose_device(&mut self) -> Input {
        let Some(facts) = &self.facts else {
            return Input::NoDevice;
        };
        let harness = &facts.configuration.harness;
        let Some(device) = self.shared.engine_host.device(harness).await else {
            return Input::NoDevice;
        };
        let unit = BindDevice {
            session: self.session,
            device,
        };
        let chosen = self.shared.store.write(unit).await;
        self.written(chosen.map(drop))
    }

    fn bind(&mut self) -> Vec<Input> {
        let Some((peer, binding)) = self.route() else {
            return vec![Input::Bound(BindAnswer::NotNow)];
        };
        let Some(facts) = &self.facts else {
            return vec![Input::Bound(BindAnswer::NotNow)];
        };
        let (harness, workspace) = (facts.configuration.harness.clone(), facts.workspace());
        self.pending.push(Box::pin(async move {
            Input::Bound(if ask_to_bind(&*peer, binding, harness, workspace).await {
                BindAnswer::Done
            } else {
                BindAnswer::NotNow
            })
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
}
