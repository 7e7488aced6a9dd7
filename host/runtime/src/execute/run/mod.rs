//! One Run: what was asked, what the harness confirmed, how it ends (state-machines 1.10, Runtime side).
//!
//! Pure: facts go in, [`Do`]s come out, in the order in which they must happen. Time is passed in. The machine answers every
//! request exactly once and ends every Run with exactly one `done`, whatever the adapter or the process does:
//!
//! - `starting` until the adapter's receipt for the start; input and cancel wait.
//! - `running`: one input at a time (RP-12.1), results of functions, at most one cancel.
//! - `settling` after the adapter's last word: inputs in flight have 15 s, a process that must go is waited for.
//! - `settled`: the admission is free, then receipts of cancels, then `error` and `done` (RP-11.6, RP-11.7).

mod ending;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Duration};

use domain::{
    FrameId, RunId,
    run::{
        EventBody, FailureCode, InputMessage, NativeSession, PluginIdentity, RefusalCode, RunEvent,
        RunFailure, TurnStatus, Usage,
    },
};
use plugin_host::contract::harness_io::{Command, FunctionResult, MessageIn, StartTurn};
use protocol::wire::{Answer, Code, Progress, Proof};
use tokio::time::Instant;

use super::journal::{Journal, Overflow};

/// Longest wait for a settlement after a cancel (F01, TRN-007).
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(8);
/// From delivery to the complete native write (RP-12.2).
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);
/// For an input in flight when the Turn is over (RP-12.2).
const IN_FLIGHT: Duration = Duration::from_secs(15);
/// For the native confirmation of a function result (S-FN-6).
const APPLIED_WITHIN: Duration = Duration::from_secs(10);
/// Longest Turn where the declaration leaves it to the deployment (F03).
const TURN_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// What the Run wants done, in order.
#[derive(Debug)]
pub(super) enum Do {
    /// Hand this to the adapter.
    Give(Command),
    /// The adapter accepted the start: a native Turn exists.
    Started,
    /// Certainly nothing was submitted; the Run never was.
    NotStarted(String),
    /// Answer a request.
    Answer(FrameId, Answer),
    /// Send events; the first has this number.
    Events(u64, Vec<RunEvent>),
    /// End every process of the Executor now.
    Kill,
    /// Look whether anything lives beside the harness itself, and say so to [`Run::surveyed`].
    Survey,
    /// The Run is over: free the admission. `reusable` = the Executor may take another Run.
    Settled {
        /// How it ended.
        outcome: TurnStatus,
        /// The process may take another Run (TRN-006).
        reusable: bool,
        /// What a later cancel of this Run is answered.
        proof: Answer,
    },
}

/// Limits of the declaration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Settlement after a cancel; at most [`CANCEL_GRACE`].
    pub(super) cancel: Duration,
    /// Without any content (F03).
    pub(super) silence: Duration,
    /// The whole Turn (F03).
    pub(super) turn: Duration,
}

impl Limits {
    /// From the declared numbers; 0 leaves one to us.
    pub(super) fn new(settles_within_ms: u32, silence_s: u32, turn_s: u32) -> Self {
        let or = |value: Duration, default: Duration| if value.is_zero() { default } else { value };
        Self {
            cancel: or(
                Duration::from_millis(settles_within_ms.into()),
                CANCEL_GRACE,
            )
            .min(CANCEL_GRACE),
            silence: or(
                Duration::from_secs(silence_s.into()),
                Duration::from_secs(600),
            ),
            turn: or(Duration::from_secs(turn_s.into()), TURN_LIMIT),
        }
    }
}

/// The adapter's answer to an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Confirmed {
    Done,
    Rejected(String),
    Unknown,
}

/// The adapter's last word on the Run.
#[derive(Debug, Clone)]
pub(super) struct Settlement {
    pub(super) status: TurnStatus,
    pub(super) failure: Option<RunFailure>,
    pub(super) reusable: bool,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Running,
    Settling {
        how: Settlement,
        inputs_until: Instant,
    },
    Settled(TurnStatus),
}

#[derive(Debug)]
struct Input {
    /// The request that brought it; none for the messages of the start.
    ask: Option<FrameId>,
    message: InputMessage,
    state: InputState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputState {
    Queued,
    Given { written_by: Option<Instant> },
    Accepted,
    Lost,
}

#[derive(Debug)]
struct PendingResult {
    ask: FrameId,
    id: String,
    until: Instant,
}

/// Why the Run is being ended before its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Core asked, or Core is gone.
    Cancel,
    /// Silence, length or volume (F03): the Turn fails.
    Limit(FailureCode),
}

#[derive(Debug)]
struct Ending {
    cause: Cause,
    id: String,
    given: bool,
    /// When the processes are killed; none once they are.
    kill_at: Option<Instant>,
}

/// One Run.
#[derive(Debug)]
pub(super) struct Run {
    id: RunId,
    /// What serves it, until it was told.
    plugin: Option<PluginIdentity>,
    /// The history that the preparation put on disk or found there, until it was told.
    history: Option<NativeSession>,
    limits: Limits,
    phase: Phase,
    journal: Journal,
    inputs: VecDeque<Input>,
    results: Vec<PendingResult>,
    ending: Option<Ending>,
    cancels: Vec<FrameId>,
    killed: bool,
    /// It is being looked at what a cancelled Turn left running.
    surveying: bool,
    /// All processes of the Executor are gone, and whether that is confirmed.
    gone: Option<bool>,
    open_calls: usize,
    silent_since: Instant,
    began: Instant,
    native: Option<NativeSession>,
    usage: Option<Usage>,
}

impl Run {
    /// Starts: the first thing to do is to give the adapter its Turn.
    pub(super) fn start(
        id: RunId,
        messages: Vec<InputMessage>,
        plugin: PluginIdentity,
        history: Option<NativeSession>,
        limits: Limits,
        now: Instant,
        out: &mut Vec<Do>,
    ) -> Self {
        let native = messages.iter().map(message).collect();
        out.push(Do::Give(Command::StartTurn(StartTurn {
            run: id.to_string(),
            messages: native,
        })));
        let state = InputState::Given {
            written_by: Some(now + WRITTEN_WITHIN),
        };
        let inputs = messages
            .into_iter()
            .map(|message| Input {
                ask: None,
                message,
                state,
            })
            .collect();
        Self {
            id,
            plugin: Some(plugin),
            history,
            limits,
            phase: Phase::Starting,
            journal: Journal::default(),
            inputs,
            results: Vec::new(),
            ending: None,
            cancels: Vec::new(),
            killed: false,
            surveying: false,
            gone: None,
            open_calls: 0,
            silent_since: now,
            began: now,
            native: None,
            usage: None,
        }
    }

    pub(super) fn id(&self) -> RunId {
        self.id
    }

    /// Whether the harness may be read on (RP-11.11). A Run that is being ended is always read, since its end must be seen,
    /// and one that has its last word too: it adds nothing any more, and the end of its processes comes the same way.
    pub(super) fn reads(&self) -> bool {
        let over = matches!(self.phase, Phase::Settling { .. } | Phase::Settled(_));
        over || self.killed || self.ending.is_some() || self.journal.has_room()
    }

    /// How it ended, if it has.
    pub(super) fn outcome(&self) -> Option<TurnStatus> {
        match self.phase {
            Phase::Settled(outcome) => Some(outcome),
            Phase::Starting | Phase::Running | Phase::Settling { .. } => None,
        }
    }

    pub(super) fn ack(&mut self, seq: u64) {
        self.journal.ack(seq);
    }

    /// Core's connection is gone for good: the Run is ended, nobody is told.
    pub(super) fn abandon(&mut self, now: Instant, out: &mut Vec<Do>) {
        self.journal.detach();
        self.end(Cause::Cancel, now, out);
    }

    /// A message for the running Turn.
    pub(super) fn input(
        &mut self,
        ask: FrameId,
        message: InputMessage,
        now: Instant,
        out: &mut Vec<Do>,
    ) {
        let ended = matches!(self.phase, Phase::Settling { .. } | Phase::Settled(_))
            || self.ending.is_some();
        if ended {
            return out.push(rejected(ask, RefusalCode::RunEnded));
        }
        self.inputs.push_back(Input {
            ask: Some(ask),
            message,
            state: InputState::Queued,
        });
        self.give_next(now, out);
    }

    /// The result of a function call.
    pub(super) fn result(
        &mut self,
        ask: FrameId,
        mut result: FunctionResult,
        now: Instant,
        out: &mut Vec<Do>,
    ) {
        if !matches!(self.phase, Phase::Running) || self.ending.is_some() {
            return out.push(rejected(ask, RefusalCode::RunEnded));
        }
        result.run = self.id.to_string();
        self.results.push(PendingResult {
            ask,
            id: result.id.clone(),
            until: now + APPLIED_WITHIN,
        });
        out.push(Do::Give(Command::FunctionResult(result)));
    }

    /// Core cancels the Run (RP-13).
    pub(super) fn cancel(&mut self, ask: FrameId, now: Instant, out: &mut Vec<Do>) {
        if let Phase::Settled(outcome) = self.phase {
            let answer = self.cancel_answer(outcome);
            return out.push(Do::Answer(ask, answer));
        }
        self.cancels.push(ask);
        self.end(Cause::Cancel, now, out);
    }

    /// The native write of these ids is complete.
    pub(super) fn written(&mut self, ids: &[String], out: &mut Vec<Do>) {
        for input in self
            .inputs
            .iter_mut()
            .filter(|i| ids.contains(&i.message.id.to_string()))
        {
            if let InputState::Given {
                written_by: by @ Some(_),
            } = &mut input.state
            {
                *by = None;
                out.extend(
                    input
                        .ask
                        .map(|ask| Do::Answer(ask, Answer::Progress(Progress::Written))),
                );
            }
        }
        for result in self.results.iter().filter(|r| ids.contains(&r.id)) {
            out.push(Do::Answer(result.ask, Answer::Progress(Progress::Written)));
        }
    }

    /// The adapter answered an id.
    pub(super) fn receipt(
        &mut self,
        id: &str,
        confirmed: Confirmed,
        now: Instant,
        out: &mut Vec<Do>,
    ) {
        if id == self.id.to_string() {
            return self.start_receipt(confirmed, now, out);
        }
        if self.ending.as_ref().is_some_and(|e| e.id == id) {
            // Only a settlement answers a cancel: a refused one says that the Turn was already over, or will be.
            return;
        }
        if let Some(at) = self.results.iter().position(|r| r.id == id) {
            let result = self.results.swap_remove(at);
            return out.push(Do::Answer(result.ask, answer(confirmed, Proof::Applied)));
        }
        let known = |i: &&mut Input| {
            i.message.id.to_string() == id && matches!(i.state, InputState::Given { .. })
        };
        if let Some(input) = self.inputs.iter_mut().find(known) {
            input.state = if confirmed == Confirmed::Done {
                InputState::Accepted
            } else {
                InputState::Lost
            };
            out.extend(
                input
                    .ask
                    .map(|ask| Do::Answer(ask, answer(confirmed, Proof::Accepted))),
            );
        }
        self.give_next(now, out);
        self.try_settle(now, out);
    }

    /// The adapter told something about this Run.
    pub(super) fn event(&mut self, event: RunEvent, now: Instant, out: &mut Vec<Do>) {
        if matches!(self.phase, Phase::Settled(_)) {
            return;
        }
        self.observe(&event.body, now);
        let (first, mut events) = (self.journal.last_seq() + 1, Vec::new());
        let pushed = self.journal.push(event, &mut events);
        if !events.is_empty() {
            out.push(Do::Events(first, events));
        }
        if pushed == Err(Overflow) {
            self.end(Cause::Limit(FailureCode::ServerError), now, out);
        }
    }

    /// The adapter's last word.
    pub(super) fn settled(&mut self, how: Settlement, now: Instant, out: &mut Vec<Do>) {
        if matches!(self.phase, Phase::Settling { .. } | Phase::Settled(_)) {
            return;
        }
        if matches!(self.phase, Phase::Starting) {
            // A settlement implies the start that it settles.
            self.begun(now, out);
        }
        if !how.reusable {
            self.kill(out);
        } else if how.status == TurnStatus::Cancelled {
            self.surveying = true;
            out.push(Do::Survey);
        }
        self.phase = Phase::Settling {
            how,
            inputs_until: now + IN_FLIGHT,
        };
        self.try_settle(now, out);
    }

    /// What a cancelled Turn left running: it settles only when that is gone (S-CAN-7), which takes the whole tree of the
    /// harness along. A harness that is alone serves the next Turn (TRN-004, TRN-006).
    pub(super) fn surveyed(&mut self, alone: bool, now: Instant, out: &mut Vec<Do>) {
        if !std::mem::replace(&mut self.surveying, false) {
            return;
        }
        if let Phase::Settling { how, .. } = &mut self.phase
            && !alone
        {
            how.reusable = false;
            self.kill(out);
        }
        self.try_settle(now, out);
    }

    /// Every process of the Executor is gone and the adapter has been told; `clean` as in RP-16.2.
    pub(super) fn processes_gone(&mut self, clean: bool, now: Instant, out: &mut Vec<Do>) {
        self.gone = Some(clean);
        self.surveyed(false, now, out);
        self.force(now, out);
        self.try_settle(now, out);
    }

    /// The adapter failed; it says nothing more.
    pub(super) fn adapter_failed(&mut self, now: Instant, out: &mut Vec<Do>) {
        self.kill(out);
        if self.gone.is_some() {
            self.force(now, out);
        }
        self.try_settle(now, out);
    }

    /// When [`Run::tick`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let written = self.inputs.iter().filter_map(|i| match i.state {
            InputState::Given { written_by } => written_by,
            InputState::Queued | InputState::Accepted | InputState::Lost => None,
        });
        let results = self.results.iter().map(|r| r.until);
        let own = match &self.phase {
            Phase::Settled(_) => return None,
            Phase::Settling { inputs_until, .. } => {
                Some(*inputs_until).filter(|_| self.input_in_flight())
            }
            Phase::Starting | Phase::Running => match &self.ending {
                Some(ending) => ending.kill_at,
                None => Some(self.limit().0),
            },
        };
        written.chain(results).chain(own).min()
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: Instant, out: &mut Vec<Do>) {
        for input in &mut self.inputs {
            // RP-12.2, RP-12.4: unconfirmed, so it is unknown for ever.
            if matches!(input.state, InputState::Given { written_by: Some(by) } if by <= now) {
                lose(input, out);
            }
        }
        let (late, open) = std::mem::take(&mut self.results)
            .into_iter()
            .partition::<Vec<_>, _>(|r| r.until <= now);
        self.results = open;
        out.extend(late.into_iter().map(|r| Do::Answer(r.ask, unconfirmed())));
        match (&self.phase, &self.ending) {
            (Phase::Settling { inputs_until, .. }, _) if *inputs_until <= now => {
                self.inputs
                    .iter_mut()
                    .filter(|i| in_flight(i))
                    .for_each(|i| lose(i, out));
            }
            (Phase::Starting | Phase::Running, Some(ending))
                if ending.kill_at.is_some_and(|at| at <= now) =>
            {
                self.kill(out);
            }
            (Phase::Starting | Phase::Running, None) => {
                let (at, code) = self.limit();
                if at <= now {
                    self.end(Cause::Limit(code), now, out);
                }
            }
            _ => {}
        }
        self.give_next(now, out);
        self.try_settle(now, out);
    }

    /// A native Turn exists; it is told which plugin serves it.
    fn begun(&mut self, now: Instant, out: &mut Vec<Do>) {
        out.push(Do::Started);
        // Not before: whatever is told of a Run says that it began.
        if let Some(history) = self.history.take() {
            self.event(RunEvent::root(EventBody::NativeSession(history)), now, out);
        }
        if let Some(plugin) = self.plugin.take() {
            self.event(RunEvent::root(EventBody::Adapter(plugin)), now, out);
        }
    }

    fn start_receipt(&mut self, confirmed: Confirmed, now: Instant, out: &mut Vec<Do>) {
        if !matches!(self.phase, Phase::Starting) {
            return;
        }
        match confirmed {
            Confirmed::Done => {
                self.phase = Phase::Running;
                self.begun(now, out);
                self.give_cancel(out);
                self.give_next(now, out);
            }
            Confirmed::Rejected(code) => {
                self.phase = Phase::Settled(TurnStatus::Failed);
                out.push(Do::NotStarted(code));
                self.refuse_the_rest(out);
                let cancels = std::mem::take(&mut self.cancels);
                out.extend(
                    cancels
                        .into_iter()
                        .map(|ask| rejected(ask, RefusalCode::UnknownRun)),
                );
            }
            Confirmed::Unknown => {
                // Input may have gone, so a Turn exists (TRN-002); nobody can say more about it.
                self.phase = Phase::Running;
                self.begun(now, out);
                self.kill(out);
            }
        }
    }

    fn observe(&mut self, body: &EventBody, now: Instant) {
        match body {
            EventBody::NativeSession(native) => self.native = Some(native.clone()),
            EventBody::Usage(usage) => self.usage = Some(*usage),
            EventBody::ItemStarted(item) => self.open_calls += usize::from(is_call(&item.body)),
            EventBody::ItemEnded(end) => {
                self.open_calls -= usize::from(is_call(&end.item.body)).min(self.open_calls)
            }
            EventBody::Notice(_) => return,
            EventBody::Adapter(_)
            | EventBody::Delta(_)
            | EventBody::Agent(_)
            | EventBody::Child(_)
            | EventBody::Error(_)
            | EventBody::Done(_) => {}
        }
        self.silent_since = now;
    }

    /// The nearer of the two limits of F03. While a function call waits for its result, silence is the caller's.
    fn limit(&self) -> (Instant, FailureCode) {
        let turn = self.began + self.limits.turn;
        let silence = self.silent_since + self.limits.silence;
        let nearest = if self.open_calls > 0 {
            turn
        } else {
            turn.min(silence)
        };
        (nearest, FailureCode::RequestTimeout)
    }
}

fn is_call(body: &domain::run::ItemBody) -> bool {
    matches!(body, domain::run::ItemBody::FunctionCall(_))
}

fn in_flight(input: &Input) -> bool {
    matches!(input.state, InputState::Given { .. })
}

fn lose(input: &mut Input, out: &mut Vec<Do>) {
    input.state = InputState::Lost;
    out.extend(input.ask.map(|ask| Do::Answer(ask, unconfirmed())));
}

fn message(message: &InputMessage) -> MessageIn {
    MessageIn {
        id: message.id.to_string(),
        content: plugin_host::translate::harness::content(&message.content),
    }
}

fn rejected(ask: FrameId, code: RefusalCode) -> Do {
    Do::Answer(ask, Answer::Rejected(Code::Refusal(code)))
}

fn unconfirmed() -> Answer {
    Answer::Unknown(Code::Refusal(RefusalCode::Unconfirmed))
}

fn answer(confirmed: Confirmed, proof: Proof) -> Answer {
    match confirmed {
        Confirmed::Done => Answer::Ok(proof),
        Confirmed::Rejected(code) => Answer::Rejected(Code::Refusal(match code.as_str() {
            "unsupported_content" => RefusalCode::UnsupportedContent,
            "not_running" => RefusalCode::RunEnded,
            "unsupported" => RefusalCode::Unsupported,
            _ => RefusalCode::NativeRefused,
        })),
        Confirmed::Unknown => unconfirmed(),
    }
}
