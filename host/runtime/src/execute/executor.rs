//! The task of one Executor.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use domain::{
    ExecutorId, FrameId, RunId, Secret,
    run::{Cancellation, NativeSession, PluginIdentity, PrepareCode},
};
use plugin_host::{
    contract::{
        HarnessSession,
        harness_io::{Command, Input, Output as Wish, ProcessEnd},
    },
    translate::harness as translate,
};
use protocol::wire::{Answer, Code, RunEvents};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    fill::Fills,
    interface::{Order, Programs, Report, Reported, Setup},
    process::{Facts, Feeds, Output, Running, STOP_GRACE, Written, feeds, survey},
    run::{Do, Limits, Run},
};
use crate::place::Place;

/// Lines of one step, so that one busy process cannot keep a command waiting.
const STEP_LINES: usize = 16;
/// Bytes of one step; one longer line goes alone.
const STEP_BYTES: usize = 256 * 1024;
/// TERM to KILL when a Run must end now: with the grace before and the drain after it still fits into RP-13.3.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// For the native way of closing (TRN-010: the whole stop waits ten seconds).
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// The handle of a running Executor. Dropping it kills the processes.
#[derive(Debug)]
pub struct Executor {
    id: ExecutorId,
    orders: mpsc::UnboundedSender<Order>,
}

impl Executor {
    /// Starts the task, which prepares at once; `Report::Prepared` tells the result.
    #[must_use]
    pub fn spawn(setup: Setup, reports: mpsc::UnboundedSender<Reported>) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let id = setup.id;
        tokio::spawn(Task::new(setup, reports).live(inbox));
        Self { id, orders }
    }

    /// One that does nothing, with what it is told.
    #[cfg(test)]
    pub(crate) fn deaf() -> (Self, mpsc::UnboundedReceiver<Order>) {
        let (orders, told) = mpsc::unbounded_channel();
        let id = ExecutorId::new(uuid::Uuid::now_v7());
        (Self { id, orders }, told)
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> ExecutorId {
        self.id
    }

    /// Tells it something. After `Closed` nobody listens, and every answer was given before.
    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }
}

pub(super) struct Task {
    id: ExecutorId,
    /// None once the adapter has failed: it is never stepped again.
    session: Option<Box<dyn HarnessSession>>,
    plugin: PluginIdentity,
    pub(super) place: Arc<dyn Place>,
    pub(super) fills: Fills,
    pub(super) programs: Programs,
    pub(super) env: Vec<(String, Secret)>,
    limits: Limits,
    reports: mpsc::UnboundedSender<Reported>,
    pub(super) processes: BTreeMap<u32, Running>,
    pub(super) feeds: Feeds,
    facts: Facts,
    pub(super) timers: HashMap<u32, Instant>,
    /// What the adapter has not seen yet.
    pub(super) pending: VecDeque<Input>,
    run: Option<Run>,
    prepared: bool,
    native: Option<NativeSession>,
    /// Some process is not confirmed gone.
    unclean: bool,
    /// It takes no further Run.
    pub(super) doomed: bool,
    /// When what is left of it is ended by force.
    close_by: Option<Instant>,
}

impl Task {
    fn new(setup: Setup, reports: mpsc::UnboundedSender<Reported>) -> Self {
        let (feeds, facts) = feeds();
        let Cancellation {
            settles_within_ms, ..
        } = setup.cancellation;
        Self {
            id: setup.id,
            session: Some(setup.session),
            plugin: setup.plugin,
            place: setup.place,
            fills: Fills { relay: setup.relay },
            programs: setup.programs,
            env: setup.env,
            limits: Limits::new(settles_within_ms, setup.silence_limit_s, setup.turn_limit_s),
            reports,
            processes: BTreeMap::new(),
            feeds,
            facts,
            timers: HashMap::new(),
            pending: VecDeque::new(),
            run: None,
            prepared: false,
            native: None,
            unclean: false,
            doomed: false,
            close_by: None,
        }
    }

    async fn live(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        self.pending.push_back(Input::Command(Command::Prepare(
            uuid::Uuid::now_v7().to_string(),
        )));
        self.advance().await;
        while !self.is_over() {
            let reads = self.run.as_ref().is_none_or(Run::reads);
            let deadline = self.deadline();
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.obey(order),
                    // The handle is gone: nobody needs an answer, only the processes must go.
                    None => break,
                },
                Some(written) = self.facts.written.recv() => self.wrote(written),
                Some(output) = self.facts.output.recv(), if reads => self.heard(output),
                Some(alone) = self.facts.surveyed.recv() => self.tell_run(|run, now, out| run.surveyed(alone, now, out)),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => self.tick(),
            }
            self.advance().await;
        }
        if !self.prepared {
            self.report(Report::Prepared(Err(PrepareCode::PreparationFailed)));
        }
        self.report(Report::Closed {
            clean: !self.unclean,
        });
    }

    fn is_over(&self) -> bool {
        self.doomed && self.processes.is_empty() && !self.has_open_run()
    }

    fn has_open_run(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.outcome().is_none())
    }

    fn deadline(&self) -> Option<Instant> {
        let timers = self.timers.values().copied();
        timers
            .chain(self.close_by)
            .chain(self.run.as_ref().and_then(Run::deadline))
            .min()
    }

    pub(super) fn report(&self, report: Report) {
        // The receiver outlives its Executors, except when the whole daemon goes down.
        let _ = self.reports.send(Reported {
            executor: self.id,
            report,
        });
    }

    fn obey(&mut self, order: Order) {
        let now = Instant::now();
        let mut out = Vec::new();
        match order {
            Order::Start { run, input } => {
                if self.doomed || self.has_open_run() {
                    return self.report(Report::NotStarted(run, PrepareCode::ExecutorUnavailable));
                }
                let plugin = self.plugin.clone();
                let history = self.native.clone();
                let limits = self.limits;
                self.run = Some(Run::start(
                    run, input, plugin, history, limits, now, &mut out,
                ));
            }
            Order::Input(ask, run, message) => match self.current(run) {
                Some(current) => current.input(ask, message, now, &mut out),
                None => self.unknown_run(ask),
            },
            Order::Result(ask, run, result) => match self.current(run) {
                Some(current) => current.result(ask, result, now, &mut out),
                None => self.unknown_run(ask),
            },
            Order::Cancel(ask, run) => match self.current(run) {
                Some(current) => current.cancel(ask, now, &mut out),
                None => self.unknown_run(ask),
            },
            Order::Ack(run, seq) => {
                if let Some(current) = self.current(run) {
                    current.ack(seq);
                }
            }
            Order::Abandon => {
                if let Some(run) = &mut self.run {
                    run.abandon(now, &mut out);
                }
            }
            Order::Close => self.close(now),
        }
        self.carry_out(out);
    }

    fn current(&mut self, id: RunId) -> Option<&mut Run> {
        self.run.as_mut().filter(|run| run.id() == id)
    }

    fn unknown_run(&self, ask: FrameId) {
        let code = Code::Refusal(domain::run::RefusalCode::UnknownRun);
        self.report(Report::Answer(ask, Answer::Rejected(code)));
    }

    fn close(&mut self, now: Instant) {
        if self.close_by.is_some() {
            return;
        }
        self.doom();
        self.close_by = Some(now + CLOSE_WITHIN);
        let mut out = Vec::new();
        match &mut self.run {
            Some(run) if run.outcome().is_none() => run.abandon(now, &mut out),
            _ => self.pending.push_back(Input::Command(Command::Close(
                uuid::Uuid::now_v7().to_string(),
            ))),
        }
        self.carry_out(out);
    }

    pub(super) fn doom(&mut self) {
        if !std::mem::replace(&mut self.doomed, true) && self.prepared {
            self.report(Report::Retiring);
        }
    }

    fn wrote(&mut self, written: Written) {
        match written {
            Written::Whole(ids) => {
                let mut out = Vec::new();
                if let Some(run) = &mut self.run {
                    run.written(&ids, &mut out);
                }
                self.carry_out(out);
            }
            // It reads no more, so no command can reach it any more.
            Written::Stuck(process) => self.stop(process, KILL_GRACE),
        }
    }

    fn heard(&mut self, output: Output) {
        match output {
            Output::Said(inputs) => self.pending.extend(inputs),
            Output::Ended(process, end) => {
                self.processes.remove(&process);
                self.unclean |= !end.empty;
                let (exit_code, signal, clean) = (end.exit_code, end.signal, end.clean);
                self.pending.push_back(Input::Ended(ProcessEnd {
                    process,
                    exit_code,
                    signal,
                    clean,
                }));
            }
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let mut due: Vec<_> = self
            .timers
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(timer, at)| (*at, *timer))
            .collect();
        due.sort_unstable();
        for (_, timer) in due {
            self.timers.remove(&timer);
            self.pending.push_back(Input::Timer(timer));
        }
        let mut out = Vec::new();
        if let Some(run) = &mut self.run {
            run.tick(now, &mut out);
        }
        self.carry_out(out);
        if self.close_by.is_some_and(|by| by <= now) {
            self.close_by = None;
            self.kill_all(STOP_GRACE);
        }
    }

    /// Steps the adapter until it has seen everything.
    async fn advance(&mut self) {
        while let Some(batch) = self.next_batch() {
            let wishes = match &mut self.session {
                Some(session) => step(session.as_mut(), batch),
                None => continue,
            };
            match wishes {
                Ok(wishes) => {
                    for wish in wishes {
                        self.perform(wish).await;
                    }
                }
                Err(code) => self.adapter_failed(&code),
            }
        }
        if self.processes.is_empty() && self.has_open_run() {
            // The adapter has seen the ends and started nothing new; it had the first word on what they mean.
            let clean = !self.unclean;
            self.doom();
            self.tell_run(|run, now, out| run.processes_gone(clean, now, out));
        }
        if !self.prepared && self.processes.is_empty() && self.timers.is_empty() {
            self.prepared(Err(PrepareCode::ProgramFailed));
        }
    }

    fn next_batch(&mut self) -> Option<Vec<Input>> {
        let (mut lines, mut bytes, mut batch) = (0, 0, Vec::new());
        while let Some(next) = self.pending.front() {
            let size = match next {
                Input::Line(line) => line.text.len(),
                Input::Chunk(chunk) => chunk.data.len(),
                _ => 0,
            };
            let full = lines == STEP_LINES || bytes + size > STEP_BYTES;
            if full && !batch.is_empty() {
                break;
            }
            lines += usize::from(size > 0);
            bytes += size;
            batch.extend(self.pending.pop_front());
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Passes what the adapter said about the Run.
    pub(super) fn tell_run(&mut self, tell: impl FnOnce(&mut Run, Instant, &mut Vec<Do>)) {
        let mut out = Vec::new();
        if let Some(run) = &mut self.run {
            tell(run, Instant::now(), &mut out);
        }
        self.carry_out(out);
    }

    pub(super) fn run_id(&self) -> Option<RunId> {
        self.run.as_ref().map(Run::id)
    }

    pub(super) fn prepared(&mut self, result: Result<NativeSession, PrepareCode>) {
        if std::mem::replace(&mut self.prepared, true) {
            return;
        }
        let result = result.map(|native| self.native = Some(native).filter(|n| n.durable));
        if result.is_err() {
            self.doomed = true;
            self.kill_all(STOP_GRACE);
        }
        self.report(Report::Prepared(result));
    }

    fn adapter_failed(&mut self, code: &str) {
        tracing::error!(executor = %self.id, code, "the harness adapter failed; its processes are ended");
        self.session = None;
        self.pending.clear();
        self.timers.clear();
        self.doom();
        self.kill_all(KILL_GRACE);
        if !self.prepared {
            self.prepared(Err(PrepareCode::PreparationFailed));
        }
        self.tell_run(|run, now, out| run.adapter_failed(now, out));
    }

    /// Does what the Run decided.
    fn carry_out(&mut self, decisions: Vec<Do>) {
        let Some(run) = self.run_id() else { return };
        for decision in decisions {
            match decision {
                Do::Give(command) => self.pending.push_back(Input::Command(command)),
                Do::Started => self.report(Report::Started(run)),
                Do::NotStarted(code) => {
                    let code = translate::start_code(&code);
                    if code == PrepareCode::ExecutorUnavailable {
                        self.doom();
                        self.kill_all(STOP_GRACE);
                    }
                    self.report(Report::NotStarted(run, code));
                }
                Do::Answer(ask, answer) => self.report(Report::Answer(ask, answer)),
                Do::Events(seq, events) => self.report(Report::Events(RunEvents {
                    run_id: run,
                    seq,
                    events,
                })),
                Do::Survey => survey(self.processes.values(), &self.feeds),
                Do::Kill => {
                    self.doom();
                    self.kill_all(KILL_GRACE);
                }
                Do::Settled {
                    outcome,
                    reusable,
                    proof,
                } => {
                    self.cross_check(run);
                    if !reusable {
                        self.doom();
                    }
                    self.report(Report::Settled {
                        run,
                        outcome,
                        proof,
                    });
                    if self.close_by.is_some() {
                        self.pending.push_back(Input::Command(Command::Close(
                            uuid::Uuid::now_v7().to_string(),
                        )));
                    }
                }
            }
        }
    }

    pub(super) fn stop(&self, process: u32, grace: Duration) {
        if let Some(running) = self.processes.get(&process) {
            running.stop(grace);
        }
    }

    fn kill_all(&self, grace: Duration) {
        self.processes
            .values()
            .for_each(|running| running.stop(grace));
    }

    /// The relay's own count, for the log: the figures of the harness are what is published (S-USE-1).
    fn cross_check(&self, run: RunId) {
        if let Some((_, grant)) = &self.fills.relay {
            let tokens = grant.tokens();
            tracing::debug!(%run, answers = tokens.answers, input = tokens.input, output = tokens.output, "relay usage");
        }
    }
}

/// One step; a panic of a linked adapter is its failure, not the daemon's.
fn step(session: &mut dyn HarnessSession, inputs: Vec<Input>) -> Result<Vec<Wish>, String> {
    match catch_unwind(AssertUnwindSafe(|| session.step(inputs))) {
        Ok(Ok(wishes)) => Ok(wishes),
        Ok(Err(failure)) => Err(failure.code),
        Err(_) => Err("panicked".to_owned()),
    }
}
