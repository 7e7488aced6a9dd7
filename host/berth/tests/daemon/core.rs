//! A Core in small: the bootstrap route and a socket around the real `CoreEnd`. It registers nothing and decides nothing; a
//! test says what it asks for.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message as Frame, WebSocket},
    },
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use domain::{
    BindingId, ConnectionId, DeviceId, EnvironmentId, FrameId, InstallationId, PrepareId, RunId,
    SessionId,
    run::{
        Binding, ExecutionConfiguration, InputMessage, MessagePart, PrepareState, PrepareStatus,
        RunEvent,
    },
};
use protocol::{
    bootstrap::{BOOTSTRAP_PATH, BootstrapAnswer, BootstrapRequest, SOCKET_PATH},
    core_end::{Command, CoreEnd, CoreSettings, Notice, Output, Settled},
    moment::Moment,
    wire::{
        Answer, CloseReason, ExecutionStart, HELLO_AGAIN, Hello, Limits, Message, Operation,
        Request, limits,
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};
use uuid::Uuid;

pub const CREDENTIAL: &str = "device-credential-canary";

/// What a test sees of one connection.
pub struct Connection {
    pub hello: Hello,
    commands: mpsc::UnboundedSender<Command>,
    notices: mpsc::UnboundedReceiver<Notice>,
    /// Dropping it breaks the socket without a word.
    _life: oneshot::Sender<()>,
    pub events: Vec<RunEvent>,
}

/// A listening Core.
pub struct Core {
    pub url: String,
    pub device: DeviceId,
    pub installation: InstallationId,
    connections: mpsc::UnboundedReceiver<Connection>,
}

struct Shared {
    address: SocketAddr,
    device: DeviceId,
    installation: InstallationId,
    limits: Limits,
    connections: mpsc::UnboundedSender<Connection>,
}

impl Core {
    pub async fn start(limits: Limits) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, connections) = mpsc::unbounded_channel();
        let (device, installation) = (
            DeviceId::new(Uuid::new_v4()),
            InstallationId::new(Uuid::new_v4()),
        );
        let shared = Arc::new(Shared {
            address,
            device,
            installation,
            limits,
            connections: sender,
        });
        let app = Router::new()
            .route(BOOTSTRAP_PATH, post(bootstrap))
            .route(SOCKET_PATH, get(upgrade))
            .with_state(shared);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            url: format!("http://{address}"),
            device,
            installation,
            connections,
        }
    }

    /// The next connection that was greeted.
    pub async fn connection(&mut self) -> Connection {
        timeout(Duration::from_secs(20), self.connections.recv())
            .await
            .expect("a daemon connects")
            .unwrap()
    }

    /// Nobody connects for this time.
    pub async fn is_left_alone(&mut self, time: Duration) -> bool {
        timeout(time, self.connections.recv()).await.is_err()
    }
}

async fn bootstrap(
    State(core): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(asked): Json<BootstrapRequest>,
) -> Response {
    if !is_ours(&headers) || asked.device_id != core.device {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let answer = BootstrapAnswer {
        device_id: core.device,
        ws_url: format!("ws://{}{SOCKET_PATH}", core.address),
        heartbeat_ms: 1000,
        protocol_version: limits::WIRE_VERSION,
    };
    Json(answer).into_response()
}

fn is_ours(headers: &HeaderMap) -> bool {
    headers
        .get("authorization")
        .is_some_and(|value| value.as_bytes() == format!("Bearer {CREDENTIAL}").as_bytes())
}

async fn upgrade(
    State(core): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let query = format!("device_id={}&wire={}", core.device, limits::WIRE_VERSION);
    if !is_ours(&headers) || uri.query() != Some(&*query) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    upgrade.on_upgrade(move |socket| serve(core, socket))
}

async fn serve(core: Arc<Shared>, mut socket: WebSocket) {
    let began = Instant::now();
    let now = || Moment(u64::try_from(began.elapsed().as_millis()).unwrap());
    let settings = CoreSettings {
        connection_id: ConnectionId::new(Uuid::new_v4()),
        device_id: core.device,
        installation_id: core.installation,
        owner_epoch: 1,
        heartbeat_ms: 1000,
        idle_close_ms: limits::IDLE_CLOSE_MS,
        features: vec![HELLO_AGAIN.to_owned()],
        limits: core.limits,
    };
    let mut end = CoreEnd::new(settings, now());
    let (commands, mut asked) = mpsc::unbounded_channel();
    let (noticed, notices) = mpsc::unbounded_channel();
    let (life, mut dropped) = oneshot::channel();
    let mut waiting = Some((commands, notices, life));
    loop {
        while let Some(output) = end.poll() {
            match output {
                Output::Send(Message::Text(text)) => drop(socket.send(Frame::text(text)).await),
                Output::Send(Message::Binary(bytes)) => {
                    drop(socket.send(Frame::binary(bytes)).await)
                }
                Output::Notice(Notice::Hello(hello)) => {
                    end.command(now(), Command::Welcome);
                    if let Some((commands, notices, life)) = waiting.take() {
                        let connection = Connection {
                            hello: *hello,
                            commands,
                            notices,
                            _life: life,
                            events: Vec::new(),
                        };
                        let _ = core.connections.send(connection);
                    }
                }
                Output::Notice(notice) => drop(noticed.send(notice)),
                Output::Close(reason) => {
                    let frame = CloseFrame {
                        code: reason.code(),
                        reason: reason.as_str().into(),
                    };
                    let _ = socket.send(Frame::Close(Some(frame))).await;
                    return;
                }
            }
        }
        let timer = end
            .next_timer()
            .map(|at| began + Duration::from_millis(at.0));
        tokio::select! {
            _ = &mut dropped, if waiting.is_none() => return,
            Some(command) = asked.recv() => end.command(now(), command),
            frame = socket.recv() => match frame {
                Some(Ok(Frame::Text(text))) => end.receive(now(), &Message::Text(text.to_string())),
                Some(Ok(Frame::Binary(bytes))) => end.receive(now(), &Message::Binary(bytes.to_vec())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => end.tick(now()),
        }
    }
}

impl Connection {
    pub fn send(&self, command: Command) {
        self.commands.send(command).unwrap();
    }

    pub fn close(&self, reason: CloseReason) {
        self.send(Command::Close {
            reason,
            retry_after_ms: None,
        });
    }

    /// Sends a request; its id.
    pub fn ask(&self, binding: Binding, operation: Operation) -> FrameId {
        let id = FrameId::new(Uuid::now_v7());
        self.send(Command::Request {
            request: Box::new(Request::of(id, binding, operation)),
            body: None,
        });
        id
    }

    async fn notice(&mut self) -> Notice {
        let notice = timeout(Duration::from_secs(30), self.notices.recv())
            .await
            .expect("a notice within 30 s");
        notice.expect("the connection stands")
    }

    /// Waits until the daemon offers a harness that can run, or none.
    pub async fn offered(&mut self, available: bool) {
        while self.hello.harnesses.iter().any(|offer| offer.available) != available {
            match self.notice().await {
                Notice::Offers(offers)
                | Notice::Heartbeat {
                    offers: Some(offers),
                    ..
                } => self.hello.harnesses = offers,
                _ => {}
            }
        }
    }

    pub async fn next(&mut self) -> Notice {
        loop {
            match self.notice().await {
                Notice::Heartbeat { .. } => {}
                Notice::Events {
                    run_id,
                    seq,
                    events,
                } => {
                    self.send(Command::Acknowledge {
                        run_id,
                        seq: seq + events.len() as u64 - 1,
                    });
                    self.events.extend(events.clone());
                    return Notice::Events {
                        run_id,
                        seq,
                        events,
                    };
                }
                other => return other,
            }
        }
    }

    /// Waits for what `pick` picks.
    pub async fn until<T>(&mut self, pick: impl Fn(&Notice) -> Option<T>) -> T {
        loop {
            let notice = self.next().await;
            if let Some(picked) = pick(&notice) {
                return picked;
            }
        }
    }

    /// The final receipt of a request.
    pub async fn settled(&mut self, wanted: FrameId) -> Settled {
        self.until(|notice| match notice {
            Notice::Settled { id, settled, .. } if *id == wanted => Some(settled.clone()),
            _ => None,
        })
        .await
    }

    pub async fn answer(&mut self, binding: Binding, operation: Operation) -> Answer {
        let id = self.ask(binding, operation);
        match self.settled(id).await {
            Settled::Receipt(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// Asks for an admission; its id and the status that ends the waiting: ready, or an end.
    pub async fn prepare(
        &mut self,
        binding: Binding,
        configuration: ExecutionConfiguration,
    ) -> (PrepareId, Result<PrepareState, Answer>) {
        let prepare_id = PrepareId::new(Uuid::now_v7());
        let request = Box::new(Request::prepare(binding, prepare_id, configuration));
        let id = request.id;
        self.send(Command::Request {
            request,
            body: None,
        });
        let state = self
            .until(|notice| match notice {
                Notice::Prepare {
                    status:
                        PrepareStatus {
                            prepare_id: about,
                            state,
                            ..
                        },
                    ..
                } if *about == prepare_id => {
                    (*state != PrepareState::Preparing).then_some(Ok(*state))
                }
                Notice::Settled {
                    id: about,
                    settled: Settled::Receipt(answer),
                    ..
                } if *about == id => Some(Err(answer.clone())),
                _ => None,
            })
            .await;
        (prepare_id, state)
    }

    /// Prepares and starts a Run with one message.
    pub async fn start(
        &mut self,
        binding: Binding,
        configuration: ExecutionConfiguration,
        text: &str,
    ) -> RunId {
        let (prepare_id, state) = self.prepare(binding, configuration).await;
        let Ok(PrepareState::Ready { executor_id, .. }) = state else {
            panic!("{state:?}")
        };
        let run_id = RunId::new(Uuid::now_v7());
        let input = vec![message(text)];
        self.events.clear();
        let start = ExecutionStart {
            prepare_id,
            executor_id,
            run_id,
            input,
        };
        let id = self.ask(binding, Operation::ExecutionStart(start));
        let settled = self.settled(id).await;
        assert!(matches!(settled, Settled::Started), "{settled:?}");
        run_id
    }

    /// Waits for the last event; all events of the Run.
    pub async fn done(&mut self) -> Vec<RunEvent> {
        while !self.events.iter().any(RunEvent::is_last) {
            self.next().await;
        }
        std::mem::take(&mut self.events)
    }
}

pub fn message(text: &str) -> InputMessage {
    InputMessage {
        id: domain::InputId::new(Uuid::new_v4()),
        content: vec![MessagePart::Text(text.to_owned())],
    }
}

pub fn binding(environment: Option<EnvironmentId>) -> Binding {
    Binding {
        session: SessionId::new(Uuid::new_v4()),
        environment,
        id: BindingId::new(Uuid::new_v4()),
        epoch: 1,
    }
}
