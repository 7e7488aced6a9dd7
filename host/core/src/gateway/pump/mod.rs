//! One socket: messages in and out of `core_end`, notices to the store and to the scheduler's feeds.
//!
//! The loop never waits for the database or for a slow reader: slow work runs beside it and comes back as a [`Fact`], writes
//! go through a bounded queue, and feeds have room for all that the protocol lets a Runtime send unacknowledged (RP-4.6).

mod facts;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{self, WebSocket};
use domain::run::{Binding, HarnessOffer, RunEvent};
use domain::{ConnectionId, Digest, FrameId, RunId};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use protocol::core_end::{Command, CoreEnd, CoreSettings, Notice, Output};
use protocol::moment::Moment;
use protocol::wire::{CloseReason, HELLO_AGAIN, Limits, Message, Operation, limits};
use store::LeaseToken;
use store::read::DeviceRecord;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use facts::Fact;

use crate::gateway::Gateway;
use crate::gateway::live::{Ask, ExportPart, Other, Route};
use crate::gateway::signals;
use crate::peer::{PrepareSignal, RunSignal};

/// Time for the close frame to leave.
const CLOSING: Duration = Duration::from_secs(1);

struct Pump {
    gateway: Arc<Gateway>,
    record: DeviceRecord,
    credential: Digest,
    connection: ConnectionId,
    end: CoreEnd,
    began: Instant,
    /// Number of this connection's observation; none before it is registered or for shared devices.
    generation: Option<u64>,
    revision: u64,
    offers: Vec<HarnessOffer>,
    /// Where the scheduler's questions come from, once the first heartbeat has come (RP-3.9).
    other: Option<Other>,
    closed: CancellationToken,
    routes: HashMap<FrameId, Route>,
    runs: HashMap<RunId, mpsc::Sender<RunSignal>>,
    facts: mpsc::UnboundedSender<Fact>,
    /// What the request that is just ending has bound.
    binding: Option<Binding>,
    closing: Option<CloseReason>,
}

/// Runs one authenticated socket to its end.
pub(in crate::gateway) async fn run(
    gateway: Arc<Gateway>,
    socket: WebSocket,
    record: DeviceRecord,
    credential: Digest,
    owner: LeaseToken,
) {
    let (sink, stream) = socket.split();
    let connection = ConnectionId::new(uuid::Uuid::new_v4());
    let settings = CoreSettings {
        connection_id: connection,
        device_id: record.device.id,
        installation_id: gateway.settings.installation,
        owner_epoch: owner.epoch.0,
        heartbeat_ms: limits::HEARTBEAT_MS,
        idle_close_ms: limits::IDLE_CLOSE_MS,
        features: vec![HELLO_AGAIN.to_owned()],
        limits: Limits {
            executor_idle_ms: gateway.settings.executor_idle_ms,
            loopback_models: gateway.settings.loopback_models,
            ..Limits::default()
        },
    };
    let (facts, found) = mpsc::unbounded_channel();
    let here = Here::new(gateway.clone(), connection);
    let pump = Pump {
        end: CoreEnd::new(settings, Moment(0)),
        gateway,
        record,
        credential,
        connection,
        began: Instant::now(),
        generation: None,
        revision: 0,
        offers: Vec::new(),
        other: None,
        closed: CancellationToken::new(),
        routes: HashMap::new(),
        runs: HashMap::new(),
        facts,
        binding: None,
        closing: None,
    };
    pump.live(sink, stream, found, owner).await;
    drop(here);
}

/// The socket's place among those that are here; a panic of its pump gives it back, too.
struct Here(Arc<Gateway>, ConnectionId);

impl Here {
    fn new(gateway: Arc<Gateway>, connection: ConnectionId) -> Self {
        gateway.here().insert(connection);
        Self(gateway, connection)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.here().remove(&self.1);
    }
}

impl Pump {
    async fn live(
        mut self,
        sink: impl Sink<ws::Message, Error = axum::Error> + Send + Unpin + 'static,
        mut stream: impl Stream<Item = Result<ws::Message, axum::Error>> + Unpin,
        mut found: mpsc::UnboundedReceiver<Fact>,
        owner: LeaseToken,
    ) {
        let (write, queue) = mpsc::channel(limits::WRITE_QUEUE);
        let mut writing = tokio::spawn(write_all(sink, queue));
        let mut owned = self.gateway.settings.owned.clone();
        let stop = self.gateway.settings.stop.clone();
        while self.closing.is_none() {
            let timer = self
                .end
                .next_timer()
                .map(|at| self.began + Duration::from_millis(at.0));
            tokio::select! {
                message = stream.next() => match message {
                    Some(Ok(ws::Message::Text(text))) => self.receive(&Message::Text(text.as_str().to_owned())),
                    Some(Ok(ws::Message::Binary(bytes))) => self.receive(&Message::Binary(bytes.into())),
                    // Control frames are no sign of life (RP-3.10).
                    Some(Ok(ws::Message::Ping(_) | ws::Message::Pong(_))) => {}
                    Some(Ok(ws::Message::Close(_))) | None => break,
                    // An oversize message ends here too (RP-4.4); so does a broken socket, where the close frame is in vain.
                    Some(Err(error)) => {
                        tracing::info!(connection = %self.connection, %error, "a socket broke");
                        self.command(Command::Close { reason: CloseReason::ProtocolViolation, retry_after_ms: None });
                    }
                },
                Some(fact) = found.recv() => self.fact(fact),
                Some(ask) = asked(&mut self.other) => self.ask(ask),
                () = sleep_until(timer) => {
                    let now = self.now();
                    self.end.tick(now);
                }
                changed = owned.changed() => {
                    // Without a scheduler nobody owns anything.
                    if changed.is_err() || *owned.borrow() != Some(owner) {
                        self.command(Command::Close { reason: CloseReason::StaleOwner, retry_after_ms: None });
                    }
                }
                () = stop.cancelled() => {
                    self.command(Command::Close { reason: CloseReason::CoreShutdown, retry_after_ms: None });
                }
                // The socket takes nothing any more.
                _ = &mut writing => {
                    self.closing = Some(CloseReason::Overloaded);
                }
            }
            self.drain(&write);
        }
        self.end.disconnected();
        self.drain(&write);
        if let Some(reason) = self.closing {
            tracing::info!(device = %self.record.device.id, connection = %self.connection, reason = reason.as_str(), "closing");
            let frame = ws::CloseFrame {
                code: reason.code(),
                reason: reason.as_str().into(),
            };
            let _ = write.try_send(ws::Message::Close(Some(frame)));
        }
        drop(write);
        self.finish().await;
        // The frames before the close frame may still be on their way.
        if !writing.is_finished() && tokio::time::timeout(CLOSING, &mut writing).await.is_err() {
            writing.abort();
        }
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn receive(&mut self, message: &Message) {
        let now = self.now();
        self.end.receive(now, message);
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        self.end.command(now, command);
    }

    /// Carries out what the machine wants, until it wants nothing.
    fn drain(&mut self, write: &mpsc::Sender<ws::Message>) {
        while let Some(output) = self.end.poll() {
            match output {
                Output::Send(message) => {
                    let message = match message {
                        Message::Text(text) => ws::Message::Text(text.into()),
                        Message::Binary(bytes) => ws::Message::Binary(bytes.into()),
                    };
                    // Overflow closes the socket, it never drops a frame silently (RP-4.8).
                    if write.try_send(message).is_err() {
                        self.closing.get_or_insert(CloseReason::Overloaded);
                        self.end.disconnected();
                    }
                }
                Output::Notice(notice) => self.notice(notice),
                Output::Close(reason) => {
                    self.closing.get_or_insert(reason);
                }
            }
        }
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Hello(hello) => {
                self.offers.clone_from(&hello.harnesses);
                self.register();
            }
            Notice::Heartbeat { offers, .. } => self.heartbeat(offers),
            Notice::Offers(offers) => self.offer(offers),
            // Told with the request's end, which follows, after the observation is committed.
            Notice::Bound(binding) => self.binding = Some(binding),
            Notice::StartSent { run_id } => self.signal(run_id, RunSignal::Sent),
            Notice::Progress { .. } => {}
            Notice::Settled { id, of, settled } => self.settled(id, of, settled),
            Notice::Prepare { status, .. } => {
                let id = FrameId::new(status.prepare_id.uuid());
                if let Some(Route::Prepare(feed)) = self.routes.get(&id) {
                    let _ = feed.try_send(PrepareSignal::State(status.state));
                }
                if status.state.is_final() {
                    self.routes.remove(&id);
                }
            }
            Notice::Events {
                run_id,
                seq,
                events,
            } => {
                let last = events.last().is_some_and(RunEvent::is_last);
                self.signal(run_id, RunSignal::Events { seq, events });
                if last {
                    self.runs.remove(&run_id);
                }
            }
            Notice::RunBroken { run_id, why } => {
                if let Some(feed) = self.runs.remove(&run_id) {
                    let _ = feed.try_send(RunSignal::Broken(signals::broken(why)));
                }
            }
            Notice::ExportEntry { id, entry } => self.export(id, ExportPart::Entry(entry)),
            Notice::ExportBytes { id, bytes } => self.export(id, ExportPart::Bytes(bytes)),
            Notice::ExportEntryEnd {
                id,
                sha256,
                skipped,
            } => self.export(id, ExportPart::End { sha256, skipped }),
            Notice::Goodbye(reason) => {
                tracing::info!(device = %self.record.device.id, reason = reason.as_str(), "a Runtime leaves");
            }
            Notice::Faulty(fault) => {
                tracing::warn!(device = %self.record.device.id, code = ?fault.code, of = ?fault.of, place = %fault.place, "an unusable frame");
            }
        }
    }

    fn signal(&mut self, run_id: RunId, signal: RunSignal) {
        let Some(feed) = self.runs.get(&run_id) else {
            return;
        };
        if feed.try_send(signal).is_err() {
            // Nobody observes the Run any more: its events need no place here.
            self.runs.remove(&run_id);
            self.command(Command::ForgetRun { run_id });
        }
    }

    fn export(&mut self, id: FrameId, part: ExportPart) {
        if let Some(Route::Export(parts)) = self.routes.get(&id)
            && parts.send(part).is_err()
        {
            self.routes.remove(&id);
            self.command(Command::Forget { id });
        }
    }

    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Request {
                request,
                body,
                route,
            } => {
                if let Route::Run(run_id, feed) = &route {
                    self.runs.insert(*run_id, feed.clone());
                }
                if matches!(request.operation, Operation::Release(_)) {
                    self.unbind(&request.binding);
                }
                self.routes.insert(request.id, route);
                self.command(Command::Request { request, body });
            }
            Ask::Acknowledge { run_id, seq } => self.command(Command::Acknowledge { run_id, seq }),
            Ask::Credit {
                binding,
                stream,
                bytes,
            } => self.command(Command::Credit {
                binding,
                stream,
                bytes,
            }),
            Ask::Close(reason) => self.command(Command::Close {
                reason,
                retry_after_ms: None,
            }),
        }
    }
}

/// The next question; never while nobody may ask.
async fn asked(other: &mut Option<Other>) -> Option<Ask> {
    match other {
        Some(other) => other.asks.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Writes frames in order, each in bounded time (RP-4.8).
async fn write_all(
    mut sink: impl Sink<ws::Message, Error = axum::Error> + Unpin,
    mut queue: mpsc::Receiver<ws::Message>,
) {
    let patience = Duration::from_millis(limits::WRITE_MS.unsigned_abs());
    while let Some(message) = queue.recv().await {
        let closes = matches!(message, ws::Message::Close(_));
        match tokio::time::timeout(patience, sink.send(message)).await {
            Ok(Ok(())) if closes => return,
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
