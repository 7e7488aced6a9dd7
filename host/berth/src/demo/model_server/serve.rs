//! The HTTP side: one route for the model, three for whoever drives the test.

use super::conversation::Conversation;
use super::events::Events;
use super::script::{Call, Reply, Script, Step};
use anyhow::Context;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// So many requests are remembered for `GET /scripted/requests`.
const REMEMBERED: usize = 500;

/// A reader on loopback has everything by then.
const FLUSHED_AFTER: Duration = Duration::from_millis(50);

/// Arguments of the hidden sub-command `scripted-model`.
#[derive(Debug, Args)]
#[group(id = "scripted_model")]
pub struct Arguments {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// The script (JSON); without one, every message is repeated.
    #[arg(long)]
    pub script: Option<PathBuf>,
}

/// Runs the server until its standard input closes, so that it never outlives whoever started it.
///
/// # Errors
/// The script cannot be read or the address is taken.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let script = match &arguments.script {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the script {}", path.display()))?;
            Script::parse(&text)
                .with_context(|| format!("the script {} is invalid", path.display()))?
        }
        None => Script::default(),
    };
    let server = ModelServer::start(arguments.listen, script).await?;
    say!("scripted model on {}", server.base_url());
    tokio::task::spawn_blocking(|| {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())
    })
    .await??;
    Ok(())
}

/// A running model server; dropping it stops it.
pub struct ModelServer {
    address: std::net::SocketAddr,
    stop: CancellationToken,
}

#[derive(Default)]
struct Seen {
    requests: VecDeque<Value>,
    attempts: HashMap<String, usize>,
    holding: BTreeSet<String>,
    released: BTreeSet<String>,
    responses: u64,
}

struct Shared {
    script: Script,
    seen: Mutex<Seen>,
    changed: Notify,
    stop: CancellationToken,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelServer {
    /// Starts to serve in the background of the current runtime.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(listen: std::net::SocketAddr, script: Script) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("the scripted model cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            script,
            seen: Mutex::default(),
            changed: Notify::new(),
            stop: stop.clone(),
        });
        let router = Router::new()
            .route("/v1/responses", post(respond))
            .route("/scripted/requests", get(requests))
            .route("/scripted/holding", get(holding))
            .route("/scripted/release/{name}", post(release))
            .with_state(shared);
        let ended = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                result = axum::serve(listener, router) => if let Err(error) = result {
                    tracing::error!(%error, "the scripted model stopped");
                },
                () = ended.cancelled() => {}
            }
        });
        Ok(Self { address, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// What to configure as the model provider's base URL.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Every request so far: its bearer token, its body and which reply it got.
async fn requests(State(shared): State<Arc<Shared>>) -> Response {
    axum::Json(shared.seen().requests.clone()).into_response()
}

/// The names of the holds that a stream is waiting at.
async fn holding(State(shared): State<Arc<Shared>>) -> Response {
    axum::Json(shared.seen().holding.clone()).into_response()
}

/// Lets every stream go on that waits at this hold, now and later.
async fn release(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> StatusCode {
    shared.seen().released.insert(name);
    shared.changed.notify_waiters();
    StatusCode::NO_CONTENT
}

async fn respond(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return refusal(
            400,
            &json!({"error": {"message": "the body is not JSON", "type": "invalid_request_error"}}),
        );
    };
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default()
        .to_owned();
    let conversation = Conversation::read(&body);
    let replies = shared.script.replies(&conversation.message);
    let index = conversation.due(&replies);
    let authorised = shared
        .script
        .require_key
        .as_ref()
        .is_none_or(|key| *key == token);

    let (number, attempt) = {
        let mut seen = shared.seen();
        // One conversation asks again for the same reply only when it retries.
        let key = format!(
            "{}\u{0}{}\u{0}{}\u{0}{index}",
            body["prompt_cache_key"], conversation.user_messages, conversation.message
        );
        let attempt = *seen
            .attempts
            .entry(key)
            .and_modify(|count| *count += 1)
            .or_insert(0);
        seen.requests.push_back(json!({"token": token, "reply": index, "attempt": attempt, "message": conversation.message, "body": body}));
        if seen.requests.len() > REMEMBERED {
            seen.requests.pop_front();
        }
        seen.responses += 1;
        (seen.responses, attempt)
    };
    if !authorised {
        return refusal(
            401,
            &json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}}),
        );
    }
    if let Some(call) = Conversation::broken_call(&body) {
        return refusal(
            400,
            &json!({"error": {"message": format!("the call {call} has not exactly one result"), "type": "invalid_request_error"}}),
        );
    }
    let Some(reply) = replies.get(index) else {
        return refusal(
            500,
            &json!({"error": {"message": "the script has no reply", "type": "server_error"}}),
        );
    };
    let reply = reply.first.get(attempt).unwrap_or(reply).clone();
    if let Some(status) = reply.status {
        return refusal(status, &reply.body.unwrap_or_else(|| json!({"error": {"message": format!("scripted refusal {status}"), "type": "scripted"}})));
    }
    let (sender, receiver) = mpsc::channel(16);
    let events = Events::new(
        format!("{number:08x}"),
        body["model"].as_str().unwrap_or_default().to_owned(),
    );
    tokio::spawn(async move {
        // An error means that the harness has gone; there is nobody left to tell.
        let _ = Speaker {
            shared,
            sender,
            events,
            body,
            conversation,
        }
        .perform(&reply)
        .await;
    });
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(stream),
    )
        .into_response()
}

fn refusal(status: u16, body: &Value) -> Response {
    (
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        axum::Json(body),
    )
        .into_response()
}

type Piece = Result<Bytes, std::io::Error>;

/// One response being streamed.
struct Speaker {
    shared: Arc<Shared>,
    sender: mpsc::Sender<Piece>,
    events: Events,
    body: Value,
    conversation: Conversation,
}

impl Speaker {
    async fn perform(mut self, reply: &Reply) -> Result<(), mpsc::error::SendError<Piece>> {
        let created = self.events.created();
        self.send([created]).await?;
        for step in &reply.steps {
            match step {
                Step::Say(say) => {
                    let (text, pieces, pause) = say.pieces(&self.conversation.output);
                    let (id, opened) = self.events.open_message();
                    self.send(opened).await?;
                    for piece in pieces {
                        let delta = self.events.text_delta(&id, &piece);
                        self.send([delta]).await?;
                        if pause > 0 {
                            tokio::time::sleep(Duration::from_millis(pause)).await;
                        }
                    }
                    let closed = self.events.close_message(&id, &text);
                    self.send(closed).await?;
                }
                Step::Think(summary) => {
                    let events = self.events.reasoning(summary);
                    self.send(events).await?;
                }
                Step::Shell(command) => {
                    let call = shell_call(&self.body, command);
                    let events = self.events.call(&call);
                    self.send(events).await?;
                }
                Step::Patch(patch) => {
                    let events = self.events.custom_call("apply_patch", patch);
                    self.send(events).await?;
                }
                Step::Call(call) => {
                    let events = self.events.call(call);
                    self.send(events).await?;
                }
                Step::SleepMs(pause) => tokio::time::sleep(Duration::from_millis(*pause)).await,
                Step::Hold(name) => self.hold(name).await,
                Step::Fail(failure) => {
                    let failed = self.events.failed(&failure.code, &failure.message);
                    return self.send([failed]).await;
                }
                Step::Hang => {
                    tokio::select! {
                        () = self.sender.closed() => {}
                        () = self.shared.stop.cancelled() => {}
                    }
                    return Ok(());
                }
                Step::Cut => {
                    // What was said must reach the harness first: a reset throws away what is still in the socket.
                    tokio::time::sleep(FLUSHED_AFTER).await;
                    return self
                        .sender
                        .send(Err(std::io::Error::other("scripted cut")))
                        .await;
                }
            }
        }
        let words = self.body["input"].to_string().split_whitespace().count() as u64;
        let completed = self.events.completed(reply.usage, words);
        self.send([completed]).await
    }

    async fn send(
        &self,
        events: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), mpsc::error::SendError<Piece>> {
        for event in events {
            self.sender.send(Ok(event)).await?;
        }
        Ok(())
    }

    /// Waits until the hold is released or the harness goes.
    async fn hold(&self, name: &str) {
        self.shared.seen().holding.insert(name.to_owned());
        loop {
            // Registered before looking, so that a release in between is not missed.
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.shared.seen().released.contains(name) {
                break;
            }
            tokio::select! {
                () = changed => {}
                () = self.sender.closed() => break,
            }
        }
        self.shared.seen().holding.remove(name);
    }
}

/// The call of a shell command by whichever shell tool the request offers; the names differ between versions and model catalogues.
fn shell_call(body: &Value, command: &str) -> Call {
    let tools = body["tools"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let offers = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    let (name, member, value) = if offers("exec_command") {
        ("exec_command", "cmd", json!(command))
    } else if offers("shell_command") {
        ("shell_command", "command", json!(command))
    } else {
        ("shell", "command", json!(["sh", "-c", command]))
    };
    Call {
        name: name.into(),
        namespace: None,
        arguments: [(member.to_owned(), value)].into(),
    }
}
