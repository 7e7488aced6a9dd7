//! What goes into Core's end of a connection and what comes out of it.

use domain::run::{Binding, HarnessOffer, PrepareStatus, RunEvent};
use domain::{ConnectionId, DeviceId, FrameId, InstallationId, RunId};

use crate::wire::{
    Active, Answer, CloseReason, ExportEntry, Fault, Hello, Limits, Message, Progress, Request,
    RequestType,
};

/// What is fixed for one connection.
#[derive(Debug, Clone)]
pub struct CoreSettings {
    /// This socket.
    pub connection_id: ConnectionId,
    /// The device whose credential opened it.
    pub device_id: DeviceId,
    /// This installation.
    pub installation_id: InstallationId,
    /// Epoch of this Core's lease.
    pub owner_epoch: u64,
    /// Heartbeat interval in milliseconds.
    pub heartbeat_ms: u64,
    /// Silence that closes, in milliseconds.
    pub idle_close_ms: u64,
    /// Features offered (RP-3.5).
    pub features: Vec<String>,
    /// Limits that the Runtime obeys.
    pub limits: Limits,
}

/// What Core wants of the connection.
#[derive(Debug)]
pub enum Command {
    /// The `hello` is registered in the store. No held Run goes on, so the Runtime cancels each (architecture 10).
    Welcome,
    /// Sends a request, with the body that follows it in chunks.
    Request {
        /// The request.
        request: Box<Request>,
        /// Body of a step or write that has one.
        body: Option<Vec<u8>>,
    },
    /// Events up to `seq` are committed (RP-11.2).
    Acknowledge {
        /// The Run.
        run_id: RunId,
        /// Cumulative.
        seq: u64,
    },
    /// The bytes of an export were taken over, so as many more may come.
    Credit {
        /// Binding of the export.
        binding: Binding,
        /// Its stream.
        stream: u32,
        /// Bytes.
        bytes: u64,
    },
    /// Nobody waits for the answers of this request any more; late ones are dropped.
    Forget {
        /// The request.
        id: FrameId,
    },
    /// Nobody observes this Run any more.
    ForgetRun {
        /// The Run.
        run_id: RunId,
    },
    /// Ends the connection.
    Close {
        /// Why.
        reason: CloseReason,
        /// When the Runtime may come back.
        retry_after_ms: Option<u64>,
    },
}

/// How a request ended, or why nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// A final receipt.
    Receipt(Answer),
    /// The status `started`, or the first event of the Run (RP-10.6).
    Started,
    /// The frame was never handed to the socket: certainly nothing happened.
    NotSent(NotSent),
    /// The connection ended before a receipt: unknown (RP-5.2).
    Lost,
    /// No receipt in the time of its kind: unknown (RP-12.2, RP-13.3).
    TimedOut,
}

/// Why a frame was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSent {
    /// The connection is not open.
    Closed,
    /// The Session is not bound on this connection (RP-8.1).
    NotBound,
    /// The frame exceeds the limit of its type (RP-4).
    TooLong,
    /// More admissions than a connection holds (RP-10.13).
    TooManyAdmissions,
    /// The same id was used before on this connection (RP-6.2).
    Repeated,
}

/// Why the observation of a Run ended without `done` (RP-11.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunBreak {
    /// The connection ended.
    Lost,
    /// An event number was left out (RP-11.2).
    Gap,
    /// More events than the window allows without acknowledgement (RP-11.11).
    Overflow,
}

/// What Core learns.
#[derive(Debug, PartialEq, Eq)]
pub enum Notice {
    /// A valid `hello`: register it, then [`Command::Welcome`].
    Hello(Box<Hello>),
    /// Sign of life; authenticate the credential again (RP-3.12).
    Heartbeat {
        /// Counters, a hint only.
        active: Active,
        /// What the Runtime offers now, if it narrowed.
        offers: Option<Vec<HarnessOffer>>,
    },
    /// The Runtime offers this from now on; it may be more than before.
    Offers(Vec<HarnessOffer>),
    /// The Session is bound on this connection.
    Bound(Binding),
    /// The start frame was handed to the socket: from here on an effect is possible.
    StartSent {
        /// The Run.
        run_id: RunId,
    },
    /// A request progressed.
    Progress {
        /// The request.
        id: FrameId,
        /// How far.
        progress: Progress,
    },
    /// A request ended.
    Settled {
        /// The request.
        id: FrameId,
        /// Its type.
        of: RequestType,
        /// How.
        settled: Settled,
    },
    /// A new observation of an admission (RP-10.3). After a final state nothing more is said about its request.
    Prepare {
        /// Its binding.
        binding: Binding,
        /// The observation.
        status: PrepareStatus,
    },
    /// Events of a Run, in order and without gap or repeat.
    Events {
        /// The Run.
        run_id: RunId,
        /// Number of the first.
        seq: u64,
        /// The events.
        events: Vec<RunEvent>,
    },
    /// No more events of this Run will come.
    RunBroken {
        /// The Run.
        run_id: RunId,
        /// Why.
        why: RunBreak,
    },
    /// A file of an export begins.
    ExportEntry {
        /// The export.
        id: FrameId,
        /// The file.
        entry: ExportEntry,
    },
    /// Bytes of the file that began last.
    ExportBytes {
        /// The export.
        id: FrameId,
        /// Bytes in order.
        bytes: Vec<u8>,
    },
    /// The file is complete.
    ExportEntryEnd {
        /// The export.
        id: FrameId,
        /// SHA-256 of its bytes.
        sha256: String,
        /// No bytes were sent, Core has them.
        skipped: bool,
    },
    /// The Runtime announced that it leaves.
    Goodbye(CloseReason),
    /// A frame of the peer was not usable; for the log.
    Faulty(Box<Fault>),
}

/// What comes out.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this message.
    Send(Message),
    /// Tell Core.
    Notice(Notice),
    /// Close the socket with this reason; nothing follows.
    Close(CloseReason),
}
