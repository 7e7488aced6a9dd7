//! The port between Core and a connected Runtime: what the scheduler may ask of one live socket.
//!
//! The gateway implements it over `protocol::core_end`; tests implement it with a script. Every answer keeps apart what is
//! certain and what is not (RP-5): a value that says "refused" or "not sent" proves that nothing happened, everything that
//! was lost on the way is its own case. A [`Peer`] is one socket and never another one: after it closed, all of its answers
//! are losses, and work that needs a Runtime looks the device up again in [`Peers`] (SC-9.4).

mod feed;

use std::fmt::Debug;
use std::sync::Arc;

use domain::run::{
    Binding, ExecutionConfiguration, HarnessId, HarnessOffer, InputMessage, PrepareCode,
    RefusalCode,
};
use domain::{ConnectionId, DeliveryId, DeviceId, ExecutorId, PrepareId, RunId};
use futures_util::future::BoxFuture;
use protocol::wire::{CancelProof, CancelReason, CloseReason, HaveFile, InitStep};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use feed::{
    ExportFeed, ExportSignal, PrepareFeed, PrepareSignal, RunBreak, RunFeed, RunSignal,
};

/// The live connections of this process (SC-9.4).
pub trait Peers: Send + Sync + Debug {
    /// The open connection of a device, if there is one.
    fn of(&self, device: DeviceId) -> Option<Arc<dyn Peer>>;

    /// Every open connection.
    fn connected(&self) -> Vec<Arc<dyn Peer>>;

    /// Whether this socket is here, greeted or not, or its end is still being recorded. What the store says of any other is
    /// over.
    fn is_here(&self, connection: ConnectionId) -> bool;

    /// Changes with every connection that opens or ends, and with every declaration that narrows: a reason to look again.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Closes whatever connection the device has.
    fn close(&self, device: DeviceId, reason: CloseReason);

    /// Closes every socket as `core_shutdown`, takes no new one, and waits until their ends are recorded.
    fn shut_down(&self) -> BoxFuture<'_, ()>;

    /// Closes this socket as `revoked`, if it is still open.
    fn revoke(&self, connection: ConnectionId);
}

/// How a question to the Runtime ended if not by an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// The frame was never handed to the socket: certainly nothing happened.
    NotSent,
    /// The socket went away or the time ran out: an effect is possible (RP-5.2).
    Unknown,
}

/// Answer of an operation that proves one fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// The fact.
    Done(T),
    /// Certainly nothing happened.
    Rejected(RefusalCode),
    /// It ran and is settled as a failure; npm, python and setup steps add their exit code (RP-5.3).
    Failed {
        /// Why.
        code: RefusalCode,
        /// 1 to 255.
        exit_code: Option<u8>,
    },
    /// Nobody knows, or it was not sent.
    Unanswered(Unanswered),
}

/// What `execution_start` carries.
#[derive(Debug, Clone)]
pub struct Start {
    /// The ready admission.
    pub prepare: PrepareId,
    /// Its Executor.
    pub executor: ExecutorId,
    /// The Run, never used before.
    pub run: RunId,
    /// Messages in admitted order.
    pub input: Vec<InputMessage>,
}

/// What a function result carries (RP-14).
#[derive(Debug, Clone)]
pub struct ResultDelivery {
    /// Its identity.
    pub id: DeliveryId,
    /// The call.
    pub call: String,
    /// Text of the result.
    pub output: String,
    /// The function failed.
    pub failed: bool,
}

/// One live, authenticated and greeted socket.
pub trait Peer: Send + Sync + Debug {
    /// This socket.
    fn connection(&self) -> ConnectionId;

    /// Its device.
    fn device(&self) -> DeviceId;

    /// What the Runtime offers now; empty before its first declaration (RP-3.9).
    fn offers(&self) -> Vec<HarnessOffer>;

    /// It offers this harness, and the harness can run there.
    fn can_run(&self, harness: &HarnessId) -> bool {
        self.offers()
            .iter()
            .any(|offer| offer.id == *harness && offer.available)
    }

    /// Whether this socket has bound exactly this authority (RP-8.1).
    fn is_bound(&self, binding: &Binding) -> bool;

    /// Cancelled when the socket is gone.
    fn closed(&self) -> CancellationToken;

    /// Ends the socket.
    fn close(&self, reason: CloseReason);

    /// `bind`. For a workspace placement the observation `connected` is committed before this answers (C2, D20).
    fn bind(
        &self,
        binding: Binding,
        harness: HarnessId,
        workspace: Option<String>,
    ) -> BoxFuture<'_, Answer<()>>;

    /// `execution_prepare`; the feed is subscribed before the frame leaves (RP-10.1).
    fn prepare(
        &self,
        binding: Binding,
        prepare: PrepareId,
        configuration: Box<ExecutionConfiguration>,
    ) -> PrepareFeed;

    /// `execution_release`; nobody waits for its answer (RP-10.8).
    fn release_preparation(&self, binding: Binding, prepare: PrepareId);

    /// `execution_start`, once; the feed is subscribed before the frame leaves (RP-10.6).
    fn start(&self, binding: Binding, start: Start) -> RunFeed;

    /// Events of the Run up to `seq` are committed (RP-11.2).
    fn acknowledge(&self, binding: Binding, run: RunId, seq: u64);

    /// `run_input`, answered by its final receipt (RP-12).
    fn input(
        &self,
        binding: Binding,
        run: RunId,
        message: InputMessage,
    ) -> BoxFuture<'_, Answer<()>>;

    /// `function_result` (RP-14).
    fn result(
        &self,
        binding: Binding,
        run: RunId,
        result: ResultDelivery,
    ) -> BoxFuture<'_, Answer<()>>;

    /// `run_cancel` (RP-13).
    fn cancel(
        &self,
        binding: Binding,
        run: RunId,
        reason: CancelReason,
    ) -> BoxFuture<'_, Answer<CancelProof>>;

    /// One step of the initialization, with the bytes of a step that has some (RP-9).
    fn initialize(
        &self,
        binding: Binding,
        step: InitStep,
        body: Option<Vec<u8>>,
    ) -> BoxFuture<'_, Answer<()>>;

    /// `workspace_export` of `outputs/`; bytes come as fast as the feed is read (RP-15.18).
    fn export(&self, binding: Binding, have: Vec<HaveFile>) -> ExportFeed;

    /// `release` under the advanced epoch (RP-8.4, RP-8.5).
    fn release(&self, binding: Binding, remove_home: bool) -> BoxFuture<'_, Answer<()>>;
}

/// Why a start was refused, as the feed of the Run reports it.
pub type StartRefusal = PrepareCode;
