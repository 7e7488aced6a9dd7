//! A model of the daemon: takes work, answers it later, makes events, and notes everything that it was made to do.

use std::collections::{BTreeMap, BTreeSet};

use domain::run::{Done, EventBody, PrepareCode, RefusalCode, RunEvent, TurnStatus};
use domain::{ExecutorId, FrameId, PrepareId, RunId};
use protocol::runtime_end::{Command, Notice, Work};
use protocol::wire::{Answer, CancelProof, Progress, Proof, RunEvents};
use rand::RngExt;

use crate::{Counter, Random};

/// A Run on the daemon.
#[derive(Debug)]
struct Run {
    next: u64,
    started: bool,
    cancel: Vec<FrameId>,
    inputs: Vec<FrameId>,
    /// Core does not want it any more.
    abandoned: bool,
}

/// What the daemon did, by identity: nothing may be in here twice.
#[derive(Debug, Default)]
pub struct Deeds {
    seen: BTreeSet<String>,
    /// Every request that was really carried out.
    pub requests: BTreeSet<FrameId>,
    /// Every Run that was really started.
    pub runs: BTreeSet<RunId>,
    /// Runs with events, and how many were made.
    pub events: BTreeMap<RunId, u64>,
}

impl Deeds {
    fn once(&mut self, what: String) {
        assert!(self.seen.insert(what.clone()), "executed twice: {what}");
    }
}

/// The daemon.
#[derive(Debug, Default)]
pub struct Daemon {
    /// What it did.
    pub deeds: Deeds,
    due: Vec<(u64, Command)>,
    preparing: BTreeSet<PrepareId>,
    runs: BTreeMap<RunId, Run>,
    ids: Counter,
}

impl Daemon {
    /// Acts on a notice of its end.
    pub fn notice(&mut self, random: &mut Random, now: u64, notice: Notice) {
        match notice {
            Notice::Welcomed { abandon, .. } => {
                for run_id in abandon {
                    // A Run that is over between the greeting and the welcome needs nothing.
                    if let Some(run) = self.runs.get_mut(&run_id) {
                        run.abandoned = true;
                    }
                }
            }
            Notice::Work(work) => self.work(random, now, work),
            Notice::Abandon { run_id } => panic!("an event of {run_id} is too large"),
            Notice::AdmissionEnded { prepare_id, .. } => {
                self.preparing.remove(&prepare_id);
            }
            Notice::Acknowledged { run_id, seq } => {
                let made = self.deeds.events.get(&run_id).copied().unwrap_or_default();
                assert!(seq <= made, "acknowledged {seq} of {made} events");
            }
            Notice::Credit { .. } | Notice::Goodbye { .. } => {}
            Notice::Refused(error) => panic!("Core could not use a frame: {error:?}"),
        }
    }

    fn later(&mut self, random: &mut Random, now: u64, command: Command) {
        let delay = if random.random_bool(0.1) {
            random.random_range(0..5_000)
        } else {
            random.random_range(0..200)
        };
        self.due.push((now + delay, command));
    }

    fn answer(&mut self, random: &mut Random, now: u64, id: FrameId, answers: &[Answer]) {
        let chosen = answers[random.random_range(0..answers.len())].clone();
        self.later(random, now, Command::Answer { id, answer: chosen });
    }

    fn work(&mut self, random: &mut Random, now: u64, work: Work) {
        match work {
            Work::Bind { id, .. } => {
                self.carry_out(id, "bind");
                self.answer(random, now, id, &[Answer::Ok(Proof::Bound)]);
            }
            Work::Release { id, .. } => {
                self.carry_out(id, "release");
                let failed = Answer::Failed {
                    code: RefusalCode::CleanupUnconfirmed.into(),
                    exit_code: None,
                };
                self.answer(
                    random,
                    now,
                    id,
                    &[
                        Answer::Ok(Proof::Released),
                        Answer::Ok(Proof::HomeRemoved),
                        failed,
                    ],
                );
            }
            Work::Initialize { id, body, .. } => {
                self.carry_out(id, "step");
                if let Some(body) = body {
                    let expected = body.iter().enumerate().all(|(at, byte)| *byte == at as u8);
                    assert!(expected, "a file arrived damaged");
                }
                let unknown = Answer::Unknown(RefusalCode::Unconfirmed.into());
                self.answer(random, now, id, &[Answer::Ok(Proof::Installed), unknown]);
            }
            Work::Prepare { prepare_id, .. } => {
                self.deeds.once(format!("prepare {prepare_id}"));
                self.preparing.insert(prepare_id);
                let command = match random.random_range(0..10) {
                    0 => Command::PrepareFailed {
                        prepare_id,
                        code: PrepareCode::Capacity,
                        rejected: true,
                    },
                    1 => Command::PrepareFailed {
                        prepare_id,
                        code: PrepareCode::PreparationFailed,
                        rejected: false,
                    },
                    _ => Command::Prepared {
                        prepare_id,
                        executor_id: ExecutorId::new(self.ids.fresh()),
                    },
                };
                self.later(random, now, command);
            }
            Work::Start { start, .. } => {
                let run_id = start.run_id;
                self.deeds.once(format!("start of {run_id}"));
                self.deeds
                    .once(format!("start of admission {}", start.prepare_id));
                assert!(
                    self.preparing.remove(&start.prepare_id),
                    "started an admission that is not ready"
                );
                for message in &start.input {
                    self.deeds.once(format!("input {}", message.id));
                }
                if random.random_bool(0.1) {
                    self.later(
                        random,
                        now,
                        Command::NotStarted {
                            run_id,
                            code: PrepareCode::ExecutorUnavailable,
                        },
                    );
                } else {
                    self.deeds.runs.insert(run_id);
                    let run = Run {
                        next: 1,
                        started: false,
                        cancel: Vec::new(),
                        inputs: Vec::new(),
                        abandoned: false,
                    };
                    self.runs.insert(run_id, run);
                }
            }
            Work::Input {
                id,
                run_id,
                message,
            } => {
                self.carry_out(id, "delivery");
                self.deeds.once(format!("input {}", message.id));
                match self.runs.get_mut(&run_id) {
                    Some(run) => run.inputs.push(id),
                    None => self.answer(
                        random,
                        now,
                        id,
                        &[Answer::Rejected(RefusalCode::RunEnded.into())],
                    ),
                }
            }
            Work::Cancel { id, run_id } => {
                self.carry_out(id, "cancel");
                match self.runs.get_mut(&run_id) {
                    Some(run) => run.cancel.push(id),
                    None => self.answer(
                        random,
                        now,
                        id,
                        &[Answer::Rejected(RefusalCode::UnknownRun.into())],
                    ),
                }
            }
            Work::List { id, .. } => {
                self.carry_out(id, "list");
                self.answer(random, now, id, &[Answer::Ok(Proof::Entries(Vec::new()))]);
            }
            Work::FunctionResult { id, .. }
            | Work::Write { id, .. }
            | Work::Export { id, .. }
            | Work::Quiesce { id, .. }
            | Work::Thaw { id, .. } => panic!("nobody asks for this here: {id}"),
        }
    }

    fn carry_out(&mut self, id: FrameId, what: &str) {
        self.deeds.once(format!("{what} {id}"));
        self.deeds.requests.insert(id);
    }

    /// Lets Runs make events or end; answers what is due.
    pub fn act(&mut self, random: &mut Random, now: u64) -> Vec<Command> {
        let ids: Vec<_> = self.runs.keys().copied().collect();
        let mut out = Vec::new();
        for run_id in ids {
            if random.random_bool(0.3) {
                self.advance(random, run_id, &mut out);
            }
        }
        let (due, rest) = std::mem::take(&mut self.due)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.due = rest;
        let mut due: Vec<(u64, Command)> = due;
        due.sort_by_key(|(at, _)| *at);
        out.extend(due.into_iter().map(|(_, command)| command));
        out
    }

    fn advance(&mut self, random: &mut Random, run_id: RunId, out: &mut Vec<Command>) {
        let Some(run) = self.runs.get_mut(&run_id) else {
            return;
        };
        if !run.started {
            run.started = true;
            // Events may overtake `started` (RP-10.6).
            if random.random_bool(0.5) {
                out.push(Command::Started { run_id });
                return;
            }
        }
        if let Some(id) = run.inputs.pop() {
            out.push(Command::Answer {
                id,
                answer: Answer::Progress(Progress::Written),
            });
            out.push(Command::Answer {
                id,
                answer: Answer::Ok(Proof::Accepted),
            });
        }
        let ends = !run.cancel.is_empty() || run.abandoned || random.random_bool(0.1);
        let count = if ends { 1 } else { random.random_range(1..20) };
        let first = run.next;
        run.next += count;
        let status = if run.cancel.is_empty() {
            TurnStatus::Completed
        } else {
            TurnStatus::Cancelled
        };
        let events = (0..count)
            .map(|_| if ends { done(status) } else { notice() })
            .collect();
        out.push(Command::Events(RunEvents {
            run_id,
            seq: first,
            events,
        }));
        self.deeds.events.insert(run_id, run.next - 1);
        if ends {
            let proof = CancelProof {
                settled: true,
                outcome: status,
                native_session: None,
                usage: None,
            };
            let proof = Answer::Ok(Proof::Cancelled(proof));
            out.push(Command::Settled {
                run_id,
                proof: proof.clone(),
            });
            let Some(run) = self.runs.remove(&run_id) else {
                return;
            };
            let ended = run
                .inputs
                .into_iter()
                .map(|id| (id, Answer::Unknown(RefusalCode::Unconfirmed.into())));
            let cancelled = run.cancel.into_iter().map(|id| (id, proof.clone()));
            out.extend(
                ended
                    .chain(cancelled)
                    .map(|(id, answer)| Command::Answer { id, answer }),
            );
        }
    }

    /// When something is due.
    pub fn next(&self) -> Option<u64> {
        self.due.iter().map(|(at, _)| *at).min()
    }
}

fn notice() -> RunEvent {
    RunEvent::root(EventBody::Notice(domain::run::Notice {
        code: "step".to_owned(),
        detail: String::new(),
    }))
}

fn done(status: TurnStatus) -> RunEvent {
    RunEvent::root(EventBody::Done(Done { status }))
}
