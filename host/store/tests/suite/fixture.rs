//! A store with a Project, and the steps of a Session's life as one call each.

use std::sync::atomic::{AtomicU64, Ordering};

use berth_store::{
    Acquired, Store, Unit, WriteError,
    configurations::NewConfiguration,
    projects::CreateProject,
    retries::RetryKey,
    testing::{TestDatabase, violations},
    units::{
        allocation::{BeginCreate, RecordAllocation, ReserveAllocation},
        create::{CreateSession, Created},
        device::PutSharedDevice,
        environment::{BeginInit, BindDevice, CompleteInit, ObserveConnection},
        input::AdmitInput,
        reservation::Promote,
        retention::{SweepDeleted, Swept, TrimEvents},
        turn::{AppendRun, ClaimTurn, FinishTurn, SettleRun},
    },
};
use domain::{
    AgentId, BindingId, ConfigurationId, ConnectionId, DeviceId, Digest, OwnerId, ProjectId,
    Refusal, ReservationId, RunId, SessionId, TurnId,
    agent::{AgentConfiguration, AgentPatch},
    allocation::{Allocation, AllocationPhase, Record, Reserve, Reserved},
    configuration::{
        EnvironmentConfiguration, HostedConfiguration, SandboxSize, SessionConfiguration, Source,
    },
    environment::{Observe, Observed},
    input::{Admission, Admit, Batch, ContentRules},
    item::{InputPart, UserMessage},
    json::Opaque,
    lease::Authority,
    lease::Epoch,
    metadata::Metadata,
    projection::Append,
    reservation::{self, Promotion},
    run::{EventBody, ItemBody, RunEvent},
    session::{Connector, NewSession, Placement},
    turn::{Claim, Claimed, Ending, Settled},
};

pub const CANARY: &str = "sk-canary-7f3a";

pub fn id<T: From0>() -> T {
    T::fresh()
}

/// Ids of any kind.
pub trait From0 {
    fn fresh() -> Self;
}

macro_rules! fresh {
    ($($name:ty),*) => {$(impl From0 for $name { fn fresh() -> Self { <$name>::new(uuid::Uuid::new_v4()) } })*};
}
fresh!(
    AgentId,
    BindingId,
    ConfigurationId,
    ConnectionId,
    DeviceId,
    OwnerId,
    ProjectId,
    ReservationId,
    RunId,
    SessionId,
    TurnId,
    domain::KeyId,
    domain::EnvironmentId,
    domain::InputId,
    domain::DeliveryId,
    domain::OperationId,
    domain::FileId,
    domain::SkillId,
    domain::SkillVersionId,
    domain::ContentId,
    domain::VaultId,
    domain::CredentialId,
    domain::TemplateId
);

pub struct Fixture {
    pub store: Store,
    pub project: ProjectId,
}

pub fn message(text: &str) -> UserMessage {
    UserMessage {
        content: vec![InputPart::InputText {
            text: text.to_owned(),
        }],
    }
}

pub fn admit(batch: Batch, key: Option<&str>, body: &str) -> Admit {
    Admit {
        batch,
        key: key.map(str::to_owned),
        digest: Digest::of(body.as_bytes()),
        execution: true,
        content: ContentRules {
            whitespace_only: true,
            message_images: false,
            result_images: false,
        },
    }
}

pub fn configuration(placement: Placement) -> SessionConfiguration {
    let hash = format!("\"{}\"", "0".repeat(64));
    SessionConfiguration {
        agent_id: id(),
        agent_name: None,
        agent: AgentConfiguration::from_patch(AgentPatch::default(), "gpt-test".to_owned()),
        harness: "codex".parse().unwrap(),
        declaration_hash: serde_json::from_str(&hash).unwrap(),
        harness_config: Opaque::empty_object(),
        provider: None,
        provider_source: Source::Session,
        shows_extension: false,
        environment: match placement {
            Placement::None => EnvironmentConfiguration::None,
            _ => EnvironmentConfiguration::OpenaiHosted(HostedConfiguration {
                capability_directories: Vec::new(),
                sandbox_size: SandboxSize::S,
                sandbox_image: "default".to_owned(),
            }),
        },
    }
}

pub fn creation(
    project: ProjectId,
    placement: Placement,
    input: Vec<UserMessage>,
    key: Option<&str>,
) -> CreateSession {
    let body = configuration(placement);
    let new = NewSession {
        id: id(),
        project_id: project,
        agent_id: body.agent_id,
        configuration: id(),
        placement,
        connector: Connector::Daemon,
        metadata: Metadata::default(),
        vault_ids: Vec::new(),
        input,
    };
    CreateSession {
        configuration: NewConfiguration {
            id: new.configuration,
            body,
            provider_key: Some(CANARY.to_owned().into()),
            environment_secrets: None,
        },
        new,
        key: key.map(|key| RetryKey {
            key: key.to_owned(),
            digest: Digest::of(key.as_bytes()),
        }),
        provenance: None,
    }
}

/// A Session with a connected, initialized machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    pub session: SessionId,
    pub binding: BindingId,
    pub binding_epoch: u64,
    pub device: DeviceId,
    pub generation: u64,
}

/// Takes ownership as the next process of the same data folder would (D31).
pub async fn own(store: &Store) {
    let folder = OwnerId::new(uuid::Uuid::from_u128(1));
    let taken = store.acquire_lease(folder, Authority::Folder).await;
    assert!(matches!(taken.unwrap(), Acquired::Held(_)));
}

impl Fixture {
    pub async fn new(db: &TestDatabase) -> Self {
        let store = db.open().await;
        let project = id();
        store
            .write(CreateProject {
                id: project,
                name: "test".to_owned(),
                by: None,
            })
            .await
            .unwrap();
        let fixture = Self { store, project };
        fixture.own().await;
        fixture
    }

    /// The same database after a restart: a new owner that has recovered everything.
    pub async fn again(db: &TestDatabase, project: ProjectId) -> Self {
        let fixture = Self {
            store: db.open().await,
            project,
        };
        fixture.own().await;
        fixture.recover().await;
        fixture
    }

    pub async fn own(&self) {
        own(&self.store).await;
    }

    pub async fn recover(&self) {
        for session in self
            .store
            .read()
            .sessions_to_recover(None, 1000)
            .await
            .unwrap()
        {
            self.store
                .write(berth_store::units::recovery::RecoverSession { session })
                .await
                .unwrap();
        }
        assert!(
            self.store
                .read()
                .sessions_to_recover(None, 1000)
                .await
                .unwrap()
                .is_empty()
        );
    }

    pub async fn write<U: Unit<Refusal = Refusal>>(&self, unit: U) -> U::Answer {
        match self.store.write(unit).await {
            Ok(answer) => answer,
            Err(WriteError::Refused(refusal)) => panic!("{} was refused: {refusal:?}", U::NAME),
            Err(WriteError::Store(error)) => panic!("{} failed: {error:?}", U::NAME),
        }
    }

    pub async fn refused<U: Unit<Refusal = Refusal>>(&self, unit: U) -> Refusal {
        match self.store.write(unit).await {
            Ok(_) => panic!("{} was not refused", U::NAME),
            Err(WriteError::Refused(refusal)) => refusal,
            Err(WriteError::Store(error)) => panic!("{} failed: {error:?}", U::NAME),
        }
    }

    pub async fn create(&self, placement: Placement, input: &[&str]) -> SessionId {
        let input = input.iter().map(|text| message(text)).collect();
        match self
            .write(creation(self.project, placement, input, None))
            .await
        {
            Created::Now { state, .. } => state.session.id,
            Created::Before { .. } => panic!("created before"),
        }
    }

    pub async fn send(&self, session: SessionId, texts: &[&str], key: Option<&str>) -> Admission {
        let batch = Batch::Messages(texts.iter().map(|text| message(text)).collect());
        self.write(AdmitInput {
            project: self.project,
            session,
            admit: admit(batch, key, &texts.join("|")),
            provenance: None,
        })
        .await
    }

    pub async fn cancel(&self, session: SessionId) -> Admission {
        let admit = admit(Batch::Cancel, None, "cancel");
        self.write(AdmitInput {
            project: self.project,
            session,
            admit,
            provenance: None,
        })
        .await
    }

    /// Allocates, boots and connects the machine of a hosted Session; the initialization is complete.
    pub async fn boot(&self, session: SessionId) -> Machine {
        let machine = self.connect(session, self.allocate(session).await).await;
        assert!(
            self.write(BeginInit {
                session,
                generation: machine.generation
            })
            .await
        );
        let Machine {
            binding,
            binding_epoch,
            generation,
            ..
        } = machine;
        assert!(
            self.write(CompleteInit {
                session,
                generation,
                binding,
                binding_epoch
            })
            .await
        );
        machine
    }

    pub async fn allocate(&self, session: SessionId) -> Machine {
        let credential = self.reserve(session).await;
        while self.provision(session).await {}
        let device = self.store.read().device(credential).await.unwrap().unwrap();
        let binding = device.binding.unwrap();
        assert_eq!(device.session, Some(session));
        Machine {
            session,
            binding: binding.id,
            binding_epoch: binding.epoch,
            device: device.device.id,
            generation: 0,
        }
    }

    /// A1. Answers the digest of the credential.
    pub async fn reserve(&self, session: SessionId) -> Digest {
        static CREDENTIALS: AtomicU64 = AtomicU64::new(0);
        let credential = Digest::of(
            format!("{session}{}", CREDENTIALS.fetch_add(1, Ordering::SeqCst)).as_bytes(),
        );
        let reserve = Reserve {
            provider: "local".to_owned(),
            plugin: None,
            generation: 1,
            device_id: id(),
            credential,
        };
        let unit = ReserveAllocation {
            session,
            reserve,
            limit: None,
        };
        assert!(matches!(self.write(unit).await, Reserved::Now(_)));
        credential
    }

    /// One step from `reserved` to `running`; false once there is none.
    pub async fn provision(&self, session: SessionId) -> bool {
        let allocation = self.allocation(session).await.unwrap();
        let revision = allocation.revision;
        match allocation.phase {
            AllocationPhase::Reserved => {
                assert!(
                    self.write(BeginCreate {
                        session,
                        revision,
                        node: None
                    })
                    .await
                )
            }
            AllocationPhase::Creating => {
                let record = Record::Running {
                    native_id: "native".to_owned(),
                    lease_expires_at: None,
                };
                self.write(RecordAllocation {
                    session,
                    revision,
                    record,
                })
                .await;
            }
            _ => return false,
        }
        true
    }

    pub async fn revision(&self, session: SessionId) -> u64 {
        self.allocation(session).await.unwrap().revision
    }

    pub async fn allocation(&self, session: SessionId) -> Option<Allocation> {
        let parts = berth_store::Parts::whole();
        let state = self.store.read().state(session, &parts).await.unwrap();
        state.unwrap().allocation
    }

    pub async fn connect(&self, session: SessionId, machine: Machine) -> Machine {
        let registered = Observe::Registered {
            connection_id: id(),
            key_id: None,
        };
        let Observed::Stored(seen) = self
            .write(ObserveConnection {
                session,
                observe: registered,
            })
            .await
        else {
            panic!("not registered")
        };
        let connected = Observe::Connected {
            generation: seen.generation,
            revision: seen.revision + 1,
        };
        assert!(matches!(
            self.write(ObserveConnection {
                session,
                observe: connected
            })
            .await,
            Observed::Stored(_)
        ));
        Machine {
            generation: seen.generation,
            ..machine
        }
    }

    /// Binds a `none` Session to the shared Runtime.
    pub async fn bind(&self, session: SessionId) -> Machine {
        let device = DeviceId::new(uuid::Uuid::from_u128(7));
        let shared = PutSharedDevice {
            device,
            credential: Digest::of(b"shared"),
        };
        self.store.write(shared).await.unwrap();
        let binding = self.write(BindDevice { session, device }).await.unwrap();
        Machine {
            session,
            binding: binding.id,
            binding_epoch: binding.epoch,
            device,
            generation: 0,
        }
    }

    pub fn claim(machine: Machine) -> Claim {
        Claim {
            run_id: id(),
            owner_epoch: Epoch(0),
            binding_id: machine.binding,
            binding_epoch: machine.binding_epoch,
            device_id: machine.device,
        }
    }

    pub async fn pending(&self, session: SessionId) -> ReservationId {
        let inputs = self.store.read().pending_inputs(None, 100).await.unwrap();
        inputs
            .into_iter()
            .find(|input| input.session == session)
            .expect("input waits")
            .reservation
    }

    /// Promotes the pending reservation.
    pub async fn promote(&self, machine: Machine) -> (TurnId, RunId) {
        let claim = Self::claim(machine);
        let reservation_id = self.pending(machine.session).await;
        let promote = reservation::Promote {
            reservation_id,
            claim,
            generation: machine.generation,
        };
        match self
            .write(Promote {
                session: machine.session,
                promote,
            })
            .await
        {
            Promotion::Claimed { turn_id } => (turn_id, claim.run_id),
            other => panic!("{other:?}"),
        }
    }

    /// Claims the queued Turn of a `none` Session.
    pub async fn claim_queued(&self, machine: Machine) -> RunId {
        let claim = Self::claim(machine);
        let queued = self.store.read().queued_turns(None, 100).await.unwrap();
        let turn = queued
            .into_iter()
            .find(|turn| turn.session == machine.session)
            .expect("a queued Turn")
            .turn;
        assert_eq!(
            self.write(ClaimTurn {
                session: machine.session,
                turn,
                claim
            })
            .await,
            Claimed::Now
        );
        claim.run_id
    }

    pub async fn append(
        &self,
        session: SessionId,
        run_id: RunId,
        first_seq: u64,
        events: Vec<RunEvent>,
    ) {
        let last = first_seq + events.len() as u64 - 1;
        let appended = self
            .write(AppendRun {
                session,
                append: Append {
                    run_id,
                    first_seq,
                    events,
                },
            })
            .await;
        assert_eq!((appended.through, appended.gap), (last, None));
    }

    /// The Run ends well and its outputs, none, are captured.
    pub async fn complete(&self, session: SessionId, run: RunId) {
        if self.write(SettleRun { session, run }).await == Settled::Capture {
            let unit = FinishTurn {
                session,
                run,
                ending: Ending::Completed,
                captured: Vec::new(),
            };
            assert!(matches!(self.write(unit).await, Settled::Ended(_)));
        }
    }

    /// Purges what may be purged, to its end. Answers which Sessions are gone.
    pub async fn sweep(&self) -> Vec<SessionId> {
        let mut gone = Vec::new();
        for due in self
            .store
            .read()
            .sessions_to_purge(None, 100)
            .await
            .unwrap()
        {
            let session = due.session;
            loop {
                match self.store.write(SweepDeleted { session }).await.unwrap() {
                    Swept::Part => {}
                    Swept::Kept => break,
                    Swept::Whole => {
                        gone.push(session);
                        break;
                    }
                }
            }
        }
        gone
    }

    /// Trims the deltas of every Session that is worth it; how many are.
    pub async fn trim(&self) -> usize {
        let due = self.store.read().sessions_to_trim(None, 100).await.unwrap();
        for session in due.iter().copied() {
            while self.store.write(TrimEvents { session }).await.unwrap() == Swept::Part {}
        }
        due.len()
    }

    pub async fn check(&self, quiescent: bool) {
        let found = violations(&self.store, quiescent).await.unwrap();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    pub async fn status(&self, session: SessionId) -> String {
        let record = self
            .store
            .read()
            .session(self.project, session)
            .await
            .unwrap()
            .expect("the Session lives");
        format!("{:?}", domain::session::project(&record.state).status)
    }

    pub async fn events(&self, session: SessionId) -> Vec<String> {
        let (mut after, mut types) = (0, Vec::new());
        loop {
            let page = self
                .store
                .read()
                .events_after(session, after)
                .await
                .unwrap();
            let Some(last) = page.last() else {
                return types;
            };
            after = last.number;
            types.extend(page.iter().map(|event| {
                event
                    .payload
                    .public_type()
                    .trim_start_matches("agent.session.")
                    .to_owned()
            }));
        }
    }
}

/// Events of an assistant's answer in two pieces.
pub fn answer(key: &str) -> Vec<RunEvent> {
    use domain::run::{Delta, DeltaKind, Item, ItemEnd, ItemStatus, Message, Usage};
    let item = |text: &str| Item {
        key: key.to_owned(),
        body: ItemBody::Message(Message {
            text: text.to_owned(),
            phase: None,
        }),
    };
    let delta = |text: &str| {
        EventBody::Delta(Delta {
            key: key.to_owned(),
            kind: DeltaKind::Text,
            index: 0,
            text: text.to_owned(),
        })
    };
    let usage = Usage {
        input: 10,
        cached: Some(2),
        output: 5,
        reasoning: Some(1),
        total: Some(15),
    };
    [
        EventBody::ItemStarted(item("")),
        delta("Hel"),
        delta("lo"),
        EventBody::ItemEnded(ItemEnd {
            item: item("Hello"),
            status: ItemStatus::Completed,
        }),
        EventBody::Usage(usage),
    ]
    .into_iter()
    .map(RunEvent::root)
    .collect()
}
