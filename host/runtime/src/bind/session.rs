//! The task of one bound Session.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use domain::{
    FrameId, PrepareId, RunId,
    run::{Binding, ExecutionConfiguration, HarnessId, PrepareCode, PrepareState, PrepareStatus},
};
use protocol::wire::{Answer, Chunk, Code, ExportEntry, ExportEntryEnd, Operation, RequestType, RunEvents};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    admission::{Admission, Stage},
    exporting::Exports,
    shared::{Occupancy, Shared},
};
use crate::{
    ask::Ask,
    execute::{Executor, Reported},
    place::OwnPlace,
};

/// Admissions that are remembered after their end, so that a repeat is answered from memory (RP-6.2).
const REMEMBERED: usize = 64;
/// Ended Runs whose outcome a late cancel is told.
const ENDED_RUNS: usize = 64;

/// What a Session is told.
#[derive(Debug)]
pub enum Order {
    /// A request under this binding.
    Request(FrameId, Box<Operation>),
    /// Events up to this number are committed.
    Acknowledge(RunId, u64),
    /// An export may send so many bytes more.
    Credit(u32, u64),
    /// The connection is gone: its admissions and transfers with it (state-machines 1.10).
    Disconnected,
    /// A new connection stands; Core goes on with these Runs only.
    Connected(Vec<RunId>),
    /// The daemon ends: close the Executor, then end.
    ShutDown,
}

/// What a Session tells Core.
#[derive(Debug)]
pub enum Outgoing {
    /// A receipt.
    Answer(Binding, Ask, Answer),
    /// An observation of an admission.
    Status(Binding, PrepareStatus),
    /// Events of a Run.
    Events(Binding, RunEvents),
    /// A file of an export begins.
    ExportEntry(Binding, ExportEntry),
    /// Bytes of it.
    Chunk(Chunk),
    /// It is complete.
    ExportEntryEnd(Binding, ExportEntryEnd),
}

/// The handle of a bound Session.
#[derive(Debug)]
pub struct Session {
    binding: Binding,
    orders: mpsc::UnboundedSender<Order>,
    task: tokio::task::JoinHandle<()>,
}

impl Session {
    /// Binds: starts the task. `harness` is the Session's, all its configurations must name it.
    #[must_use]
    pub fn spawn(binding: Binding, harness: HarnessId, shared: Arc<Shared>, out: mpsc::UnboundedSender<Outgoing>) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let task = tokio::spawn(Task::new(binding, harness, shared, out).live(inbox));
        Self { binding, orders, task }
    }

    /// Its authority.
    #[must_use]
    pub fn binding(&self) -> Binding {
        self.binding
    }

    /// Tells it something. A released Session answers everything with `binding_stale` as long as it lives.
    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Whether its task has ended: it was released and everything of it is gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits until everything of it has ended.
    pub async fn ended(self) {
        drop(self.orders);
        let _ = self.task.await;
    }
}

/// The Executor of a Session.
pub(super) struct Live {
    pub(super) executor: Executor,
    pub(super) configuration: ExecutionConfiguration,
    pub(super) state: LiveState,
    /// How long it may be without work.
    pub(super) idle: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiveState {
    Preparing,
    Idle { since: Instant },
    /// Pinned by an admission that is ready (D11).
    Reserved(PrepareId),
    Running(RunId),
    /// Takes no more work; the code tells why it never became ready, if so.
    Closing(Option<PrepareCode>),
}

pub(super) struct Task {
    pub(super) binding: Binding,
    pub(super) harness: HarnessId,
    pub(super) shared: Arc<Shared>,
    out: mpsc::UnboundedSender<Outgoing>,
    pub(super) connected: bool,
    /// Requests of the present connection that wait for a final receipt.
    open: HashSet<FrameId>,
    pub(super) admissions: VecDeque<Admission>,
    /// Configurations of admissions that wait for the Executor.
    pub(super) waiting: HashMap<PrepareId, ExecutionConfiguration>,
    pub(super) place: Option<Arc<OwnPlace>>,
    pub(super) live: Option<Live>,
    pub(super) reports: mpsc::UnboundedReceiver<Reported>,
    pub(super) reporter: mpsc::UnboundedSender<Reported>,
    pub(super) run: Option<(RunId, u64)>,
    pub(super) ended_runs: VecDeque<(RunId, Answer)>,
    pub(super) exports: Exports,
    /// A release that waits for the Executor's end: remove the home?
    pub(super) releasing: Option<(Ask, bool)>,
    pub(super) shutting_down: bool,
    /// A former Executor could not be confirmed gone; its place is kept (RP-17.1).
    pub(super) unconfirmed: bool,
    pub(super) over: bool,
}

impl Task {
    fn new(binding: Binding, harness: HarnessId, shared: Arc<Shared>, out: mpsc::UnboundedSender<Outgoing>) -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        let exports = Exports::new(binding, out.clone());
        Self {
            binding,
            harness,
            shared,
            out,
            connected: true,
            open: HashSet::new(),
            admissions: VecDeque::new(),
            waiting: HashMap::new(),
            place: None,
            live: None,
            reports,
            reporter,
            run: None,
            ended_runs: VecDeque::new(),
            exports,
            releasing: None,
            shutting_down: false,
            unconfirmed: false,
            over: false,
        }
    }

    async fn live(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while !self.over {
            let deadline = self.deadline();
            tokio::select! {
                biased;
                Some(reported) = self.reports.recv() => self.reported(reported),
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => self.shut_down(),
                },
                Some(finished) = self.exports.finished() => {
                    let (ask, answer) = finished;
                    self.answer(ask, answer);
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => self.tick(),
            }
            self.settle_in().await;
            self.publish();
        }
        if !self.unconfirmed {
            self.shared.vacate(self.binding.session);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let admissions = self.admissions.iter().filter_map(Admission::expires);
        let idle = self.live.as_ref().and_then(|live| match live.state {
            LiveState::Idle { since } => Some(since + live.idle),
            _ => None,
        });
        admissions.chain(idle).min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.admissions.iter().filter(|a| a.expires().is_some_and(|at| at <= now)).map(Admission::id).collect();
        for id in due {
            self.give_up(id, PrepareState::Expired);
        }
        if let Some(Live { state: LiveState::Idle { since }, idle, .. }) = &self.live
            && *since + *idle <= now
        {
            tracing::debug!(session = %self.binding.session, "an idle Executor is closed");
            self.close_executor(None);
        }
    }

    /// Ends an admission before its start. An Executor that it made ready stays, idle (RP-10.8).
    pub(super) fn give_up(&mut self, id: PrepareId, state: PrepareState) {
        self.waiting.remove(&id);
        if let Some(admission) = self.admissions.iter_mut().find(|a| a.id() == id) {
            let status = admission.end(state);
            self.tell(status);
        }
        if let Some(live) = &mut self.live {
            let pinned = live.state == LiveState::Reserved(id);
            if pinned {
                live.state = LiveState::Idle { since: Instant::now() };
            } else if live.state == LiveState::Preparing && self.waiting.is_empty() && state == PrepareState::Expired {
                // Five minutes were not enough, so nothing says that it will ever be ready.
                self.close_executor(Some(PrepareCode::PreparationFailed));
            }
        }
    }

    pub(super) fn close_executor(&mut self, why: Option<PrepareCode>) {
        if let Some(live) = &mut self.live
            && !matches!(live.state, LiveState::Closing(_))
        {
            live.state = LiveState::Closing(why);
            live.executor.order(crate::execute::Order::Close);
        }
    }

    pub(super) fn admission(&mut self, id: PrepareId) -> Option<&mut Admission> {
        self.admissions.iter_mut().find(|a| a.id() == id)
    }

    /// Records a new admission; the oldest that is over makes room.
    pub(super) fn admit(&mut self, id: PrepareId) {
        if self.admissions.len() >= REMEMBERED
            && let Some(at) = self.admissions.iter().position(|a| a.stage == Stage::Over)
        {
            self.admissions.remove(at);
        }
        let mut admission = Admission::new(id, Instant::now());
        let status = admission.observe(PrepareState::Preparing);
        self.admissions.push_back(admission);
        self.tell(status);
    }

    pub(super) fn remember(&mut self, run: RunId, proof: Answer) {
        if self.ended_runs.len() == ENDED_RUNS {
            self.ended_runs.pop_front();
        }
        self.ended_runs.push_back((run, proof));
    }

    /// A request of the present connection begins.
    pub(super) fn opened(&mut self, re: FrameId) {
        self.open.insert(re);
    }

    /// A status answered this request.
    pub(super) fn settled_by_status(&mut self, ask: Ask) {
        self.open.remove(&ask.re);
    }

    /// Nobody waits for receipts any more.
    pub(super) fn forget_requests(&mut self) {
        self.open.clear();
    }

    /// The one answer of a request, or its progress. Receipts of an older connection are never sent on a newer one.
    pub(super) fn answer(&mut self, ask: Ask, answer: Answer) {
        let known = if answer.is_final() { self.open.remove(&ask.re) } else { self.open.contains(&ask.re) };
        if known && self.connected {
            self.send(Outgoing::Answer(self.binding, ask, answer));
        }
    }

    pub(super) fn reject(&mut self, ask: Ask, code: impl Into<Code>) {
        self.answer(ask, Answer::Rejected(code.into()));
    }

    pub(super) fn tell(&mut self, status: PrepareStatus) {
        // The status is the answer of the request that made the admission.
        self.open.remove(&FrameId::new(status.prepare_id.uuid()));
        if self.connected {
            self.send(Outgoing::Status(self.binding, status));
        }
    }

    pub(super) fn send(&self, outgoing: Outgoing) {
        // The link is gone only when the daemon ends.
        let _ = self.out.send(outgoing);
    }

    pub(super) fn workspace(&self) -> Option<PathBuf> {
        self.binding.environment.and(self.shared.workspace.clone())
    }

    fn publish(&self) {
        let state = self.live.as_ref().map(|live| live.state);
        let occupancy = Occupancy {
            preparing: state == Some(LiveState::Preparing),
            executor: state.is_some() || self.unconfirmed,
            closing: matches!(state, Some(LiveState::Closing(_))) || self.unconfirmed,
            run: self.run.map(|(run, seq)| Shared::held_run(run, self.binding, seq)),
        };
        self.shared.occupy(self.binding.session, occupancy);
    }

    pub(super) fn ask(re: FrameId, of: RequestType) -> Ask {
        Ask { re, of }
    }
}
