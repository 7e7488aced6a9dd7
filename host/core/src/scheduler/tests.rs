//! The scheduler over a real store and a scripted Runtime: a Run that never pauses must not keep anybody waiting.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use blobs::Blobs;
use domain::lease::Authority;
use domain::run::{
    Binding, Capability, CapabilityFlags, Delta, DeltaKind, Done, EventBody,
    ExecutionConfiguration, HarnessId, HarnessOffer, InputMessage, Item, ItemBody, MessagePart,
    PrepareState, RunEvent, TurnStatus,
};
use domain::{ConnectionId, DeviceId, Digest, ExecutorId, OwnerId, PrepareId, RunId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use protocol::wire::{CancelProof, CancelReason, CloseReason, HaveFile, InitStep};
use store::Location;
use store::units::device::PutSharedDevice;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{EngineHost, EngineHostSettings, Scheduler, SchedulerSettings, run};
use crate::api::tests::fixture::{Fixture, declaration};
use crate::peer::{
    Answer, ExportFeed, Peer, Peers, PrepareFeed, PrepareSignal, ResultDelivery, RunFeed,
    RunSignal, Start, Unanswered,
};

/// Longest wait for something that must happen however much the Run reports.
const SOON: Duration = Duration::from_secs(30);

/// A Runtime whose one Run reports a message without end, faster than it can be stored, until it is cancelled.
#[derive(Debug)]
struct Talker {
    connection: ConnectionId,
    device: DeviceId,
    bound: Mutex<Option<Binding>>,
    /// What Core sent into the Run.
    heard: mpsc::UnboundedSender<String>,
    cancelled: Arc<Notify>,
    closed: CancellationToken,
}

impl Peer for Talker {
    fn connection(&self) -> ConnectionId {
        self.connection
    }

    fn device(&self) -> DeviceId {
        self.device
    }

    fn offers(&self) -> Vec<HarnessOffer> {
        let declaration = declaration();
        let mut capabilities = CapabilityFlags::NONE;
        for capability in Capability::ALL {
            capabilities.set(*capability, true);
        }
        vec![HarnessOffer {
            id: declaration.id.clone(),
            version: "1".into(),
            contract: "0.1".into(),
            declaration_hash: declaration.hash(),
            available: true,
            reason: None,
            capabilities,
        }]
    }

    fn is_bound(&self, binding: &Binding) -> bool {
        self.bound.lock().unwrap().as_ref() == Some(binding)
    }

    fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    fn close(&self, _: CloseReason) {
        self.closed.cancel();
    }

    fn bind(&self, binding: Binding, _: HarnessId, _: Option<String>) -> BoxFuture<'_, Answer<()>> {
        *self.bound.lock().unwrap() = Some(binding);
        async { Answer::Done(()) }.boxed()
    }

    fn prepare(&self, _: Binding, _: PrepareId, _: Box<ExecutionConfiguration>) -> PrepareFeed {
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

    fn release_preparation(&self, _: Binding, _: PrepareId) {}

    fn start(&self, _: Binding, _: Start) -> RunFeed {
        let (sender, feed) = mpsc::channel(4);
        let cancelled = self.cancelled.clone();
        tokio::spawn(async move {
            let _ = sender.send(RunSignal::Sent).await;
            let _ = sender.send(RunSignal::Started).await;
            let begun = Item {
                key: "endless".into(),
                body: ItemBody::Message(domain::run::Message {
                    text: String::new(),
                    phase: None,
                }),
            };
            let mut events = vec![RunEvent::root(EventBody::ItemStarted(begun))];
            let mut seq = 1;
            loop {
                let count = events.len() as u64;
                tokio::select! {
                    biased;
                    () = cancelled.notified() => break,
                    sent = sender.send(RunSignal::Events { seq, events }) => if sent.is_err() { return },
                }
                seq += count;
                let piece = Delta {
                    key: "endless".into(),
                    kind: DeltaKind::Text,
                    index: 0,
                    text: "and so on ".into(),
                };
                events = vec![RunEvent::root(EventBody::Delta(piece)); 64];
            }
            let done = RunEvent::root(EventBody::Done(Done {
                status: TurnStatus::Cancelled,
            }));
            let events = vec![done];
            let _ = sender.send(RunSignal::Events { seq, events }).await;
        });
        feed
    }

    fn acknowledge(&self, _: Binding, _: RunId, _: u64) {}

    fn input(&self, _: Binding, _: RunId, message: InputMessage) -> BoxFuture<'_, Answer<()>> {
        if let Some(MessagePart::Text(text)) = message.content.first() {
            self.heard.send(text.clone()).unwrap();
        }
        async { Answer::Done(()) }.boxed()
    }

    fn result(&self, _: Binding, _: RunId, _: ResultDelivery) -> BoxFuture<'_, Answer<()>> {
        async { Answer::Unanswered(Unanswered::NotSent) }.boxed()
    }

    fn cancel(&self, _: Binding, _: RunId, _: CancelReason) -> BoxFuture<'_, Answer<CancelProof>> {
        self.heard.send("cancel".into()).unwrap();
        self.cancelled.notify_one();
        async {
            Answer::Done(CancelProof {
                settled: true,
                outcome: TurnStatus::Cancelled,
                native_session: None,
                usage: None,
            })
        }
        .boxed()
    }

    fn initialize(&self, _: Binding, _: InitStep, _: Option<Vec<u8>>) -> BoxFuture<'_, Answer<()>> {
        async { Answer::Done(()) }.boxed()
    }

    fn export(&self, _: Binding, _: Vec<HaveFile>) -> ExportFeed {
        mpsc::channel(1).1
    }

    fn release(&self, _: Binding, _: bool) -> BoxFuture<'_, Answer<()>> {
        async { Answer::Done(()) }.boxed()
    }
}

/// The one connection of this Core.
#[derive(Debug)]
struct One {
    talker: Arc<Talker>,
    changes: watch::Sender<u64>,
}

impl Peers for One {
    fn of(&self, device: DeviceId) -> Option<Arc<dyn Peer>> {
        (device == self.talker.device).then(|| self.talker.clone() as Arc<dyn Peer>)
    }

    fn connected(&self) -> Vec<Arc<dyn Peer>> {
        vec![self.talker.clone()]
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn close(&self, _: DeviceId, reason: CloseReason) {
        self.talker.close(reason);
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        self.talker.closed.cancel();
        async {}.boxed()
    }

    fn revoke(&self, _: ConnectionId) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_and_a_cancel_are_heard_while_a_run_reports_without_a_pause() {
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    api.default_model().await;
    let store = api.core.store.clone();
    let device = DeviceId::new(store.installation().uuid());
    let credential = Digest::of(b"talker");
    let owner = OwnerId::new(Uuid::new_v4());
    store.acquire_lease(owner, Authority::Folder).await.unwrap();
    store
        .write(PutSharedDevice { device, credential })
        .await
        .unwrap();
    let (heard_in, mut heard) = mpsc::unbounded_channel();
    let talker = Arc::new(Talker {
        connection: ConnectionId::new(Uuid::new_v4()),
        device,
        bound: Mutex::default(),
        heard: heard_in,
        cancelled: Arc::default(),
        closed: CancellationToken::new(),
    });
    let peers = Arc::new(One {
        talker,
        changes: watch::channel(0).0,
    });
    let Location::File(file) = api.database.location() else {
        panic!("the fixture is on SQLite");
    };
    let folder = file.parent().unwrap();
    let stop = CancellationToken::new();
    let nobody = "http://127.0.0.1:9/".parse::<url::Url>().unwrap();
    let scheduler = Scheduler {
        store: store.clone(),
        peers: peers.clone(),
        blobs: Blobs::on_disk(&folder.join("blobs"), store.keys().clone()).unwrap(),
        hosting: None,
        engine_host: Arc::new(EngineHost::new(
            EngineHostSettings {
                home: folder.join("engine-host"),
                program: "/nonexistent".into(),
                args: Vec::new(),
                installation: store.installation(),
                core_url: nobody.clone(),
            },
            store.clone(),
            peers,
            stop.clone(),
        )),
        settings: SchedulerSettings {
            concurrency: 1,
            owner,
            drain: Duration::from_secs(1),
            write_audit_retention: Duration::from_secs(3600),
            installation: store.installation(),
            runtime_url: nobody,
        },
    };
    let running = tokio::spawn(run(scheduler, watch::channel(None).0, stop.clone()));

    let session = api
        .session(r#"{"environment":{"type":"none"},"input":"talk"}"#)
        .await;
    let path = format!("/v1/agents/sessions/{session}");
    let talking = async {
        while !api.dump().await.contains("and so on") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, talking).await.expect("the Run talks");

    // The one place is taken: what waits for it is neither read nor bound, however often the scans come by.
    let later = api
        .session(r#"{"environment":{"type":"none"},"input":"talk later"}"#)
        .await;
    tokio::time::sleep(super::tick::TICK * 2).await;
    assert_eq!(store.read().bindings(device).await.unwrap().len(), 1);

    let message = r#"{"events":[{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"listen"}]}]}]}"#;
    let answer = api.post(&format!("{path}/events"), message).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let message = timeout(SOON, heard.recv()).await;
    assert_eq!(
        message.expect("the message is heard"),
        Some("listen".into())
    );

    let cancel = r#"{"events":[{"type":"agent.session.input.cancel"}]}"#;
    let answer = api.post(&format!("{path}/events"), cancel).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let cancel = timeout(SOON, heard.recv()).await;
    assert_eq!(cancel.expect("the cancel is heard"), Some("cancel".into()));
    let over = async {
        loop {
            let turns = api.get(&format!("{path}/turns")).await.json();
            if turns["data"][0]["status"] == "cancelled" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, over).await.expect("the Turn is cancelled");
    let begun = async {
        let path = format!("/v1/agents/sessions/{later}/turns");
        while api.get(&path).await.json()["data"][0]["status"] != "in_progress" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, begun)
        .await
        .expect("the place that is free again is taken");
    stop.cancel();
    timeout(SOON, running).await.expect("it drains").unwrap();
}
