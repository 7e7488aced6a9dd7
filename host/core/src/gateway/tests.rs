//! The gateway over real sockets and a real store: a daemon's end of the link on one side, the scheduler's port on the other.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use blobs::Blobs;
use domain::run::{
    Binding, CapabilityFlags, Done, EventBody, ExecutionConfiguration, HarnessOffer, InputMessage,
    MessagePart, PrepareState, RunEvent, TurnStatus,
};
use domain::{
    BindingId, DeviceId, Digest, ExecutorId, InputId, InstanceId, OwnerId, PrepareId, RunId,
    SessionId,
};
use futures_util::{SinkExt, StreamExt};
use protocol::moment::Moment;
use protocol::runtime_end::{Command, Identity, Notice, Output, RuntimeEnd, Work};
use protocol::wire::{self, Capacity, CloseReason, Proof, RunEvents, WorkspaceFacts, limits};
use store::testing::TestDatabase;
use store::units::device::PutSharedDevice;
use store::{Acquired, LeaseToken, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Gateway, GatewaySettings};
use crate::api::{Api, Facts};
use crate::harnesses::Harnesses;
use crate::http::accept::{Answer as _, Limits, accept};
use crate::hub::Hub;
use crate::keys::StreamKeys;
use crate::peer::{Answer, Peer, Peers, PrepareSignal, RunBreak, RunSignal, Start, Unanswered};
use crate::plugins::Shelf;
use crate::state::Core;

const CREDENTIAL: &str = "berth_device_test";
/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(20);

struct Fixture {
    database: TestDatabase,
    _folder: tempfile::TempDir,
    store: Store,
    gateway: Arc<Gateway>,
    api: Arc<Api>,
    owned: watch::Sender<Option<LeaseToken>>,
    stop: CancellationToken,
    address: std::net::SocketAddr,
    device: DeviceId,
}

impl Fixture {
    async fn new() -> Self {
        let database = TestDatabase::sqlite();
        let store = database.open().await;
        let Ok(Acquired::Held(token)) = store
            .acquire_lease(
                OwnerId::new(Uuid::new_v4()),
                domain::lease::Authority::Expiry,
            )
            .await
        else {
            panic!("the lease of a fresh database is free");
        };
        let device = DeviceId::new(Uuid::new_v4());
        let credential = Digest::of(CREDENTIAL.as_bytes());
        store
            .write(PutSharedDevice { device, credential })
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (owned, ownership) = watch::channel(Some(token));
        let stop = CancellationToken::new();
        let folder = tempfile::tempdir().unwrap();
        let gateway = Gateway::new(GatewaySettings {
            store: store.clone(),
            installation: store.installation(),
            public_url: format!("http://{address}/").parse().unwrap(),
            owned: ownership,
            executor_idle_ms: 600_000,
            loopback_models: true,
            stop: stop.clone(),
        });
        let core = Arc::new(Core {
            facts: Facts {
                public_url: "http://127.0.0.1/".parse().unwrap(),
                settings: Vec::new(),
            },
            gateway: gateway.clone(),
            blobs: Blobs::on_disk(folder.path(), store.keys().clone()).unwrap(),
            uploads: Arc::new(Semaphore::new(3)),
            bundles: Arc::new(Semaphore::new(1)),
            hosts: Arc::new(true.into()),
            deployment: None,
            engine_device: device,
            hub: Hub::new(store.clone()),
            store: store.clone(),
            keys: StreamKeys::default(),
            core_keys: Vec::new(),
            harnesses: Harnesses::new(Vec::new(), None, None)
                .unwrap_or_else(|_| unreachable!("nothing is named")),
            plugins: Arc::new(Shelf::new(
                plugin_host::Plugins::built_in().unwrap(),
                plugin_host::Settings::default(),
            )),
            allow_loopback_model_urls: false,
            stop: stop.clone(),
            drained: stop.clone(),
        });
        let api = Arc::new(Api::new(core));
        tokio::spawn(accept(
            listener,
            Limits::new(16),
            api.clone(),
            stop.clone(),
            stop.clone(),
        ));
        Self {
            database,
            _folder: folder,
            store,
            gateway,
            api,
            owned,
            stop,
            address,
            device,
        }
    }

    /// Status and code of a machine request.
    async fn refused(&self, path: &str, credential: Option<&str>) -> (u16, String) {
        let mut request = Request::builder().uri(path);
        if let Some(credential) = credential {
            request = request.header("authorization", format!("Bearer {credential}"));
        }
        let answer = self
            .api
            .clone()
            .answer(request.body(Body::empty()).unwrap())
            .await;
        let status = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body())
            .await
            .unwrap()
            .to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        (
            status,
            body["error"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    fn path(&self, wire: u32) -> String {
        format!(
            "/api/v1/agent-daemon/ws?device_id={}&wire={wire}",
            self.device
        )
    }

    /// A daemon that was welcomed.
    async fn daemon(&self) -> Daemon {
        let mut daemon = Daemon::dial(self).await;
        daemon
            .until(|notice| matches!(notice, Notice::Welcomed { .. }).then_some(()))
            .await;
        daemon
    }

    /// The scheduler's handle, once the first heartbeat has come (RP-3.9).
    async fn peer(&self) -> Arc<dyn Peer> {
        let mut changes = self.gateway.changes();
        timeout(SOON, async {
            loop {
                if let Some(peer) = self.gateway.of(self.device) {
                    return peer;
                }
                changes.changed().await.unwrap();
            }
        })
        .await
        .expect("the device connects")
    }
}

/// A daemon: its end of the link and a real socket.
struct Daemon {
    end: RuntimeEnd,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    began: Instant,
    /// How far its clock was moved.
    ahead: u64,
}

impl Daemon {
    async fn dial(fixture: &Fixture) -> Self {
        let mut request = format!(
            "ws://{}{}",
            fixture.address,
            fixture.path(limits::WIRE_VERSION)
        )
        .into_client_request()
        .unwrap();
        request.headers_mut().insert(
            "authorization",
            format!("Bearer {CREDENTIAL}").parse().unwrap(),
        );
        let (socket, _) = connect_async(request).await.unwrap();
        let identity = Identity {
            build: "test".into(),
            installation_id: fixture.store.installation(),
            device_id: fixture.device,
            instance_id: InstanceId::new(Uuid::new_v4()),
            dedicated: None,
            os: "linux".into(),
            arch: "x86_64".into(),
            features: vec![wire::HELLO_AGAIN.to_owned()],
            capacity: Capacity {
                runs: 1,
                executors: 1,
                preparing: 1,
            },
            workspace: WorkspaceFacts {
                bound: false,
                canonical_hash: None,
                home_removal: true,
            },
        };
        let mut end = RuntimeEnd::new(identity, Vec::new());
        end.connect(Moment(0));
        Self {
            end,
            socket,
            began: Instant::now(),
            ahead: 0,
        }
    }

    fn now(&self) -> Moment {
        Moment(self.began.elapsed().as_millis() as u64 + self.ahead)
    }

    /// Its next heartbeat, and Core's answer.
    async fn beat(&mut self) {
        self.ahead += limits::HEARTBEAT_MS;
        let now = self.now();
        self.end.tick(now);
        self.flush().await;
    }

    async fn tell(&mut self, command: Command) {
        let now = self.now();
        self.end.command(now, command);
        self.flush().await;
    }

    /// Writes what the end wants written; answers its notices.
    async fn flush(&mut self) -> Vec<Notice> {
        let mut notices = Vec::new();
        while let Some(output) = self.end.poll() {
            match output {
                Output::Send(wire::Message::Text(text)) => {
                    self.socket.send(Message::text(text)).await.unwrap()
                }
                Output::Send(wire::Message::Binary(bytes)) => {
                    self.socket.send(Message::binary(bytes)).await.unwrap()
                }
                Output::Notice(notice) => notices.push(notice),
                Output::Close(reason) => panic!("the daemon closes: {reason:?}"),
            }
        }
        notices
    }

    /// Takes messages until a notice says what is wanted.
    async fn until<T>(&mut self, mut wanted: impl FnMut(&Notice) -> Option<T>) -> T {
        timeout(SOON, async {
            loop {
                for notice in self.flush().await {
                    if let Some(found) = wanted(&notice) {
                        self.flush().await;
                        return found;
                    }
                }
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        let now = self.now();
                        self.end
                            .receive(now, &wire::Message::Text(text.as_str().to_owned()));
                    }
                    other => panic!("the socket ended: {other:?}"),
                }
            }
        })
        .await
        .expect("Core asks")
    }

    async fn bind(&mut self) {
        let id = self.until(|notice| match notice {
            Notice::Work(Work::Bind { id, .. }) => Some(*id),
            _ => None,
        });
        let id = id.await;
        self.tell(Command::Answer {
            id,
            answer: wire::Answer::Ok(Proof::Bound),
        })
        .await;
    }

    /// The code with which Core closes.
    async fn closed(mut self) -> u16 {
        timeout(SOON, async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
                    Some(Ok(_)) => {}
                    other => panic!("no close frame: {other:?}"),
                }
            }
        })
        .await
        .expect("Core closes")
    }
}

fn binding() -> Binding {
    Binding {
        session: SessionId::new(Uuid::from_u128(1)),
        environment: None,
        id: BindingId::new(Uuid::from_u128(2)),
        epoch: 1,
    }
}

fn configuration() -> Box<ExecutionConfiguration> {
    serde_json::from_value(serde_json::json!({
        "harness": "codex", "declaration_hash": "a".repeat(64), "workspace": {"kind": "absent"},
        "history": {"mode": "fresh"}, "options": {}, "parameters": "{}", "functions": [],
        "controls": {"tool_search": false}, "mcp": [], "permissions": "allow",
    }))
    .unwrap()
}

fn message() -> InputMessage {
    InputMessage {
        id: InputId::new(Uuid::new_v4()),
        content: vec![MessagePart::Text("hi".into())],
    }
}

fn done() -> RunEvent {
    RunEvent::root(EventBody::Done(Done {
        status: TurnStatus::Completed,
    }))
}

/// Both sides up to a Run that goes on.
async fn running(fixture: &Fixture) -> (Daemon, Arc<dyn Peer>, RunId, crate::peer::RunFeed) {
    let mut daemon = fixture.daemon().await;
    let peer = fixture.peer().await;
    let (answer, ()) = tokio::join!(
        peer.bind(binding(), "codex".parse().unwrap(), None),
        daemon.bind()
    );
    assert_eq!(answer, Answer::Done(()));
    assert!(peer.is_bound(&binding()));

    let prepare = PrepareId::new(Uuid::new_v4());
    let executor = ExecutorId::new(Uuid::new_v4());
    let mut states = peer.prepare(binding(), prepare, configuration());
    daemon
        .until(|notice| matches!(notice, Notice::Work(Work::Prepare { .. })).then_some(()))
        .await;
    daemon
        .tell(Command::Prepared {
            prepare_id: prepare,
            executor_id: executor,
        })
        .await;
    assert_eq!(
        states.recv().await,
        Some(PrepareSignal::State(PrepareState::Preparing))
    );
    assert!(
        matches!(states.recv().await, Some(PrepareSignal::State(PrepareState::Ready { executor_id, .. })) if executor_id == executor)
    );

    let run = RunId::new(Uuid::new_v4());
    let mut signals = peer.start(
        binding(),
        Start {
            prepare,
            executor,
            run,
            input: vec![message()],
        },
    );
    assert_eq!(signals.recv().await, Some(RunSignal::Sent));
    daemon
        .until(|notice| matches!(notice, Notice::Work(Work::Start { .. })).then_some(()))
        .await;
    daemon.tell(Command::Started { run_id: run }).await;
    assert_eq!(signals.recv().await, Some(RunSignal::Started));
    (daemon, peer, run, signals)
}

#[tokio::test]
async fn a_turn_over_a_real_socket() {
    let fixture = Fixture::new().await;
    let (mut daemon, peer, run, mut signals) = running(&fixture).await;
    daemon
        .tell(Command::Events(RunEvents {
            run_id: run,
            seq: 1,
            events: vec![done()],
        }))
        .await;
    assert_eq!(
        signals.recv().await,
        Some(RunSignal::Events {
            seq: 1,
            events: vec![done()]
        })
    );
    peer.acknowledge(binding(), run, 1);
    daemon
        .until(|notice| {
            (*notice
                == Notice::Acknowledged {
                    run_id: run,
                    seq: 1,
                })
            .then_some(())
        })
        .await;
    // The feed ends with `done`.
    assert_eq!(signals.recv().await, None);
}

// CAP-006: a harness that was installed beside a Run is known at once, and the Run goes on.
#[tokio::test]
async fn more_is_offered_beside_a_run() {
    let fixture = Fixture::new().await;
    let (mut daemon, peer, run, mut signals) = running(&fixture).await;
    let mut changes = fixture.gateway.changes();
    let offer: HarnessOffer = serde_json::from_value(serde_json::json!({
        "id": "codex", "version": "0.171.0", "contract": "0.1.0", "declaration_hash": "a".repeat(64), "available": true,
        "capabilities": CapabilityFlags::NONE,
    }))
    .unwrap();
    daemon.tell(Command::Offers(vec![offer.clone()])).await;
    timeout(SOON, async {
        while !peer.can_run(&offer.id) {
            changes.changed().await.unwrap();
        }
    })
    .await
    .expect("the offer arrives");
    daemon
        .tell(Command::Events(RunEvents {
            run_id: run,
            seq: 1,
            events: vec![done()],
        }))
        .await;
    let last = signals.recv().await;
    assert!(
        matches!(last, Some(RunSignal::Events { seq: 1, .. })),
        "{last:?}"
    );
}

// RP-3.4, EC-1.1, SC-9.5: refusals are HTTP answers, before anything is upgraded.
#[tokio::test]
async fn refusals_before_the_upgrade() {
    let fixture = Fixture::new().await;
    let wire = limits::WIRE_VERSION;
    let other = format!(
        "/api/v1/agent-daemon/ws?device_id={}&wire={wire}",
        DeviceId::new(Uuid::new_v4())
    );
    for (path, credential, expected) in [
        (fixture.path(wire), None, (401, "unauthorized")),
        (
            fixture.path(wire),
            Some("berth_device_other"),
            (401, "unauthorized"),
        ),
        (other, Some(CREDENTIAL), (401, "unauthorized")),
        (
            fixture.path(wire + 1),
            Some(CREDENTIAL),
            (426, "incompatible_version"),
        ),
        (
            "/api/v1/agent-daemon/ws?wire=1".to_owned(),
            Some(CREDENTIAL),
            (400, "invalid_request_error"),
        ),
    ] {
        let (status, code) = fixture.refused(&path, credential).await;
        assert_eq!((status, &*code), expected, "{path}");
    }
    fixture.owned.send_replace(None);
    assert_eq!(
        fixture
            .refused(&fixture.path(wire), Some(CREDENTIAL))
            .await
            .0,
        503
    );
}

// RP-3.1: the address is Core's own, whatever the request says.
#[tokio::test]
async fn the_address_to_dial_is_not_taken_from_the_request() {
    let fixture = Fixture::new().await;
    let request = Request::post("/api/v1/agent-daemon/bootstrap")
        .header("authorization", format!("Bearer {CREDENTIAL}"))
        .header("content-type", "application/json")
        .header("host", "evil.example")
        .header("x-forwarded-host", "evil.example")
        .body(Body::from(format!(
            r#"{{"device_id":"{}"}}"#,
            fixture.device
        )))
        .unwrap();
    let answer = fixture.api.clone().answer(request).await;
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let body = http_body_util::BodyExt::collect(answer.into_body())
        .await
        .unwrap()
        .to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body["ws_url"],
        format!("ws://{}/api/v1/agent-daemon/ws", fixture.address)
    );
    assert_eq!(body["protocol_version"], limits::WIRE_VERSION);
}

// RP-3.7
#[tokio::test]
async fn a_newer_connection_replaces_the_older() {
    let fixture = Fixture::new().await;
    let first = fixture.daemon().await;
    let older = fixture.peer().await;
    let _second = fixture.daemon().await;
    assert_eq!(first.closed().await, CloseReason::Replaced.code());
    timeout(SOON, older.closed().cancelled()).await.unwrap();
    let newer = fixture.peer().await;
    assert_ne!(older.connection(), newer.connection());
    assert!(fixture.gateway.is_here(newer.connection()));
    let gone = async {
        while fixture.gateway.is_here(older.connection()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, gone).await.expect("its end is recorded");
    // The older handle reaches nobody.
    assert_eq!(
        older.bind(binding(), "codex".parse().unwrap(), None).await,
        Answer::Unanswered(Unanswered::NotSent)
    );
}

// RP-17.1: what was under way is unknown, what is asked afterwards was never sent.
#[tokio::test]
async fn a_socket_that_breaks_during_a_run() {
    let fixture = Fixture::new().await;
    let (mut daemon, peer, run, mut signals) = running(&fixture).await;
    let input = peer.input(binding(), run, message());
    daemon
        .until(|notice| matches!(notice, Notice::Work(Work::Input { .. })).then_some(()))
        .await;
    drop(daemon);
    assert_eq!(input.await, Answer::Unanswered(Unanswered::Unknown));
    assert_eq!(
        signals.recv().await,
        Some(RunSignal::Broken(RunBreak::Lost))
    );
    timeout(SOON, peer.closed().cancelled()).await.unwrap();
    assert_eq!(
        peer.input(binding(), run, message()).await,
        Answer::Unanswered(Unanswered::NotSent)
    );
    assert!(fixture.gateway.of(fixture.device).is_none());
}

// SC-2.8, RP-18, RP-4.4, OPS drain: each reason has its code.
#[tokio::test]
async fn every_close_has_its_code() {
    let fixture = Fixture::new().await;
    let mut daemon = fixture.daemon().await;
    daemon.socket.send(Message::text("{")).await.unwrap();
    assert_eq!(daemon.closed().await, CloseReason::ProtocolViolation.code());

    let daemon = fixture.daemon().await;
    fixture.peer().await;
    fixture
        .gateway
        .close(fixture.device, CloseReason::BindingConflict);
    assert_eq!(daemon.closed().await, CloseReason::BindingConflict.code());

    let daemon = fixture.daemon().await;
    let owner = fixture.owned.send_replace(None);
    assert_eq!(daemon.closed().await, CloseReason::StaleOwner.code());
    fixture.owned.send_replace(owner);

    let daemon = fixture.daemon().await;
    fixture.stop.cancel();
    assert_eq!(daemon.closed().await, CloseReason::CoreShutdown.code());
    timeout(SOON, fixture.gateway.shut_down())
        .await
        .expect("nothing is left of it");
}

// RP-3.12, EC-1.3: the credential is looked up at every heartbeat, not only at the first.
#[tokio::test]
async fn a_device_that_is_revoked_is_closed_at_its_next_heartbeat() {
    let fixture = Fixture::new().await;
    let mut daemon = fixture.daemon().await;
    let peer = fixture.peer().await;
    daemon.beat().await;
    // An answer that needs the socket: the valid one is still there.
    let bound = peer.bind(binding(), "codex".parse().unwrap(), None);
    assert_eq!(tokio::join!(bound, daemon.bind()).0, Answer::Done(()));
    assert!(!peer.closed().is_cancelled());

    let revoke = "UPDATE devices SET revoked = 1, body = json_set(body, '$.revoked_at', 1)";
    fixture.database.execute(revoke).await.unwrap();
    daemon.beat().await;
    assert_eq!(daemon.closed().await, CloseReason::Revoked.code());
    timeout(SOON, peer.closed().cancelled()).await.unwrap();
    let gone = async {
        while fixture.gateway.of(fixture.device).is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, gone).await.expect("nobody is sent there");
    let path = fixture.path(limits::WIRE_VERSION);
    let (status, _) = fixture.refused(&path, Some(CREDENTIAL)).await;
    assert_eq!(status, 401, "it does not come back");
}

// A daemon that was dialled by another credential is not asked for its name twice: the handshake says 401.
#[tokio::test]
async fn a_handshake_without_credential_is_refused() {
    let fixture = Fixture::new().await;
    let request = format!(
        "ws://{}{}",
        fixture.address,
        fixture.path(limits::WIRE_VERSION)
    );
    match connect_async(request).await {
        Err(tungstenite::Error::Http(answer)) => assert_eq!(answer.status().as_u16(), 401),
        other => panic!("{other:?}"),
    }
}
