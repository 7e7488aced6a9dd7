//! A scheduler on a fresh database, with one shared Runtime or none.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use blobs::Blobs;
use domain::allocation::{Reserve, Reserved};
use domain::environment::Observe;
use domain::lease::Authority;
use domain::run::Binding;
use domain::{DeviceId, Digest, OwnerId, SessionId, SessionState};
use machine::sandbox::Sandboxes;
use serde_json::Value;
use store::metrics::{UnitOutcome, WriteObserver};
use store::testing::TestDatabase;
use store::units::allocation::ReserveAllocation;
use store::units::device::PutSharedDevice;
use store::units::environment::ObserveConnection;
use store::{Acquired, Dialect, LeaseToken, Parts as Whole, Store};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::runtime::{Connections, Heard, Run, Runtime, SOON};
use crate::api::tests::fixture::Fixture;
use crate::deployment::{Deployment, Parts};
use crate::http::accept::Answer as _;
use crate::issuers::{IssuerSettings, Issuers};
use crate::peer::{Answer, Peer, Peers};
use crate::plugins::Shelf;
use crate::provider_memory::Records;
use crate::scheduler::authorize::Authorizer;
use crate::scheduler::slots::Slots;
use crate::scheduler::{EngineHost, EngineHostSettings, Scheduler, SchedulerSettings, Shared, run};

/// How often each unit ended how.
#[derive(Debug, Default)]
pub(super) struct Units(Mutex<HashMap<(&'static str, UnitOutcome), u32>>);

impl Units {
    pub(super) fn count(&self, name: &'static str, outcome: UnitOutcome) -> u32 {
        let counts = self.0.lock().unwrap();
        counts.get(&(name, outcome)).copied().unwrap_or(0)
    }
}

impl WriteObserver for Units {
    fn unit(&self, name: &'static str, outcome: UnitOutcome, _: Duration) {
        *self.0.lock().unwrap().entry((name, outcome)).or_default() += 1;
    }

    fn commit(&self, _: usize, _: bool, _: Duration) {}
}

pub(super) struct Scene {
    pub(super) api: Fixture,
    pub(super) units: Arc<Units>,
    pub(super) heard: mpsc::UnboundedReceiver<Heard>,
    pub(super) device: DeviceId,
    pub(super) token: LeaseToken,
    heard_in: mpsc::UnboundedSender<Heard>,
    peers: Arc<Connections>,
    owner: OwnerId,
    deployment: Arc<Deployment>,
    pub(super) stop: CancellationToken,
}

/// No plugin is linked here, so nothing is hosted.
pub(super) async fn deployment(api: &Fixture, hosts: Arc<AtomicBool>) -> Deployment {
    let (store, folder) = (&api.core.store, api.folder.path());
    let parts = Parts {
        store: store.clone(),
        plugins: Arc::new(Shelf::new(
            plugin_host::Plugins::built_in().unwrap(),
            plugin_host::Settings::default(),
        )),
        sandboxes: Arc::new(Sandboxes::new(machine::sandbox::Settings::new(
            folder.join("sessions"),
            "/nonexistent",
            folder.join("harnesses"),
        ))),
        memory: Arc::new(Records::new(store.clone())),
        installation: store.installation(),
        core_url: "http://127.0.0.1:9/".to_owned(),
        program: "/nonexistent".into(),
        check_every: Duration::from_millis(20),
    };
    Deployment::open(parts, hosts).await.unwrap()
}

impl Scene {
    /// The store, the lease, and the shared Runtime, if it is connected; no scheduler runs.
    pub(super) async fn on(database: TestDatabase, connected: bool) -> Self {
        let units = Arc::new(Units::default());
        let mut settings = database.settings();
        settings.observer = Some(units.clone());
        let store = Store::open(settings).await.unwrap();
        let api = Fixture::with(database, store).await;
        api.default_model().await;
        let store = &api.core.store;
        let owner = OwnerId::new(Uuid::new_v4());
        let Ok(Acquired::Held(token)) = store.acquire_lease(owner, Authority::Folder).await else {
            panic!("the lease of a fresh database is free");
        };
        let device = DeviceId::new(store.installation().uuid());
        let credential = Digest::of(b"runtime");
        store
            .write(PutSharedDevice { device, credential })
            .await
            .unwrap();
        let deployment = deployment(&api, Arc::default()).await;
        let (heard_in, heard) = mpsc::unbounded_channel();
        let runtime = connected.then(|| Arc::new(Runtime::new(device, heard_in.clone())));
        Self {
            units,
            heard,
            device,
            token,
            heard_in,
            peers: Arc::new(Connections {
                runtimes: Mutex::new(runtime.into_iter().collect()),
                changes: watch::channel(0).0,
            }),
            owner,
            deployment: Arc::new(deployment),
            stop: CancellationToken::new(),
            api,
        }
    }

    /// The shared Runtime, which is connected.
    pub(super) fn runtime(&self) -> Arc<Runtime> {
        let runtimes = self.peers.runtimes.lock().unwrap();
        runtimes.first().cloned().expect("a Runtime")
    }

    fn folder(&self) -> &Path {
        self.api.folder.path()
    }

    fn engine_host(&self) -> Arc<EngineHost> {
        let store = &self.api.core.store;
        let settings = EngineHostSettings {
            home: self.folder().join("engine-host"),
            program: "/nonexistent".into(),
            args: Vec::new(),
            installation: store.installation(),
            device: self.device,
            core_url: "http://127.0.0.1:9".to_owned(),
        };
        let peers = self.peers.clone();
        Arc::new(EngineHost::new(
            settings,
            store.clone(),
            peers,
            self.stop.clone(),
        ))
    }

    fn blobs(&self) -> Blobs {
        let keys = self.api.core.store.keys().clone();
        Blobs::on_disk(&self.folder().join("outputs"), keys).unwrap()
    }

    /// Runs a whole scheduler.
    pub(super) fn run(&self, concurrency: u16) -> JoinHandle<()> {
        let store = self.api.core.store.clone();
        let scheduler = Scheduler {
            peers: self.peers.clone(),
            blobs: self.blobs(),
            deployment: self.deployment.clone(),
            engine_host: self.engine_host(),
            issuers: Issuers::new(&IssuerSettings::default()).unwrap(),
            settings: SchedulerSettings {
                concurrency,
                owner: self.owner,
                node: None,
                drain: Duration::from_secs(1),
                write_audit_retention: Duration::from_secs(3600),
                installation: store.installation(),
                runtime_url: "http://127.0.0.1:9/".parse().unwrap(),
            },
            store,
        };
        tokio::spawn(run(scheduler, watch::channel(None).0, self.stop.clone()))
    }

    /// What the tasks of an ownership share, for a test that runs one of them alone.
    pub(super) fn shared(&self) -> Arc<Shared> {
        let store = self.api.core.store.clone();
        let peers: Arc<dyn Peers> = self.peers.clone();
        Arc::new(Shared {
            peers,
            blobs: self.blobs(),
            deployment: self.deployment.clone(),
            engine_host: self.engine_host(),
            installation: store.installation(),
            node: None,
            write_audit_retention: Duration::from_secs(3600),
            runtime_url: "http://127.0.0.1:9/".parse().unwrap(),
            stop: self.stop.clone(),
            draining: CancellationToken::new(),
            authorizer: Authorizer::new(Issuers::new(&IssuerSettings::default()).unwrap()),
            slots: Slots::new(4),
            initializing: Slots::new(4),
            scan: Default::default(),
            initialize: Default::default(),
            allocate: Default::default(),
            connect: Default::default(),
            store,
        })
    }

    /// Makes a Session without an Environment and returns its path.
    pub(super) async fn session(&self, input: &str) -> String {
        let body = format!(r#"{{"environment":{{"type":"none"}},"input":"{input}"}}"#);
        let id = self.api.session(&body).await;
        format!("/v1/agents/sessions/{id}")
    }

    /// Makes a hosted Session whose machine was seen connected and bound, and its Runtime, which is not among the connections.
    pub(super) async fn hosted(&self) -> (SessionId, Arc<Runtime>) {
        let store = &self.api.core.store;
        let session = self
            .api
            .session(r#"{"environment":{"type":"openai_hosted"}}"#);
        let session: SessionId = session.await.parse().unwrap();
        let device = DeviceId::new(Uuid::new_v4());
        let reserve = Reserve {
            provider: "scripted".into(),
            plugin: None,
            generation: 1,
            device_id: device,
            credential: Digest::of(device.to_string().as_bytes()),
        };
        let unit = ReserveAllocation {
            session,
            reserve,
            limit: None,
        };
        assert!(matches!(store.write(unit).await, Ok(Reserved::Now(_))));
        let runtime = Arc::new(Runtime::new(device, self.heard_in.clone()));
        let registered = Observe::Registered {
            connection_id: runtime.connection(),
            key_id: None,
        };
        let connected = Observe::Connected {
            generation: 1,
            revision: 1,
        };
        for observe in [registered, connected] {
            let unit = ObserveConnection { session, observe };
            store.write(unit).await.unwrap();
        }
        let binding = self.state(session).await.binding.unwrap();
        let authority = Binding {
            session,
            environment: binding.environment_id,
            id: binding.id,
            epoch: binding.epoch,
        };
        let bound = runtime.bind(authority, "test".parse().unwrap(), None);
        assert_eq!(bound.await, Answer::Done(()));
        (session, runtime)
    }

    /// Its connection is here.
    pub(super) fn connect(&self, runtime: &Arc<Runtime>) {
        self.peers.runtimes.lock().unwrap().push(runtime.clone());
        self.change();
    }

    /// Something changed about connections.
    pub(super) fn change(&self) {
        self.peers.changes.send_modify(|count| *count += 1);
    }

    pub(super) async fn state(&self, session: SessionId) -> SessionState {
        let reader = self.api.core.store.read();
        let state = reader.state(session, &Whole::whole()).await.unwrap();
        state.expect("a Session")
    }

    /// Waits until a Session is in such a state.
    pub(super) async fn until(&self, session: SessionId, holds: impl Fn(&SessionState) -> bool) {
        let reached = async {
            while !holds(&self.state(session).await) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, reached).await.expect("the state is reached");
    }

    /// Sends one event, again while the database is away.
    pub(super) async fn send(&self, path: &str, event: &str) {
        let sent = async {
            let body = format!(r#"{{"events":[{event}]}}"#);
            loop {
                let answer = self.api.post(&format!("{path}/events"), &body).await;
                if answer.status == 202 {
                    return;
                }
                assert!(answer.status >= 500, "{}", answer.body);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(SOON, sent).await.expect("the event is taken");
    }

    pub(super) async fn say(&self, path: &str, text: &str) {
        self.send(path, &format!(r#"{{"type":"agent.session.input.message","input":[{{"role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}]}}"#)).await;
    }

    /// Says something that waits for its Turn.
    pub(super) fn saying(&self, path: &str, text: &str) -> JoinHandle<()> {
        let (api, key) = (self.api.api.clone(), self.api.key.clone());
        let path = format!("{path}/events");
        let body = format!(
            r#"{{"events":[{{"type":"agent.session.input.message","input":[{{"role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}]}}]}}"#
        );
        tokio::spawn(async move {
            let request = Request::post(path)
                .header("openai-beta", "agents=v1")
                .header("authorization", format!("Bearer {key}"))
                .header("content-type", "application/json")
                .body(Body::from(body));
            let answer = api.answer(request.unwrap()).await;
            assert_eq!(answer.status(), 202);
        })
    }

    pub(super) async fn cancel(&self, path: &str) {
        self.send(path, r#"{"type":"agent.session.input.cancel"}"#)
            .await;
    }

    /// The newest Turn.
    pub(super) async fn turn(&self, path: &str) -> Value {
        self.api.get(&format!("{path}/turns")).await.json()["data"][0].clone()
    }

    pub(super) async fn until_turn(&self, path: &str, status: &str) {
        let last = Mutex::new(Value::Null);
        let reached = async {
            loop {
                let turn = self.turn(path).await;
                if turn["status"] == status {
                    return;
                }
                *last.lock().unwrap() = turn;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(SOON, reached).await.is_err() {
            panic!("never {status}: {}", last.lock().unwrap());
        }
    }

    /// The next thing that the Runtime is told and the test wants to hear.
    pub(super) async fn hear<T>(&mut self, mut wanted: impl FnMut(Heard) -> Option<T>) -> T {
        let heard = async {
            loop {
                if let Some(found) = wanted(self.heard.recv().await.expect("a Runtime")) {
                    return found;
                }
            }
        };
        timeout(SOON, heard).await.expect("it is heard")
    }

    pub(super) async fn started(&mut self) -> Run {
        self.hear(|heard| match heard {
            Heard::Start(run) => Some(run),
            _ => None,
        })
        .await
    }

    /// Makes every write to a table fail (SQLite).
    pub(super) async fn break_writes(&self, table: &str) {
        assert_eq!(self.api.core.store.dialect(), Dialect::Sqlite);
        for (name, of) in [("fault_i", "INSERT"), ("fault_u", "UPDATE")] {
            self.execute(&format!(
                "CREATE TRIGGER {name} BEFORE {of} ON {table} BEGIN SELECT RAISE(ABORT, 'a fault'); END"
            ))
            .await;
        }
    }

    pub(super) async fn mend_writes(&self) {
        for name in ["fault_i", "fault_u"] {
            self.execute(&format!("DROP TRIGGER {name}")).await;
        }
    }

    /// Makes every use of a table fail.
    pub(super) async fn hide(&self, table: &str) {
        self.execute(&format!("ALTER TABLE {table} RENAME TO hidden"))
            .await;
    }

    pub(super) async fn show(&self, table: &str) {
        self.execute(&format!("ALTER TABLE hidden RENAME TO {table}"))
            .await;
    }

    pub(super) async fn execute(&self, statement: &str) {
        self.api.database.execute(statement).await.unwrap();
    }

    /// Waits until a unit has ended so for the given time since its count was `before`.
    pub(super) async fn until_unit(&self, name: &'static str, outcome: UnitOutcome, before: u32) {
        let ended = async {
            while self.units.count(name, outcome) <= before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = timeout(SOON, ended).await;
        found.unwrap_or_else(|_| panic!("{name} was never {outcome:?}"));
    }

    /// Ends what [`Scene::run`] began.
    pub(super) async fn end(self, running: JoinHandle<()>) {
        self.stop.cancel();
        timeout(SOON, running).await.expect("it drains").unwrap();
    }
}
