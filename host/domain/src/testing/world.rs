//! One Session and everybody who acts on it, with a counter for ids and a clock that the test turns.

use std::time::Duration;

use uuid::Uuid;

use super::{Model, invariants};
use crate::allocation::{self, Capacity, Record, Reserve};
use crate::artifact::Captured;
use crate::binding::{self, Device};
use crate::call::{CallId, FunctionResult, ResultOutput};
use crate::changes::{Context, Decided, Write};
use crate::environment::{self, BeginInit, CompleteInit, FailureReason, Observe, Observed};
use crate::event::EventPayload;
use crate::input::{self, Admission, Admit, Batch, ContentRules, Delivery, ResultInput};
use crate::item::{InputPart, UserMessage};
use crate::lease::Epoch;
use crate::metadata::Metadata;
use crate::projection::{self, Append, Appended};
use crate::reservation::{self, Promote, Promotion};
use crate::run::{self, EventBody, RunEvent};
use crate::session::{self, Archived, Connector, Deleted, NewSession, Placement};
use crate::turn::{self, ApplyResult, Claim, Claimed, ConfirmInput, Ending, Settled};
use crate::{
    AgentId, BindingId, ConfigurationId, ConnectionId, DeliveryId, DeviceId, Digest, ProjectId,
    Refusal, RunId, SessionId, SessionState, Timestamp,
};

/// A user message of one text.
pub(crate) fn message(text: &str) -> UserMessage {
    UserMessage {
        content: vec![InputPart::InputText { text: text.into() }],
    }
}

/// A successful result.
pub(crate) fn result(turn_id: Option<crate::TurnId>, call: &str, output: &str) -> ResultInput {
    let result = FunctionResult {
        success: true,
        output: Some(ResultOutput::Text(output.into())),
        error: None,
    };
    let digest = Digest::of(output.as_bytes());
    ResultInput {
        turn_id,
        call_id: CallId(call.into()),
        result,
        digest,
    }
}

/// One Session in the making.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub model: Model,
    pub now: Timestamp,
    ids: u128,
    /// Lease epoch of the worker.
    pub epoch: Epoch,
    /// Revision of the last connection observation.
    revision: u64,
}

impl World {
    /// A Session of this placement, created with these messages.
    pub fn created(placement: Placement, texts: &[&str]) -> Self {
        let mut world = Self::empty();
        let input = texts.iter().map(|text| message(text)).collect();
        let new = world.new_session(placement, input);
        let decided = world
            .with(|cx| session::create(new, cx))
            .expect("a valid creation");
        world.commit(decided);
        world
    }

    pub fn empty() -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        Self {
            model: Model::default(),
            now,
            ids: 0,
            epoch: Epoch(1),
            revision: 0,
        }
    }

    pub fn new_session(&mut self, placement: Placement, input: Vec<UserMessage>) -> NewSession {
        NewSession {
            id: SessionId::new(self.uuid()),
            project_id: ProjectId::new(self.uuid()),
            agent_id: AgentId::new(self.uuid()),
            configuration: ConfigurationId::new(self.uuid()),
            placement,
            connector: Connector::Daemon,
            metadata: Metadata::default(),
            vault_ids: Vec::new(),
            input,
        }
    }

    pub fn uuid(&mut self) -> Uuid {
        self.ids += 1;
        Uuid::from_u128(self.ids)
    }

    /// Runs a decision with the world's clock and ids.
    pub fn with<T>(&mut self, decide: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let ids = &mut self.ids;
        let mut next = || {
            *ids += 1;
            Uuid::from_u128(*ids)
        };
        decide(&mut Context {
            now: self.now,
            ids: &mut next,
        })
    }

    /// Applies a decision and checks every invariant.
    pub fn commit<A>(&mut self, decided: Decided<A>) -> A {
        let before = self.model.clone();
        self.model.apply(decided.changes);
        invariants::check(&before, &self.model);
        decided.answer
    }

    fn unit<A>(
        &mut self,
        decide: impl FnOnce(&SessionState, &mut Context<'_>) -> Result<Decided<A>, Refusal>,
    ) -> Result<A, Refusal> {
        let state = self.state();
        let decided = self.with(|cx| decide(&state, cx))?;
        Ok(self.commit(decided))
    }

    fn sure<A>(
        &mut self,
        decide: impl FnOnce(&SessionState, &mut Context<'_>) -> Result<Decided<A>, Refusal>,
    ) -> A {
        self.unit(decide).expect("a decision that refuses nothing")
    }

    pub fn state(&self) -> SessionState {
        self.model.load(None)
    }

    pub fn advance(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    /// The public `type`s of the events since the `from`-th.
    pub fn types(&self, from: usize) -> Vec<&'static str> {
        let short = |event: &EventPayload| event.public_type().trim_start_matches("agent.session.");
        self.model.events.iter().skip(from).map(short).collect()
    }

    /// Runs `act` and gives the short event types that it caused.
    pub fn during<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> (T, Vec<&'static str>) {
        let from = self.model.events.len();
        let answer = act(self);
        (answer, self.types(from))
    }

    // Clients

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

    // The machine

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
        let reserve = Reserve {
            provider: "local".into(),
            generation: 1,
            node: None,
            device_id: DeviceId::new(self.uuid()),
            credential: Digest::of(b"device"),
        };
        let capacity = Capacity {
            used: 0,
            limit: Some(limit),
        };
        self.sure(|state, cx| allocation::reserve(state, capacity, reserve, cx))
            .is_some()
    }

    pub fn begin_create(&mut self) -> bool {
        let revision = self.allocation_revision();
        self.sure(|state, cx| allocation::begin_create(state, revision, cx))
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

    // The worker

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

    // Shortcuts to a state

    /// A workspace Session that is connected and initialized.
    pub fn ready(placement: Placement, texts: &[&str]) -> Self {
        let mut world = Self::created(placement, texts);
        world.bind();
        if placement == Placement::OpenaiHosted {
            world.begin_create();
            world.record(Record::Running {
                native_id: "m-1".into(),
                lease_expires_at: None,
            });
        }
        world.connect();
        assert!(world.begin_init() && world.complete_init());
        world
    }

    /// A Session with a claimed Turn.
    pub fn running(placement: Placement) -> Self {
        if placement == Placement::None {
            let mut world = Self::created(placement, &["hello"]);
            world.bind();
            assert_eq!(world.claim(), Claimed::Now);
            return world;
        }
        let mut world = Self::ready(placement, &["hello"]);
        assert!(matches!(world.promote(), Promotion::Claimed { .. }));
        world
    }
}
