//! What the machine is told and what it asks for.

use super::ending::{Ending, RunEnd};
use super::view::{Delivery, PeerView, Waiting, WorkView};
use crate::run::PrepareCode;
use crate::turn::TurnFailure;
use crate::{ConnectionId, ExecutorId, PrepareId, RunId, TurnId};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A fresh read, after a hint, a finished effect or a second of a running Turn (X15, D28).
    Read {
        /// The store.
        work: WorkView,
        /// The live connection, if there is one.
        peer: Option<PeerView>,
    },
    /// No device can take the Session now.
    NoDevice,
    /// The unit of a [`Effect::ChooseDevice`], [`Effect::Fail`] or [`Effect::Interrupt`] was answered; false if it did not
    /// commit, or nobody knows.
    Written(bool),
    /// `bind` was answered.
    Bound(BindAnswer),
    /// The preparation moved, on this connection.
    Prepare {
        /// Which one; another one's status is inert.
        prepare: PrepareId,
        /// What it says.
        answer: PrepareAnswer,
    },
    /// `Promote` or `ClaimTurn` was answered.
    Claimed(ClaimAnswer),
    /// `execution_start` was answered or could not be sent.
    Start(StartAnswer),
    /// The Run's first event, which may overtake `started` (RP-10.6).
    Event(RunId),
    /// The Runtime answered a message or a result.
    Delivered {
        /// Which one.
        delivery: Delivery,
        /// How.
        answer: DeliveryAnswer,
    },
    /// A message or result was not handed over after all: certainly nothing was sent, and it may be tried again.
    Undelivered(Delivery),
    /// The Runtime answered the cancel.
    Cancelled(CancelAnswer),
    /// The Run ended and everything before it is committed.
    Ended(RunId, RunEnd),
    /// The journal cannot go on (RP-11.9).
    JournalBroken(RunId, JournalFault),
    /// `SettleRun` was answered.
    Settled(SettleAnswer),
    /// The copy of `outputs/` ended.
    Captured(Capture),
    /// `FinishTurn` was answered; false if its commit is not known.
    Finished(bool),
    /// The socket is gone or was replaced.
    PeerLost(ConnectionId),
    /// Time passed.
    Tick,
    /// The execution lease is lost, or the process drains (X18).
    Stop,
}

/// Why a journal cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalFault {
    /// The store failed.
    Storage,
    /// The stream has a gap or overflowed.
    Stream,
    /// A function call came again with other content (RP-14.1).
    Call,
}

impl JournalFault {
    /// The cause that its Turn fails with.
    pub fn cause(self) -> TurnFailure {
        match self {
            Self::Storage => TurnFailure::EventPersistenceFailed,
            Self::Stream => TurnFailure::EventStreamIncomplete,
            Self::Call => TurnFailure::FunctionCallInvalid,
        }
    }
}

/// Answer to `bind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindAnswer {
    /// Bound.
    Done,
    /// Refused, or the socket went away: the next tick starts anew.
    NotNow,
}

/// Answer of a preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareAnswer {
    /// The Executor is ready; nothing native was submitted (RP-10.2).
    Ready(ExecutorId),
    /// It ended without a Run: failed, rejected, expired or released.
    Ended(Option<PrepareCode>),
}

/// Answer of the claiming unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The first receipt of a known commit: the right to one Start (SC-6.4).
    First(TurnId),
    /// Nothing was claimed.
    Refused,
    /// A replay or an unknown commit: no right (X12, ENV-217).
    NoRight,
}

/// Answer to `execution_start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAnswer {
    /// Handed to the socket.
    Sent,
    /// Certainly not handed over.
    Unsent(Unsent),
    /// The Runtime has moved the preparation to the Run.
    Started,
    /// Certainly nothing runs (RP-10.7).
    Rejected,
    /// The socket lives, but no answer came in time, or one that tells nothing: a Run may live (RP-17.1).
    Unknown,
}

/// Why a start was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The socket is gone or takes nothing any more.
    Peer,
    /// What had to be sent could not be read, or cannot be sent to anybody.
    Content,
}

impl Unsent {
    /// The cause that its Turn fails with.
    pub fn failure(self) -> TurnFailure {
        match self {
            Self::Peer => TurnFailure::DeviceDisconnected,
            Self::Content => TurnFailure::PreparationStartFailed,
        }
    }
}

/// Answer to a message or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAnswer {
    /// Confirmed by the harness (RP-12.3).
    Accepted,
    /// Certainly not applied.
    Rejected,
    /// It cannot be told; never sent again (RP-12.4).
    Unknown,
}

/// Answer to `run_cancel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelAnswer {
    /// Native work of the Run has stopped, with the outcome it had (RP-13.2).
    Settled(RunEnd),
    /// `rejected`, `failed`, `unknown` or not settled (K10).
    Unavailable,
}

/// Answer of `SettleRun`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleAnswer {
    /// The Turn is settled; its outputs are to be copied (T15).
    Capture,
    /// It ended in the same unit: a cancel was requested or an input was not applied.
    Finished,
    /// The commit is not known or was refused.
    Unsettled,
}

/// How the copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// Complete and staged.
    Staged,
    /// Refused, lost or over a limit (B4).
    Discarded,
}

/// One thing to do. The actor performs effects in order and feeds the answer back as an [`Input`].
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Unit `BindDevice`: choose the device of a `none` Session once, answered by [`Input::Written`] or
    /// [`Input::NoDevice`].
    ChooseDevice,
    /// → `bind`.
    Bind(ConnectionId),
    /// → `execution_prepare`.
    Prepare {
        /// The handle.
        prepare: PrepareId,
        /// What it prepares for.
        waiting: Waiting,
    },
    /// → `execution_release`; no answer is awaited.
    Release(PrepareId),
    /// Unit `Promote` or `ClaimTurn`.
    Claim {
        /// What is claimed.
        waiting: Waiting,
        /// The Run's id, never used before.
        run: RunId,
    },
    /// Subscribe to the Run, then → `execution_start`. Asked once in the life of a Turn.
    Start {
        /// The preparation.
        prepare: PrepareId,
        /// The Executor that `ready` named.
        executor: ExecutorId,
        /// The Run.
        run: RunId,
        /// The Turn.
        turn: TurnId,
    },
    /// → `run_input` or `function_result`.
    Deliver(RunId, Delivery),
    /// Unit `ConfirmInput` or `ApplyResult`.
    Confirm(Delivery, DeliveryAnswer),
    /// → `run_cancel`, answered within [`super::CANCEL_CONFIRMATION`].
    Cancel(RunId),
    /// → `run_cancel`, best effort, not awaited (D30).
    Abandon(RunId),
    /// Unit `SettleRun`.
    Settle {
        /// The Turn.
        turn: TurnId,
        /// The Run.
        run: RunId,
    },
    /// → `workspace_export` into staged blobs.
    Capture(RunId),
    /// Unit `FinishTurn`, with the staged files if there are any.
    Finish {
        /// The Turn.
        turn: TurnId,
        /// The Run.
        run: RunId,
        /// The proposal.
        ending: Ending,
    },
    /// Unit `FailReservation` or `FailQueuedTurn` (R5, T5), answered by [`Input::Written`].
    Fail(Waiting),
    /// Unit `InterruptTurn`: a claim that no flight of this process owns (T23), answered by [`Input::Written`].
    Interrupt {
        /// The Turn.
        turn: TurnId,
        /// Its Run.
        run: RunId,
    },
    /// Wait with growing delay before the next attempt (X8).
    Backoff,
    /// Read the store again and come back with [`Input::Read`].
    Read,
    /// Nothing is left to do for this Session until a hint or the next scan.
    Rest,
}
