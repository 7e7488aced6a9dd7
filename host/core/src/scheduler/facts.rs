//! One consistent read of a Session for dispatch, in the words of the machine.

use std::sync::Arc;

use domain::configuration::{EnvironmentConfiguration, SessionConfiguration};
use domain::dispatch::{Claimed, Delivery, Fit, Input, PeerView, Waiting, WorkView, needs};
use domain::environment::Initialization;
use domain::input::Delivery as Stored;
use domain::run::{Binding, ExecutionConfiguration, HarnessOffer, History};
use domain::turn::TurnState;
use domain::{DeliveryId, DeviceId, SessionId, SessionState};
use store::{Parts, StoreError};

use super::Shared;
use super::configuration::execution_configuration;
use crate::peer::{Peer, ResultDelivery};

/// The logical directory of a workspace on our own machines (LOC-011).
pub(super) const WORKSPACE: &str = "/workspace";

/// What was read.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) state: SessionState,
    pub(super) configuration: Arc<SessionConfiguration>,
    pub(super) history: History,
}

impl Facts {
    /// Reads a Session, deleted ones included; `None` if it was purged.
    pub(super) async fn read(
        shared: &Shared,
        session: SessionId,
    ) -> Result<Option<Self>, StoreError> {
        let Some(state) = state(shared, session).await? else {
            return Ok(None);
        };
        // Neither of the two changes while this Session has no Run, so they need not be of the same snapshot.
        let Some(configuration) = shared.store.read().configuration(session).await? else {
            return Ok(None);
        };
        let history = match shared.store.read().native_session(session).await? {
            (Some(native), _) => History::Resume(native.id),
            (None, true) => History::Recover,
            (None, false) => History::Fresh,
        };
        Ok(Some(Self {
            state,
            configuration: Arc::new(configuration),
            history,
        }))
    }

    /// Reads a Session again whose Run goes on: the rest was decided on when it began, and the Run's events wait for this read.
    pub(super) async fn read_during_run(
        &self,
        shared: &Shared,
        session: SessionId,
    ) -> Result<Option<Self>, StoreError> {
        let state = state(shared, session).await?;
        Ok(state.map(|state| Self {
            state,
            configuration: self.configuration.clone(),
            history: self.history.clone(),
        }))
    }

    /// The machine's input.
    pub(super) fn input(&self, shared: &Shared) -> Input {
        Input::Read {
            work: self.work(),
            peer: self.peer_view(shared),
        }
    }

    fn work(&self) -> WorkView {
        let state = &self.state;
        let environment = state.environment.as_ref();
        let ended = environment.is_some_and(|environment| environment.status.is_terminal());
        let queued = state
            .turn
            .as_ref()
            .filter(|turn| turn.state == TurnState::Queued);
        let waiting = match (state.pending_reservation(), queued) {
            (Some(reservation), _) => Some(Waiting::Reservation(reservation.id)),
            (None, Some(turn)) => Some(Waiting::Turn(turn.id)),
            (None, None) => None,
        };
        WorkView {
            session: state.session.id,
            deleted: state.session.deleted_at.is_some(),
            device: state
                .binding
                .as_ref()
                .filter(|binding| binding.release.is_none())
                .map(|binding| binding.device_id),
            initialized: environment.is_none_or(|environment| {
                !ended && matches!(environment.initialization, Initialization::Complete { .. })
            }),
            waiting,
            claimed: self.claimed(),
        }
    }

    fn claimed(&self) -> Option<Claimed> {
        let turn = self.state.live_turn()?;
        let TurnState::Active { claim, .. } = &turn.state else {
            return None;
        };
        let messages = self
            .state
            .inputs
            .iter()
            .filter(|input| input.turn_id == turn.id && input.delivery == Stored::Stored)
            .map(|input| Delivery::Message(input.id));
        let results = self
            .state
            .calls
            .iter()
            .filter(|call| call.turn_id == turn.id)
            .filter_map(|call| match &call.state {
                domain::call::CallState::Answered(answer) => {
                    Some(Delivery::Result(answer.delivery_id))
                }
                _ => None,
            });
        Some(Claimed {
            turn: turn.id,
            run: claim.run_id,
            cancel: turn.cancel.is_some(),
            undelivered: results.chain(messages).collect(),
        })
    }

    /// The authority of the Session on its device.
    pub(super) fn binding(&self) -> Option<Binding> {
        let binding = self.state.binding.as_ref()?;
        Some(Binding {
            session: binding.session_id,
            environment: binding.environment_id,
            id: binding.id,
            epoch: binding.epoch,
        })
    }

    /// The live connection of the Session's device.
    pub(super) fn peer(&self, shared: &Shared) -> Option<Arc<dyn Peer>> {
        shared.peers.of(self.state.binding.as_ref()?.device_id)
    }

    /// The Session is bound to this device, which is not connected.
    pub(super) fn misses(&self, shared: &Shared, device: DeviceId) -> bool {
        let bound = self.state.binding.as_ref();
        bound.is_some_and(|binding| binding.device_id == device) && self.peer(shared).is_none()
    }

    fn peer_view(&self, shared: &Shared) -> Option<PeerView> {
        let peer = self.peer(shared)?;
        let binding = self.binding()?;
        // Not by the declaration that it was admitted with: an upgrade changes that, and a Session outlives upgrades.
        let needed = needs(&self.configuration, &self.history);
        let fits = self
            .offer(&*peer)
            .is_some_and(|offer| offer.available && offer.capabilities.missing(&needed).is_none());
        Some(PeerView {
            connection: peer.connection(),
            bound: peer.is_bound(&binding),
            fit: if fits { Fit::Fits } else { Fit::Lacks },
        })
    }

    /// What a Runtime offers of the Session's harness; never another harness (RP-7.7).
    fn offer(&self, peer: &dyn Peer) -> Option<HarnessOffer> {
        let mut offers = peer.offers().into_iter();
        offers.find(|offer| offer.id == self.configuration.harness)
    }

    /// The Session's workspace as `bind` names it (RP-8.3).
    pub(super) fn workspace(&self) -> Option<String> {
        match &self.configuration.environment {
            EnvironmentConfiguration::None => None,
            EnvironmentConfiguration::OpenaiHosted(_) => Some(WORKSPACE.to_owned()),
        }
    }

    /// The frozen configuration with its secrets opened.
    pub(super) async fn execution_configuration(
        &self,
        shared: &Shared,
    ) -> Result<ExecutionConfiguration, StoreError> {
        let session = &self.state.session;
        let secrets = shared
            .store
            .read()
            .configuration_secrets(session.project_id, session.id)
            .await?;
        let secrets = secrets.ok_or(StoreError::Missing {
            table: "configurations",
        })?;
        // What the Runtime offered, so that it opens with the adapter that was judged (RP-7.5).
        let offer = self.peer(shared).and_then(|peer| self.offer(&*peer));
        let declaration_hash = offer.map_or_else(
            || self.configuration.declaration_hash.clone(),
            |offer| offer.declaration_hash,
        );
        Ok(execution_configuration(
            &self.configuration,
            declaration_hash,
            self.history.clone(),
            secrets,
        ))
    }

    /// A stored result, in the one order that a harness gets: output, then the error text (S-FN-4).
    pub(super) fn result(&self, id: DeliveryId) -> Option<ResultDelivery> {
        self.state.calls.iter().find_map(|call| {
            let answer = call
                .state
                .answer()
                .filter(|answer| answer.delivery_id == id)?;
            Some(ResultDelivery {
                id,
                call: call.call_id.0.clone(),
                output: answer.result.text(),
                failed: !answer.result.success,
            })
        })
    }
}

async fn state(shared: &Shared, session: SessionId) -> Result<Option<SessionState>, StoreError> {
    let parts = Parts {
        inputs: true,
        calls: true,
        binding: true,
        ..Parts::default()
    };
    shared.store.read().state(session, &parts).await
}
