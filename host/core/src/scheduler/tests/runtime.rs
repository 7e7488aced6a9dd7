//! A Runtime that does what the test says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::run::{
    Binding, Capability, CapabilityFlags, Delta, DeltaKind, Done, EventBody,
    ExecutionConfiguration, HarnessId, HarnessOffer, InputMessage, Item, ItemBody, MessagePart,
    PrepareState, RefusalCode, RunEvent, TurnStatus,
};
use domain::{ConnectionId, DeviceId, ExecutorId, PrepareId, RunId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use protocol::wire::{CancelProof, CancelReason, CloseReason, HaveFile, InitStep};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::tests::fixture::declaration;
use crate::peer::{
    Answer, ExportFeed, Peer, Peers, PrepareFeed, PrepareSignal, ResultDelivery, RunFeed,
    RunSignal, Start, Unanswered,
};

/// What Core said, with the place for the answer where there is one. An answer that is dropped is an unknown one.
#[derive(Debug)]
pub(super) enum Heard {
    Prepare(Box<ExecutionConfiguration>),
    Start(Run),
    Input(String, oneshot::Sender<Answer<()>>),
    Result(oneshot::Sender<Answer<()>>),
    Cancel(CancelReason, oneshot::Sender<Answer<CancelProof>>),
    Acknowledged(RunId, u64),
    Initialize(DeviceId, oneshot::Sender<Answer<()>>),
    ReleasePreparation,
    Release(Binding, oneshot::Sender<Answer<()>>),
}

/// A Run that was asked for.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) input: Vec<InputMessage>,
    signals: mpsc::Sender<RunSignal>,
    seq: u64,
}

impl Run {
    pub(super) async fn signal(&self, signal: RunSignal) {
        self.signals.send(signal).await.unwrap();
    }

    /// It runs.
    pub(super) async fn begin(&self) {
        self.signal(RunSignal::Sent).await;
        self.signal(RunSignal::Started).await;
    }

    pub(super) async fn report(&mut self, body: EventBody) {
        let (seq, events) = (self.seq, vec![RunEvent::root(body)]);
        self.seq += 1;
        self.signal(RunSignal::Events { seq, events }).await;
    }

    /// `done`; the feed ends.
    pub(super) async fn done(mut self, status: TurnStatus) {
        self.report(EventBody::Done(Done { status })).await;
    }

    /// Reports a message without end, faster than it can be stored, until it is told to stop or nobody listens.
    pub(super) async fn talk(mut self, mut stop: oneshot::Receiver<()>) {
        self.report(EventBody::ItemStarted(message("endless", "")))
            .await;
        loop {
            let piece = Delta {
                key: "endless".into(),
                kind: DeltaKind::Text,
                index: 0,
                text: "and so on ".into(),
            };
            let events = vec![RunEvent::root(EventBody::Delta(piece)); 64];
            let (seq, count) = (self.seq, events.len() as u64);
            tokio::select! {
                biased;
                _ = &mut stop => return self.done(TurnStatus::Cancelled).await,
                sent = self.signals.send(RunSignal::Events { seq, events }) => if sent.is_err() { return },
            }
            self.seq += count;
        }
    }
}

pub(super) fn message(key: &str, text: &str) -> Item {
    Item {
        key: key.into(),
        body: ItemBody::Message(domain::run::Message {
            text: text.into(),
            phase: None,
        }),
    }
}

/// The receipt of a cancel.
pub(super) fn cancelled() -> Answer<CancelProof> {
    Answer::Done(CancelProof {
        settled: true,
        outcome: TurnStatus::Cancelled,
        native_session: None,
        usage: None,
    })
}

/// The harness of the fixture, with everything.
fn offer() -> HarnessOffer {
    let declaration = declaration();
    let mut capabilities = CapabilityFlags::NONE;
    for capability in Capability::ALL {
        capabilities.set(*capability, true);
    }
    HarnessOffer {
        id: declaration.id.clone(),
        version: "1".into(),
        contract: "0.1".into(),
        declaration_hash: declaration.hash(),
        plugin: None,
        available: true,
        reason: None,
        capabilities,
    }
}

/// The connection of the shared Runtime.
#[derive(Debug)]
pub(super) struct Runtime {
    connection: ConnectionId,
    pub(super) device: DeviceId,
    bound: Mutex<Vec<Binding>>,
    /// What the next binds are refused with, in order; then they are taken.
    refuses: Mutex<Vec<RefusalCode>>,
    offer: Mutex<HarnessOffer>,
    heard: mpsc::UnboundedSender<Heard>,
    closed: CancellationToken,
}

impl Runtime {
    pub(super) fn new(device: DeviceId, heard: mpsc::UnboundedSender<Heard>) -> Self {
        Self {
            connection: ConnectionId::new(Uuid::new_v4()),
            device,
            bound: Mutex::default(),
            refuses: Mutex::default(),
            offer: Mutex::new(offer()),
            heard,
            closed: CancellationToken::new(),
        }
    }

    /// It offers something else from now on.
    pub(super) fn upgrade(&self, change: impl FnOnce(&mut HarnessOffer)) {
        change(&mut self.offer.lock().unwrap());
    }

    /// The next bind is refused, after those that are already.
    pub(super) fn refuse(&self, code: RefusalCode) {
        self.refuses.lock().unwrap().push(code);
    }

    /// A test that ended hears nothing any more.
    fn tell(&self, heard: Heard) {
        let _ = self.heard.send(heard);
    }

    fn asked<T: Send + 'static>(
        &self,
        heard: impl FnOnce(oneshot::Sender<Answer<T>>) -> Heard,
    ) -> BoxFuture<'_, Answer<T>> {
        let (answer, answered) = oneshot::channel();
        self.tell(heard(answer));
        async move {
            answered
                .await
                .unwrap_or(Answer::Unanswered(Unanswered::Unknown))
        }
        .boxed()
    }
}

impl Peer for Runtime {
    fn connection(&self) -> ConnectionId {
        self.connection
    }

    fn device(&self) -> DeviceId {
        self.device
    }

    fn offers(&self) -> Vec<HarnessOffer> {
        vec![self.offer.lock().unwrap().clone()]
    }

    fn is_bound(&self, binding: &Binding) -> bool {
        self.bound.lock().unwrap().contains(binding)
    }

    fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    fn close(&self, _: CloseReason) {
        self.closed.cancel();
    }

    fn bind(&self, binding: Binding, _: HarnessId, _: Option<String>) -> BoxFuture<'_, Answer<()>> {
        let mut refuses = self.refuses.lock().unwrap();
        if !refuses.is_empty() {
            let code = refuses.remove(0);
            return async move { Answer::Rejected(code) }.boxed();
        }
        self.bound.lock().unwrap().push(binding);
        async { Answer::Done(()) }.boxed()
    }

    fn prepare(
        &self,
        _: Binding,
        _: PrepareId,
        configuration: Box<ExecutionConfiguration>,
    ) -> PrepareFeed {
        self.tell(Heard::Prepare(configuration));
        let (sender, feed) = mpsc::channel(1);
        let ready = PrepareState::Ready {
            executor_id: ExecutorId::new(Uuid::new_v4()),
            expires_in_ms: 60_000,
        };
        sender.try_send(PrepareSignal::State(ready)).unwrap();
        // An open channel: the admission lasts.
        let closed = self.closed.clone();
        tokio::spawn(async move {
            closed.cancelled().await;
            drop(sender);
        });
        feed
    }

    fn release_preparation(&self, _: Binding, _: PrepareId) {
        self.tell(Heard::ReleasePreparation);
    }

    fn start(&self, _: Binding, start: Start) -> RunFeed {
        let (signals, feed) = mpsc::channel(4);
        self.tell(Heard::Start(Run {
            id: start.run,
            input: start.input,
            signals,
            seq: 1,
        }));
        feed
    }

    fn acknowledge(&self, _: Binding, run: RunId, seq: u64) {
        self.tell(Heard::Acknowledged(run, seq));
    }

    fn input(&self, _: Binding, _: RunId, message: InputMessage) -> BoxFuture<'_, Answer<()>> {
        let text = match message.content.first() {
            Some(MessagePart::Text(text)) => text.clone(),
            other => panic!("no text: {other:?}"),
        };
        self.asked(|answer| Heard::Input(text, answer))
    }

    fn result(&self, _: Binding, _: RunId, _: ResultDelivery) -> BoxFuture<'_, Answer<()>> {
        self.asked(Heard::Result)
    }

    fn cancel(
        &self,
        _: Binding,
        _: RunId,
        reason: CancelReason,
    ) -> BoxFuture<'_, Answer<CancelProof>> {
        self.asked(|answer| Heard::Cancel(reason, answer))
    }

    fn initialize(&self, _: Binding, _: InitStep, _: Option<Vec<u8>>) -> BoxFuture<'_, Answer<()>> {
        self.asked(|answer| Heard::Initialize(self.device, answer))
    }

    fn export(&self, _: Binding, _: Vec<HaveFile>) -> ExportFeed {
        mpsc::channel(1).1
    }

    fn release(&self, binding: Binding, _: bool) -> BoxFuture<'_, Answer<()>> {
        self.asked(|answer| Heard::Release(binding, answer))
    }
}

/// The connections of this Core.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) runtimes: Mutex<Vec<Arc<Runtime>>>,
    pub(super) changes: watch::Sender<u64>,
}

impl Connections {
    fn all(&self) -> Vec<Arc<Runtime>> {
        self.runtimes.lock().unwrap().clone()
    }
}

impl Peers for Connections {
    fn of(&self, device: DeviceId) -> Option<Arc<dyn Peer>> {
        let found = self.all().into_iter().find(|one| one.device == device);
        found.map(|runtime| runtime as Arc<dyn Peer>)
    }

    fn connected(&self) -> Vec<Arc<dyn Peer>> {
        let peer = |runtime| runtime as Arc<dyn Peer>;
        self.all().into_iter().map(peer).collect()
    }

    fn is_here(&self, connection: ConnectionId) -> bool {
        self.all().iter().any(|one| one.connection == connection)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn close(&self, _: DeviceId, reason: CloseReason) {
        for runtime in self.all() {
            runtime.close(reason);
        }
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        self.close(DeviceId::new(Uuid::nil()), CloseReason::CoreShutdown);
        async {}.boxed()
    }

    fn revoke(&self, _: ConnectionId) {}
}

/// Longest wait for something that must happen.
pub(super) const SOON: Duration = Duration::from_secs(30);
