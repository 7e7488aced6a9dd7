//! What is stored of a connection: its registration, its binding, its heartbeats, its end; each found beside the loop.

use std::sync::Arc;

use domain::FrameId;
use domain::SessionId;
use domain::environment::{Observe, Observed};
use domain::run::{Binding, HarnessOffer};
use protocol::core_end::{Command, Settled};
use protocol::wire::{Answer, CloseReason, Proof, RequestType};
use store::units::environment::ObserveConnection;

use super::Pump;
use crate::gateway::live::{Ask, LivePeer, Route, not_sent, settle};

/// What slow work found.
pub(super) enum Fact {
    /// The connection is registered under this generation; none = it may not be (SC-9.1).
    Registered(Result<u64, CloseReason>),
    /// The credential was looked up again; false = it is not valid any more (RP-3.12).
    Authentic(bool),
    /// The observation `connected` is committed, or could not be (C2).
    Connected {
        id: FrameId,
        binding: Binding,
        stored: bool,
    },
}

impl Pump {
    /// The release fences the authority from here on (RP-8.5).
    pub(super) fn unbind(&self, binding: &Binding) {
        if let Some(other) = &self.other {
            other
                .bound
                .send_modify(|bound| bound.retain(|known| !known.same_authority(binding)));
        }
    }

    pub(super) fn settled(&mut self, id: FrameId, of: RequestType, settled: Settled) {
        if of == RequestType::Bind
            && let Some(binding) = self.binding.take()
        {
            return self.connected(id, binding);
        }
        let Some(route) = self.routes.remove(&id) else {
            return;
        };
        if let Route::Run(run_id, _) = &route
            && !matches!(settled, Settled::Started)
        {
            // Nothing runs, or nobody will ever know: no event of it is wanted.
            self.runs.remove(run_id);
            self.command(Command::ForgetRun { run_id: *run_id });
        }
        settle(route, settled);
    }

    /// Commits C1 before `welcome` leaves; the connection that this one replaces is retired first (SC-9.2).
    pub(super) fn register(&mut self) {
        self.gateway.retire(self.record.device.id);
        let Some(session) = self.record.session else {
            return self.send(Fact::Registered(Ok(0)));
        };
        let connection_id = self.connection;
        let observe = Observe::Registered {
            connection_id,
            key_id: None,
        };
        self.observe(session, observe, move |observed| match observed {
            Some(Observed::Stored(observation)) => Fact::Registered(Ok(observation.generation)),
            // The Session is gone.
            Some(Observed::Inert) => Fact::Registered(Err(CloseReason::Revoked)),
            None => Fact::Registered(Err(CloseReason::StaleOwner)),
        });
    }

    /// A workspace is `connected` once its exact binding is bound, and the asker hears of it after the commit (C2, D20).
    pub(super) fn connected(&mut self, id: FrameId, binding: Binding) {
        let (Some(session), Some(generation), Some(_)) =
            (self.record.session, self.generation, binding.environment)
        else {
            return self.send(Fact::Connected {
                id,
                binding,
                stored: true,
            });
        };
        self.revision += 1;
        let observe = Observe::Connected {
            generation,
            revision: self.revision,
        };
        self.observe(session, observe, move |observed| Fact::Connected {
            id,
            binding,
            stored: observed.is_some(),
        });
    }

    pub(super) fn observe(
        &self,
        session: SessionId,
        observe: Observe,
        fact: impl FnOnce(Option<Observed>) -> Fact + Send + 'static,
    ) {
        let (store, facts) = (self.gateway.settings.store.clone(), self.facts.clone());
        self.gateway.tasks.spawn(async move {
            let observed = match store.write(ObserveConnection { session, observe }).await {
                Ok(observed) => Some(observed),
                Err(error) => {
                    tracing::warn!(%session, %error, "a connection could not be recorded");
                    None
                }
            };
            // A pump that is gone has recorded its end already.
            let _ = facts.send(fact(observed));
        });
    }

    /// What the Runtime offers from now on.
    pub(super) fn offer(&mut self, offers: Vec<HarnessOffer>) {
        self.offers = offers;
        let Some(other) = &self.other else { return };
        let changed = other.offers.send_if_modified(|known| {
            let changed = *known != self.offers;
            known.clone_from(&self.offers);
            changed
        });
        if changed {
            self.gateway.changed();
        }
    }

    pub(super) fn heartbeat(&mut self, offers: Option<Vec<HarnessOffer>>) {
        if let Some(offers) = offers {
            self.offer(offers);
        }
        if self.other.is_none() {
            self.enter();
        }
        let (gateway, credential, facts) =
            (self.gateway.clone(), self.credential, self.facts.clone());
        self.gateway.tasks.spawn(async move {
            match gateway.may_stay(credential).await {
                Ok(stays) => drop(facts.send(Fact::Authentic(stays))),
                // The database is not there: the next heartbeat asks again.
                Err(error) => tracing::warn!(%error, "a credential could not be looked up"),
            }
        });
    }

    /// The first heartbeat has come: the Runtime can be asked.
    pub(super) fn enter(&mut self) {
        let (peer, other) = LivePeer::new(
            self.record.device.id,
            self.connection,
            self.offers.clone(),
            self.closed.clone(),
        );
        self.other = Some(other);
        self.gateway.enter(Arc::new(peer));
    }

    pub(super) fn send(&self, fact: Fact) {
        let _ = self.facts.send(fact);
    }

    pub(super) fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Registered(Ok(generation)) => {
                self.generation = self.record.session.map(|_| generation);
                self.command(Command::Welcome);
            }
            Fact::Registered(Err(reason)) => self.command(Command::Close {
                reason,
                retry_after_ms: None,
            }),
            Fact::Authentic(true) => {}
            Fact::Authentic(false) => {
                self.command(Command::Close {
                    reason: CloseReason::Revoked,
                    retry_after_ms: None,
                });
            }
            Fact::Connected {
                id,
                binding,
                stored,
            } => {
                if !stored {
                    // Without the commit nobody may rely on this connection.
                    return self.command(Command::Close {
                        reason: CloseReason::StaleOwner,
                        retry_after_ms: None,
                    });
                }
                if let Some(other) = &self.other {
                    other.bound.send_modify(|bound| {
                        bound.retain(|known| !known.same_authority(&binding));
                        bound.push(binding);
                    });
                }
                if let Some(route) = self.routes.remove(&id) {
                    settle(route, Settled::Receipt(Answer::Ok(Proof::Bound)));
                }
                self.gateway.changed();
            }
        }
    }

    /// Leaves the registry, ends every question, records the end of the connection (C3).
    pub(super) async fn finish(mut self) {
        self.closed.cancel();
        self.gateway.leave(self.record.device.id, self.connection);
        if let Some(mut other) = self.other.take() {
            other.asks.close();
            while let Some(ask) = other.asks.recv().await {
                if let Ask::Request { route, .. } = ask {
                    not_sent(route);
                }
            }
        }
        for (_, route) in self.routes.drain() {
            settle(route, Settled::Lost);
        }
        let (Some(session), Some(generation)) = (self.record.session, self.generation) else {
            return;
        };
        let observe = Observe::Lost {
            generation,
            revision: self.revision + 1,
        };
        // Without the lease this is refused, and the next owner's recovery closes the observation (C5). What is lost otherwise,
        // the scheduler finds: this socket is not here any more.
        if let Err(error) = self
            .gateway
            .settings
            .store
            .write(ObserveConnection { session, observe })
            .await
        {
            tracing::warn!(%session, %error, "the end of a connection could not be recorded");
        }
    }
}
