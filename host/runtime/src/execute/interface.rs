//! What an Executor is made of, what it is told and what it tells.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use domain::{
    ExecutorId, FrameId, RunId, Secret,
    run::{Cancellation, InputMessage, PluginIdentity, PrepareCode, TurnStatus},
};
use plugin_host::contract::{HarnessSession, harness_io::FunctionResult};
use protocol::wire::{Answer, RunEvents};

use crate::{place::Place, relay::Grant};

/// The installed programs of a harness.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// Program name of a launch plan to absolute path.
    pub by_name: BTreeMap<String, PathBuf>,
    /// Folders that go first in PATH.
    pub path: Vec<PathBuf>,
}

/// What an Executor is made of.
pub struct Setup {
    /// Its identity; also in the adapter's configuration.
    pub id: ExecutorId,
    /// The opened adapter.
    pub session: Box<dyn HarnessSession>,
    /// The plugin that it comes from.
    pub plugin: PluginIdentity,
    /// Where it works.
    pub place: Arc<dyn Place>,
    /// Its right to the model relay: address and grant.
    pub relay: Option<(String, Grant)>,
    /// The harness's programs.
    pub programs: Programs,
    /// The Session's own variables.
    pub env: Vec<(String, Secret)>,
    /// Declared: how long a cancel takes.
    pub cancellation: Cancellation,
    /// Declared: seconds without content, 0 = default (F03).
    pub silence_limit_s: u32,
    /// Declared: seconds of a Turn, 0 = default (F03).
    pub turn_limit_s: u32,
}

/// What an Executor is told.
#[derive(Debug)]
pub enum Order {
    /// Begin a Run. Only after `Prepared(Ok)`, one at a time.
    Start {
        /// The Run.
        run: RunId,
        /// Its messages.
        input: Vec<InputMessage>,
    },
    /// One more message for the Run.
    Input(FrameId, RunId, InputMessage),
    /// The result of a function call of the Run.
    Result(FrameId, RunId, FunctionResult),
    /// Cancel the Run.
    Cancel(FrameId, RunId),
    /// Core has committed the Run's events up to this number.
    Ack(RunId, u64),
    /// Core has lost the Run: end it, tell nobody (state-machines 1.10).
    Abandon,
    /// End the native session and the process. A Run in progress is ended first.
    Close,
}

/// What an Executor tells.
#[derive(Debug)]
pub enum Report {
    /// The preparation is over; after a failure `Closed` follows.
    Prepared(Result<(), PrepareCode>),
    /// The Run exists natively.
    Started(RunId),
    /// Certainly nothing was submitted; the Run never was.
    NotStarted(RunId, PrepareCode),
    /// A receipt.
    Answer(FrameId, Answer),
    /// Events of the Run.
    Events(RunEvents),
    /// The Run is over and the admission free; its last events follow.
    Settled {
        /// The Run.
        run: RunId,
        /// How it ended.
        outcome: TurnStatus,
        /// What a later cancel of it is answered.
        proof: Answer,
    },
    /// It takes no further Run; `Closed` follows.
    Retiring,
    /// It is gone. `clean` = every process is confirmed gone. The last report.
    Closed {
        /// As in RP-16.2.
        clean: bool,
    },
}

/// A report with its sender.
#[derive(Debug)]
pub struct Reported {
    /// The Executor.
    pub executor: ExecutorId,
    /// What it tells.
    pub report: Report,
}
