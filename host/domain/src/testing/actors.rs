//! What everybody does to the Session of a [`World`]: clients, the machine, the worker.

use super::World;
use crate::allocation::{self, Capacity, Record, Reserve};
use crate::artifact::Captured;
use crate::binding::{self, Device};
use crate::changes::Write;
use crate::environment::{self, BeginInit, CompleteInit, FailureReason, Observe, Observed};
use crate::input::{self, Admission, Admit, Batch, ContentRules, Delivery};
use crate::projection::{self, Append, Appended};
use crate::reservation::{self, Promote, Promotion};
use crate::run::{self, EventBody, RunEvent};
use crate::session::{self, Archived, Deleted, Placement};
use crate::turn::{self, ApplyResult, Claim, Claimed, ConfirmInput, Ending, Settled};
use crate::{BindingId, ConnectionId, DeliveryId, DeviceId, Digest, Refusal, RunId};

use super::world::{message, result};

/// Clients.
impl World {
    pub fn admit(&mut self, batch: Batch, key: Option<&str>) -> Result<Admission, Refusal> {
        let digest = Digest::of(format!("{batch:?}").as_bytes());
        let content = ContentRules {
            whitespace_only: false,
            message_images: false,
            result_images: false,
        };
        let admit = Admit {
            batch,
            key: key.map(str::to_owned),
            digest,
            execution: true,
            content,
        };
        let state = self.model.load(key);
        let decided = self.with(|cx| input::admit(&state, admit, cx))?;
        Ok(self.commit(decided))
    }

    pub fn say(&mut self, text: &str) -> Result<Admission, Refusal> {
        self.admit(Batch::Messages(vec![message(text)]), None)
    }

    pub fn cancel(&mut self) -> Result<Admission, Refusal> {
        self.admit(Batch::Cancel, None)
    }

    pub fn answer(&mut self, call: &str, output: &str) -> Result<Admission, Refusal> {
        let turn_id = self.model.newest_turn().map(|turn| turn.id);
        self.admit(Batch::Results(vec![result(turn_id, call, output)]), None)
    }

    pub fn delete(&mut self) -> Result<Deleted, Refusal> {
        self.unit(session::delete)
    }

    pub fn archive(&mut self) -> Result<Archived, Refusal> {
        self.unit(session::archive)
    }
}

/// The machine.
impl World {
    /// Binds a device: by choice on `none`, by enrollment on self-hosted.
    pub fn bind(&mut self) {
        let device_id = DeviceId::new(self.uuid());
        match self.state().session.placement {
            Placement::None => {
                self.sure(|state, cx| binding::choose(state, device_id, cx));
            }
            Placement::SelfHosted if self.model.binding.is_none() => {
                let environment_id = self.model.environment.as_ref().map(|row| row.id);
                let binding = binding::Binding {
                    id: BindingId::new(self.uuid()),
                    session_id: self.state().session.id,
                    environment_id,
                    device_id,
                    epoch: 1,
                    release: None,
                };
                let device = Device {
                    id: device_id,
                    environment_id,
                    credential: Digest::of(b"key"),
                    revoked_at: None,
                };
                self.model.apply(crate::Changes {
                    writes: vec![Write::PutDevice(device), Write::PutBinding(binding)],
                    ..Default::default()
                });
            }
            Placement::SelfHosted => {}
            Placement::OpenaiHosted => {
                self.allocate(u32::MAX);
            }
        }
    }

    pub fn allocate(&mut self, limit: u32) -> bool {
        matches!(self.reserve(limit), allocation::Reserved::Now(_))
    }

    pub fn reserve(&mut self, limit: u32) -> allocation::Reserved {
        let reserve = Reserve {
            provider: "local".into(),
            plugin: None,
            generation: 1,
            device_id: DeviceId::new(self.uuid()),
            credential: Digest::of(b"device"),
        };
        let capacity = Capacity {
            used: 0,
            limit: Some(limit),
        };
        self.sure(|state, cx| allocation::reserve(state, capacity, reserve, cx))
    }

    pub fn begin_create(&mut self) -> bool {
        let revision = self.allocation_revision();
        self.sure(|state, cx| allocation::begin_create(state, revision, None, cx))
    }

    pub fn record(&mut self, record: Record) -> bool {
        let revision = self.allocation_revision();
        let answer = self.sure(|state, cx| allocation::record(state, revision, record, cx));
        answer != allocation::Recorded::Inert
    }

    pub fn allocation_revision(&self) -> u64 {
        self.model.allocation.as_ref().map_or(0, |row| row.revision)
    }

    pub fn release_allocation(&mut self) -> bool {
        self.sure(allocation::release)
    }

    pub fn released(&mut self) -> bool {
        let revision = self.allocation_revision();
        self.sure(|state, _| allocation::released(state, revision))
    }

    pub fn generation(&self) -> u64 {
        self.model
            .environment
            .as_ref()
            .map_or(0, |row| row.observation.generation)
    }

    pub fn observe(&mut self, observe: Observe) -> bool {
        self.sure(|state, cx| environment::observe(state, observe, cx)) != Observed::Inert
    }

    pub fn register(&mut self) -> bool {
        let connection_id = ConnectionId::new(self.uuid());
        self.observe(Observe::Registered {
            connection_id,
            key_id: None,
        })
    }

    pub fn connected(&mut self) -> bool {
        self.revision += 1;
        self.observe(Observe::Connected {
            generation: self.generation(),
            revision: self.revision,
        })
    }

    pub fn lost(&mut self) -> bool {
        self.revision += 1;
        self.observe(Observe::Lost {
            generation: self.generation(),
            revision: self.revision,
        })
    }

    /// A daemon that dials, declares and is bound.
    pub fn connect(&mut self) {
        self.register();
        self.connected();
    }
}

/// The worker.
impl World {
    pub fn begin_init(&mut self) -> bool {
        let begin = BeginInit {
            owner_epoch: self.epoch,
            generation: self.generation(),
        };
        self.sure(|state, cx| environment::begin_init(state, begin, cx))
    }

    pub fn complete_init(&mut self) -> bool {
        let (binding_id, binding_epoch) = self.binding();
        let complete = CompleteInit {
            owner_epoch: self.epoch,
            generation: self.generation(),
            binding_id,
            binding_epoch,
        };
        self.sure(|state, cx| environment::complete_init(state, complete, cx))
    }

    pub fn fail_environment(&mut self, reason: FailureReason) -> bool {
        self.sure(|state, cx| environment::fail(state, reason, cx))
    }

    fn binding(&self) -> (BindingId, u64) {
        self.model
            .binding
            .as_ref()
            .map_or((BindingId::NEVER, 0), |row| (row.id, row.epoch))
    }

    pub fn fresh_claim(&mut self) -> Claim {
        let (binding_id, binding_epoch) = self.binding();
        let device_id = self
            .model
            .binding
            .as_ref()
            .map_or(DeviceId::NEVER, |row| row.device_id);
        Claim {
            run_id: RunId::new(self.uuid()),
            owner_epoch: self.epoch,
            binding_id,
            binding_epoch,
            device_id,
        }
    }

    pub fn promote_as(&mut self, change: impl FnOnce(&mut Promote)) -> Promotion {
        let reservation = self.state().reservation.expect("a reservation");
        let mut promote = Promote {
            reservation_id: reservation.id,
            claim: self.fresh_claim(),
            generation: self.generation(),
        };
        change(&mut promote);
        self.sure(|state, cx| reservation::promote(state, promote, cx))
    }

    pub fn promote(&mut self) -> Promotion {
        self.promote_as(|_| {})
    }

    pub fn claim(&mut self) -> Claimed {
        let turn_id = self
            .model
            .newest_turn()
            .map_or(crate::TurnId::NEVER, |turn| turn.id);
        let claim = self.fresh_claim();
        self.sure(|state, cx| turn::claim(state, turn_id, claim, cx))
    }

    pub fn fail_queued(&mut self) -> bool {
        let turn_id = self
            .model
            .newest_turn()
            .map_or(crate::TurnId::NEVER, |turn| turn.id);
        self.sure(|state, cx| turn::fail_queued(state, turn_id, cx))
    }

    pub fn expire(&mut self) -> bool {
        let id = self
            .state()
            .reservation
            .map_or(crate::ReservationId::NEVER, |row| row.id);
        self.sure(|state, cx| reservation::expire(state, id, cx))
    }

    pub fn fail_reservation(&mut self) -> bool {
        let id = self
            .state()
            .reservation
            .map_or(crate::ReservationId::NEVER, |row| row.id);
        self.sure(|state, cx| reservation::fail(state, id, cx))
    }

    pub fn run_id(&self) -> RunId {
        self.model
            .newest_turn()
            .and_then(|turn| turn.claim())
            .map_or(RunId::NEVER, |claim| claim.run_id)
    }

    pub fn append_all(&mut self, bodies: Vec<EventBody>) -> Appended {
        let first_seq = self.model.newest_turn().map_or(0, |turn| turn.run_seq) + 1;
        let events = bodies.into_iter().map(RunEvent::root).collect();
        let append = Append {
            run_id: self.run_id(),
            first_seq,
            events,
        };
        self.sure(|state, cx| projection::apply(state, append, cx))
    }

    pub fn append(&mut self, body: EventBody) -> Appended {
        self.append_all(vec![body])
    }

    pub fn call(&mut self, call: &str) -> Appended {
        let body = run::ItemBody::FunctionCall(run::FunctionCall {
            call: call.into(),
            name: "lookup".into(),
            arguments: "{}".into(),
        });
        self.append(EventBody::ItemStarted(run::Item {
            key: format!("call-{call}"),
            body,
        }))
    }

    /// The harness confirms every message that was not confirmed.
    pub fn accept_inputs(&mut self) {
        let turn_id = self.model.newest_turn().map(|turn| turn.id);
        let open: Vec<_> = self
            .model
            .inputs
            .values()
            .filter(|row| Some(row.turn_id) == turn_id)
            .map(|row| row.id)
            .collect();
        for input_id in open {
            self.confirm(input_id, Delivery::Accepted);
        }
    }

    pub fn confirm(&mut self, input_id: crate::InputId, delivery: Delivery) -> bool {
        let confirm = ConfirmInput {
            run_id: self.run_id(),
            input_id,
            delivery,
        };
        self.sure(|state, _| turn::input_settled(state, confirm))
    }

    /// The delivery of the answer of this call.
    pub fn delivery(&self, call: &str) -> DeliveryId {
        let call = self.model.calls.values().find(|row| row.call_id.0 == call);
        call.and_then(|row| row.state.answer())
            .map_or(DeliveryId::NEVER, |answer| answer.delivery_id)
    }

    pub fn applied(&mut self, call: &str) -> bool {
        let apply = ApplyResult {
            run_id: self.run_id(),
            delivery_id: self.delivery(call),
        };
        self.sure(|state, cx| turn::result_applied(state, apply, cx))
    }

    pub fn settle(&mut self) -> Settled {
        let run_id = self.run_id();
        self.sure(|state, cx| turn::settle(state, run_id, cx))
    }

    pub fn finish(&mut self, ending: Ending) -> Settled {
        self.finish_with(ending, Captured::default())
    }

    pub fn finish_with(&mut self, ending: Ending, captured: Captured) -> Settled {
        let run_id = self.run_id();
        self.sure(|state, cx| turn::finish(state, run_id, ending, captured, cx))
    }

    pub fn interrupt(&mut self) -> bool {
        self.sure(turn::interrupt)
    }
}
