//! One live socket as the scheduler's [`Peer`]: questions go to the pump on a bounded channel.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::run::{Binding, ExecutionConfiguration, HarnessId, HarnessOffer, InputMessage};
use domain::{ConnectionId, DeviceId, FrameId, PrepareId, RunId};
use futures_util::future::{BoxFuture, FutureExt};
use protocol::core_end::{NotSent, Settled};
use protocol::wire::{
    Bind, CancelProof, CancelReason, CloseReason, ExecutionRelease, ExecutionStart, ExportEntry,
    FunctionResult, HaveFile, InitStep, Operation, Proof, Release, Request, RunCancel,
    RuntimePrepare, WorkspaceExport, limits,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::signals;
use crate::peer::{
    Answer, ExportFeed, ExportSignal, Peer, PrepareFeed, PrepareSignal, ResultDelivery, RunFeed,
    RunSignal, Start,
};

/// Questions that wait for the pump. It never waits for anything itself, so more than these means that it is gone.
const ASKS: usize = 1024;
/// States of one admission.
const PREPARE_FEED: usize = 16;
/// Batches of one Run: the window of unacknowledged events bounds them, and a few signals more (RP-11.11).
const RUN_FEED: usize = limits::UNACKED_EVENTS as usize + 1024;
/// Parts of an export that were read but not taken.
const EXPORT_FEED: usize = 4;
/// Time of one initialization step (RP-9).
const STEP_MS: u64 = domain::time::INIT_STEP.as_secs() * 1000;

/// Where the answers of a request go.
#[derive(Debug)]
pub(super) enum Route {
    /// One end, and nothing of interest before it.
    Single(oneshot::Sender<Settled>),
    /// States of an admission.
    Prepare(mpsc::Sender<PrepareSignal>),
    /// Signals of a Run.
    Run(RunId, mpsc::Sender<RunSignal>),
    /// Parts of an export; bounded by its credit.
    Export(mpsc::UnboundedSender<ExportPart>),
    /// Nobody waits.
    Nobody,
}

/// A part of an export on its way to the feed.
#[derive(Debug)]
pub(super) enum ExportPart {
    /// A file begins.
    Entry(ExportEntry),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A file ends.
    End {
        /// Digest.
        sha256: String,
        /// Core has the bytes.
        skipped: bool,
    },
    /// The end.
    Settled(Settled),
}

/// A question to the pump.
#[derive(Debug)]
pub(super) enum Ask {
    /// Send a request.
    Request {
        /// The request.
        request: Box<Request>,
        /// Body that follows in chunks.
        body: Option<Vec<u8>>,
        /// Where the answers go.
        route: Route,
    },
    /// Events are committed.
    Acknowledge {
        /// The Run.
        run_id: RunId,
        /// Cumulative.
        seq: u64,
    },
    /// Bytes of an export were taken.
    Credit {
        /// Its binding.
        binding: Binding,
        /// Its stream.
        stream: u32,
        /// Bytes.
        bytes: u64,
    },
    /// Close the socket.
    Close(CloseReason),
}

/// The other side of a [`LivePeer`].
pub(super) struct Other {
    /// Questions in order.
    pub asks: mpsc::Receiver<Ask>,
    /// Current offers.
    pub offers: watch::Sender<Vec<HarnessOffer>>,
    /// Bound authorities.
    pub bound: watch::Sender<Vec<Binding>>,
}

/// One live, greeted socket.
pub(super) struct LivePeer {
    device: DeviceId,
    connection: ConnectionId,
    asks: mpsc::Sender<Ask>,
    offers: watch::Receiver<Vec<HarnessOffer>>,
    bound: watch::Receiver<Vec<Binding>>,
    closed: CancellationToken,
    streams: AtomicU32,
}

impl fmt::Debug for LivePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LivePeer")
            .field("device", &self.device)
            .field("connection", &self.connection)
            .finish()
    }
}

impl LivePeer {
    pub(super) fn new(
        device: DeviceId,
        connection: ConnectionId,
        offers: Vec<HarnessOffer>,
        closed: CancellationToken,
    ) -> (Self, Other) {
        let (ask, asks) = mpsc::channel(ASKS);
        let (offer, offers) = watch::channel(offers);
        let (bind, bound) = watch::channel(Vec::new());
        let streams = AtomicU32::new(1);
        let peer = Self {
            device,
            connection,
            asks: ask,
            offers,
            bound,
            closed,
            streams,
        };
        (
            peer,
            Other {
                asks,
                offers: offer,
                bound: bind,
            },
        )
    }

    /// Hands a question over at once. One that cannot be handed over was never sent, and its route is told so.
    fn ask(&self, ask: Ask) {
        if let Err(refused) = self.asks.try_send(ask) {
            if matches!(refused, mpsc::error::TrySendError::Full(_)) {
                tracing::error!(device = %self.device, "the pump of a socket does not take questions any more");
            }
            if let Ask::Request { route, .. } = refused.into_inner() {
                not_sent(route);
            }
        }
    }

    fn request(&self, binding: Binding, operation: Operation, route: Route) {
        let request = Box::new(Request::of(
            FrameId::new(Uuid::now_v7()),
            binding,
            operation,
        ));
        self.ask(Ask::Request {
            request,
            body: None,
            route,
        });
    }

    /// Asks a question with one end.
    fn single<T: Send + 'static>(
        &self,
        request: Request,
        body: Option<Vec<u8>>,
        fact: impl FnOnce(Proof) -> Option<T> + Send + 'static,
    ) -> BoxFuture<'_, Answer<T>> {
        let (end, ended) = oneshot::channel();
        let of = request.operation.kind();
        self.ask(Ask::Request {
            request: Box::new(request),
            body,
            route: Route::Single(end),
        });
        async move {
            let settled = ended.await.unwrap_or(Settled::Lost);
            signals::fact(signals::answer(of, settled), fact)
        }
        .boxed()
    }

    fn new_request(binding: Binding, operation: Operation) -> Request {
        Request::of(FrameId::new(Uuid::now_v7()), binding, operation)
    }
}

/// Tells a route that its request never left.
pub(super) fn not_sent(route: Route) {
    settle(route, Settled::NotSent(NotSent::Closed));
}

/// Tells a route its end. A receiver that is gone has lost interest.
pub(super) fn settle(route: Route, settled: Settled) {
    match route {
        Route::Single(end) => drop(end.send(settled)),
        Route::Prepare(feed) => drop(feed.try_send(signals::preparation(settled))),
        Route::Run(_, feed) => drop(feed.try_send(signals::start(settled))),
        Route::Export(parts) => drop(parts.send(ExportPart::Settled(settled))),
        Route::Nobody => {}
    }
}

impl Peer for LivePeer {
    fn connection(&self) -> ConnectionId {
        self.connection
    }

    fn device(&self) -> DeviceId {
        self.device
    }

    fn offers(&self) -> Vec<HarnessOffer> {
        self.offers.borrow().clone()
    }

    fn is_bound(&self, binding: &Binding) -> bool {
        self.bound.borrow().contains(binding)
    }

    fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    fn close(&self, reason: CloseReason) {
        self.ask(Ask::Close(reason));
    }

    fn bind(
        &self,
        binding: Binding,
        harness: HarnessId,
        workspace: Option<String>,
    ) -> BoxFuture<'_, Answer<()>> {
        if self.is_bound(&binding) {
            return std::future::ready(Answer::Done(())).boxed();
        }
        let bind = Bind {
            harness,
            workspace_directory: workspace,
        };
        self.single(
            Self::new_request(binding, Operation::Bind(bind)),
            None,
            |proof| (proof == Proof::Bound).then_some(()),
        )
    }

    fn prepare(
        &self,
        binding: Binding,
        prepare: PrepareId,
        configuration: Box<ExecutionConfiguration>,
    ) -> PrepareFeed {
        let (feed, signals) = mpsc::channel(PREPARE_FEED);
        let request = Box::new(Request::prepare(binding, prepare, *configuration));
        self.ask(Ask::Request {
            request,
            body: None,
            route: Route::Prepare(feed),
        });
        signals
    }

    fn release_preparation(&self, binding: Binding, prepare: PrepareId) {
        let operation = Operation::ExecutionRelease(ExecutionRelease {
            prepare_id: prepare,
        });
        self.request(binding, operation, Route::Nobody);
    }

    fn start(&self, binding: Binding, start: Start) -> RunFeed {
        let (feed, signals) = mpsc::channel(RUN_FEED);
        let Start {
            prepare,
            executor,
            run,
            input,
        } = start;
        let start = ExecutionStart {
            prepare_id: prepare,
            executor_id: executor,
            run_id: run,
            input,
        };
        self.request(
            binding,
            Operation::ExecutionStart(start),
            Route::Run(run, feed),
        );
        signals
    }

    fn acknowledge(&self, _binding: Binding, run: RunId, seq: u64) {
        self.ask(Ask::Acknowledge { run_id: run, seq });
    }

    fn input(
        &self,
        binding: Binding,
        run: RunId,
        message: InputMessage,
    ) -> BoxFuture<'_, Answer<()>> {
        self.single(Request::input(binding, run, message), None, |proof| {
            (proof == Proof::Accepted).then_some(())
        })
    }

    fn result(
        &self,
        binding: Binding,
        run: RunId,
        result: ResultDelivery,
    ) -> BoxFuture<'_, Answer<()>> {
        let ResultDelivery {
            id,
            call,
            output,
            failed,
        } = result;
        let result = FunctionResult {
            run_id: run,
            call_id: call,
            delivery_id: id,
            output,
            failed,
        };
        let request = Request::of(
            FrameId::new(id.uuid()),
            binding,
            Operation::FunctionResult(result),
        );
        self.single(request, None, |proof| {
            (proof == Proof::Applied).then_some(())
        })
    }

    fn cancel(
        &self,
        binding: Binding,
        run: RunId,
        reason: CancelReason,
    ) -> BoxFuture<'_, Answer<CancelProof>> {
        let operation = Operation::RunCancel(RunCancel {
            run_id: run,
            reason,
        });
        self.single(
            Self::new_request(binding, operation),
            None,
            |proof| match proof {
                Proof::Cancelled(proof) => Some(proof),
                _ => None,
            },
        )
    }

    fn initialize(
        &self,
        binding: Binding,
        step: InitStep,
        body: Option<Vec<u8>>,
    ) -> BoxFuture<'_, Answer<()>> {
        let operation = Operation::RuntimePrepare(RuntimePrepare {
            budget_ms: STEP_MS,
            step,
        });
        self.single(Self::new_request(binding, operation), body, |proof| {
            (proof == Proof::Installed).then_some(())
        })
    }

    fn export(&self, binding: Binding, have: Vec<HaveFile>) -> ExportFeed {
        let (feed, signals) = mpsc::channel(EXPORT_FEED);
        let (route, parts) = mpsc::unbounded_channel();
        let stream = self.streams.fetch_add(1, Ordering::Relaxed);
        let operation = Operation::WorkspaceExport(WorkspaceExport { stream, have });
        self.request(binding, operation, Route::Export(route));
        tokio::spawn(forward(self.asks.clone(), binding, stream, parts, feed));
        signals
    }

    fn release(&self, binding: Binding, remove_home: bool) -> BoxFuture<'_, Answer<()>> {
        let operation = Operation::Release(Release { remove_home });
        self.single(Self::new_request(binding, operation), None, |proof| {
            matches!(proof, Proof::Released | Proof::HomeRemoved).then_some(())
        })
    }
}

/// Moves an export to its feed at the receiver's pace: bytes are granted as they are taken (RP-15.18).
async fn forward(
    asks: mpsc::Sender<Ask>,
    binding: Binding,
    stream: u32,
    mut parts: mpsc::UnboundedReceiver<ExportPart>,
    feed: mpsc::Sender<ExportSignal>,
) {
    while let Some(part) = parts.recv().await {
        let (signal, bytes, last) = match part {
            ExportPart::Entry(entry) => (
                ExportSignal::Entry {
                    path: entry.path,
                    size: entry.size,
                },
                0,
                false,
            ),
            ExportPart::Bytes(bytes) => {
                let count = bytes.len() as u64;
                (ExportSignal::Bytes(bytes), count, false)
            }
            ExportPart::End { sha256, skipped } => {
                (ExportSignal::EntryEnd { sha256, skipped }, 0, false)
            }
            ExportPart::Settled(Settled::Receipt(protocol::wire::Answer::Ok(
                Proof::Exported { files, bytes },
            ))) => (ExportSignal::Complete { files, bytes }, 0, true),
            ExportPart::Settled(_) => (ExportSignal::Failed, 0, true),
        };
        if feed.send(signal).await.is_err() || last {
            return;
        }
        if bytes > 0
            && asks
                .send(Ask::Credit {
                    binding,
                    stream,
                    bytes,
                })
                .await
                .is_err()
        {
            // The pump is gone; the route says how the export ended.
            continue;
        }
    }
    // The pump went away without a word.
    let _ = feed.send(ExportSignal::Failed).await;
}
