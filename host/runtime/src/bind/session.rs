//! The task of one bound Session.

use std::{path::PathBuf, sync::Arc, time::Duration};

use domain::{
    FrameId, PrepareId, RunId,
    run::{Binding, ExecutionConfiguration, HarnessId, PrepareCode},
};
use protocol::{
    runtime_end::{Command, Work},
    wire::{Answer, Code},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    exporting::Exports,
    seats::{Claim, Occupancy},
    shared::Shared,
};
use crate::execute::{self, Executor, Reported};

/// An Executor that is not ready by then never will be; early enough to say so before its admission ends (RP-10.4).
const PREPARE_WITHIN: Duration = Duration::from_secs(120);

/// What a Session is told.
#[derive(Debug)]
pub enum Order {
    /// The same authority under a newer epoch.
    Bound(Binding),
    /// A piece of work of this Session.
    Work(Work),
    /// An admission ended before its start.
    AdmissionEnded(PrepareId),
    /// Events up to this number are committed.
    Acknowledged(RunId, u64),
    /// An export may send so many bytes more.
    Credit(u32, u64),
    /// Core has given the Run up: end it, tell nobody.
    Abandon(RunId),
    /// The connection is gone, and its transfers with it.
    Disconnected,
    /// Another Session needs the place: close the Executor, if it is idle.
    MakeRoom,
    /// A place may be free: ask for it again.
    Room,
    /// The daemon ends: close the Executor, then end.
    ShutDown,
}

/// The handle of a bound Session.
#[derive(Debug)]
pub struct Session {
    orders: mpsc::UnboundedSender<Order>,
    task: tokio::task::JoinHandle<()>,
}

impl Session {
    /// Starts the task. `harness` is the Session's; each of its configurations must name it.
    #[must_use]
    pub fn spawn(
        binding: Binding,
        harness: Option<HarnessId>,
        shared: Arc<Shared>,
        out: mpsc::UnboundedSender<Command>,
    ) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        shared.seats.enter(binding.session, orders.downgrade());
        let task = tokio::spawn(Task::new(binding, harness, shared, out).live(inbox));
        Self { orders, task }
    }

    /// Tells it something.
    pub fn order(&self, order: Order) {
        // A Session that has ended was released or shut down, and answered everything before.
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
    pub(super) state: State,
    /// It was told to close while a Run was not over: the Run's place is free once it is gone (SC-4.6).
    pub(super) closed_at_work: bool,
    /// How long it may be without work.
    pub(super) idle: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Preparing {
        since: Instant,
    },
    Idle {
        since: Instant,
    },
    /// Pinned by an admission that is ready (D11).
    Reserved(PrepareId),
    Running(RunId),
    /// Takes no more work; the code tells why it never became ready, if so.
    Closing(Option<PrepareCode>),
}

pub(super) struct Task {
    pub(super) binding: Binding,
    pub(super) harness: Option<HarnessId>,
    pub(super) shared: Arc<Shared>,
    out: mpsc::UnboundedSender<Command>,
    /// The admission that waits for the Executor; there is at most one.
    pub(super) waiting: Option<(PrepareId, ExecutionConfiguration)>,
    pub(super) live: Option<Live>,
    pub(super) reports: mpsc::UnboundedReceiver<Reported>,
    pub(super) reporter: mpsc::UnboundedSender<Reported>,
    pub(super) exports: Exports,
    /// A release that waits for the Executor's end: remove the home?
    pub(super) releasing: Option<(FrameId, bool)>,
    pub(super) shutting_down: bool,
    /// A former Executor could not be confirmed gone; its place is kept (RP-17.1).
    pub(super) unconfirmed: bool,
    pub(super) over: bool,
}

impl Task {
    pub(super) fn new(
        binding: Binding,
        harness: Option<HarnessId>,
        shared: Arc<Shared>,
        out: mpsc::UnboundedSender<Command>,
    ) -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        let exports = Exports::new(binding, out.clone());
        Self {
            binding,
            harness,
            shared,
            out,
            waiting: None,
            live: None,
            reports,
            reporter,
            exports,
            releasing: None,
            shutting_down: false,
            unconfirmed: false,
            over: false,
        }
    }

    pub(super) async fn live(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        // A closed channel is always ready, so it is asked once.
        let mut listening = true;
        while !self.over {
            let deadline = self.deadline();
            tokio::select! {
                biased;
                Some(reported) = self.reports.recv() => self.reported(reported),
                order = orders.recv(), if listening => match order {
                    Some(order) => self.obey(order).await,
                    None => {
                        listening = false;
                        self.shut_down();
                    }
                },
                Some((id, answer)) = self.exports.finished() => self.answer(id, answer),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => self.tick(),
            }
            self.settle_in().await;
            self.publish();
        }
        if !self.unconfirmed {
            self.shared.seats.leave(self.binding.session);
            self.send(Command::Active(self.shared.seats.active()));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.live.as_ref().and_then(|live| match live.state {
            State::Idle { since } => Some(since + live.idle),
            State::Preparing { since } => Some(since + PREPARE_WITHIN),
            State::Reserved(_) | State::Running(_) | State::Closing(_) => None,
        })
    }

    fn tick(&mut self) {
        let late = self.deadline().is_some_and(|at| at <= Instant::now());
        match self.live.as_ref().map(|live| live.state) {
            Some(State::Idle { .. }) if late => {
                tracing::debug!(session = %self.binding.session, "an idle Executor is closed");
                self.close_executor(None);
            }
            Some(State::Preparing { .. }) if late => {
                self.close_executor(Some(PrepareCode::PreparationFailed))
            }
            _ => {}
        }
    }

    pub(super) fn close_executor(&mut self, why: Option<PrepareCode>) {
        if let Some(live) = &mut self.live
            && !matches!(live.state, State::Closing(_))
        {
            live.closed_at_work = matches!(live.state, State::Running(_));
            live.state = State::Closing(why);
            live.executor.order(execute::Order::Close);
        }
    }

    /// Gives the waiting admission the Executor, or makes one, once that is possible; ends what waits for the Executor's end.
    async fn settle_in(&mut self) {
        if self.live.is_none() {
            // RP-8.5: everything else has answered before.
            if self.exports.is_idle()
                && let Some((id, remove_home)) = self.releasing.take()
            {
                return self.finish_release(id, remove_home).await;
            }
            if self.shutting_down {
                self.over = true;
                return;
            }
        }
        match (self.live.as_mut().map(|live| live.state), &self.waiting) {
            (Some(State::Idle { .. }), Some((prepare_id, _))) => {
                let prepare_id = *prepare_id;
                self.waiting = None;
                self.reserve(prepare_id);
            }
            (None, Some((prepare_id, configuration))) => {
                let (prepare_id, configuration) = (*prepare_id, configuration.clone());
                let opened = match self.shared.seats.claim(self.binding.session) {
                    Claim::Granted => self.open(configuration).await,
                    Claim::Wait => return,
                    Claim::Full => Err(PrepareCode::Capacity),
                };
                if let Err(code) = opened {
                    self.waiting = None;
                    self.send(Command::PrepareFailed {
                        prepare_id,
                        code,
                        rejected: true,
                    });
                }
            }
            (Some(_), Some(_)) | (_, None) => {}
        }
    }

    fn reserve(&mut self, prepare_id: PrepareId) {
        if let Some(live) = &mut self.live {
            live.state = State::Reserved(prepare_id);
            let executor_id = live.executor.id();
            self.send(Command::Prepared {
                prepare_id,
                executor_id,
            });
        }
    }

    pub(super) fn answer(&self, id: FrameId, answer: Answer) {
        self.send(Command::Answer { id, answer });
    }

    pub(super) fn reject(&self, id: FrameId, code: impl Into<Code>) {
        self.answer(id, Answer::Rejected(code.into()));
    }

    pub(super) fn send(&self, command: Command) {
        // Core may use a free place as soon as it hears of it, so the place is free before.
        if !matches!(command, Command::Events(_)) {
            self.publish();
        }
        self.tell(command);
    }

    fn tell(&self, command: Command) {
        // The link is gone only when the daemon ends.
        let _ = self.out.send(command);
    }

    /// The Session's workspace; none for Environment type `none`.
    pub(super) fn workspace(&self) -> Option<PathBuf> {
        self.binding.environment.and(self.shared.workspace.clone())
    }

    /// The Run that the Executor has.
    pub(super) fn run(&self) -> Option<RunId> {
        match self.live.as_ref()?.state {
            State::Running(run) => Some(run),
            State::Preparing { .. }
            | State::Idle { .. }
            | State::Reserved(_)
            | State::Closing(_) => None,
        }
    }

    fn publish(&self) {
        let state = self.live.as_ref().map(|live| live.state);
        let at_work = matches!(state, Some(State::Reserved(_) | State::Running(_)))
            || self.live.as_ref().is_some_and(|live| live.closed_at_work);
        let occupancy = Occupancy {
            admitted: at_work || self.waiting.is_some(),
            preparing: matches!(state, Some(State::Preparing { .. })),
            executor: state.is_some() || self.unconfirmed,
            closing: matches!(state, Some(State::Closing(_))) || self.unconfirmed,
            run: self.run().is_some(),
            unconfirmed: self.unconfirmed,
            idle_since: match state {
                Some(State::Idle { since }) => Some(since),
                _ => None,
            },
            waits: state.is_none() && self.waiting.is_some(),
        };
        let seats = &self.shared.seats;
        if seats.occupy(self.binding.session, occupancy) {
            self.tell(Command::Active(seats.active()));
        }
    }
}
