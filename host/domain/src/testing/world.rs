//! One Session and everybody who acts on it, with a counter for ids and a clock that the test turns.

use std::time::Duration;

use uuid::Uuid;

use super::{Model, invariants};
use crate::allocation::Record;
use crate::call::{CallId, FunctionResult, ResultOutput};
use crate::changes::{Context, Decided};
use crate::event::EventPayload;
use crate::input::ResultInput;
use crate::item::{InputPart, UserMessage};
use crate::lease::Epoch;
use crate::metadata::Metadata;
use crate::reservation::Promotion;
use crate::session::{self, Connector, NewSession, Placement};
use crate::turn::Claimed;
use crate::{
    AgentId, ConfigurationId, Digest, ProjectId, Refusal, SessionId, SessionState, Timestamp,
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
    pub(super) revision: u64,
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

    pub(super) fn unit<A>(
        &mut self,
        decide: impl FnOnce(&SessionState, &mut Context<'_>) -> Result<Decided<A>, Refusal>,
    ) -> Result<A, Refusal> {
        let state = self.state();
        let decided = self.with(|cx| decide(&state, cx))?;
        Ok(self.commit(decided))
    }

    pub(super) fn sure<A>(
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
