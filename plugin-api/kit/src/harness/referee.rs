//! The judge of a conversation: everything that the host relies on from one step to the next.

use std::collections::{BTreeMap, BTreeSet};

use contract::harness_events::{Event, EventBody, Origin, TurnStatus};
use contract::harness_io::{Command, Input, Output, Receipt, ReceiptResult, Settlement, Write};

use super::items::Items;
use super::outputs;
use crate::{Result, broken, ensure, is_code};

/// What an id was given for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    Start,
    Message(String),
    Result(String),
    Cancel(String),
    Close,
}

#[derive(Default)]
struct Run {
    /// The start was answered with `done` or `unknown`.
    exists: bool,
    rejected: bool,
    cancel_asked: bool,
    settled: Option<TurnStatus>,
    items: Items,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Process {
    Asked,
    Running,
    Ended,
}

#[derive(Default, PartialEq, Eq)]
enum Preparation {
    #[default]
    None,
    Asked,
    Answered,
}

/// Watches inputs and outputs of one session.
#[derive(Default)]
pub struct Referee {
    preparation: Preparation,
    waiting: BTreeMap<String, Purpose>,
    carried: BTreeSet<String>,
    runs: BTreeMap<String, Run>,
    processes: BTreeMap<u32, Process>,
    looks: BTreeSet<u32>,
    calls: BTreeSet<u32>,
}

impl Referee {
    /// Notes what the session is told.
    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Command(command) => self.command(command),
            Input::Launched(process) => self.set(*process, Process::Running),
            Input::LaunchFailed(failure) => self.set(failure.process, Process::Ended),
            Input::Ended(end) => self.set(end.process, Process::Ended),
            Input::Looked(looked) => {
                self.looks.remove(&looked.look);
            }
            Input::ToolCall(call) => {
                self.calls.insert(call.call);
            }
            _ => {}
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Prepare(_) => self.preparation = Preparation::Asked,
            Command::StartTurn(start) => {
                self.runs.insert(start.run.clone(), Run::default());
                self.waiting.insert(start.run.clone(), Purpose::Start);
                for message in &start.messages {
                    let purpose = Purpose::Message(start.run.clone());
                    self.waiting.insert(message.id.clone(), purpose);
                }
            }
            Command::AddMessage(add) => {
                let purpose = Purpose::Message(add.run.clone());
                self.waiting.insert(add.message.id.clone(), purpose);
            }
            Command::FunctionResult(result) => {
                self.waiting
                    .insert(result.id.clone(), Purpose::Result(result.run.clone()));
            }
            Command::CancelTurn(cancel) => {
                if let Some(run) = self.runs.get_mut(&cancel.run) {
                    run.cancel_asked = true;
                }
                self.waiting
                    .insert(cancel.id.clone(), Purpose::Cancel(cancel.run.clone()));
            }
            Command::Close(id) => {
                self.waiting.insert(id.clone(), Purpose::Close);
            }
            Command::Other(_) => {}
        }
    }

    fn set(&mut self, process: u32, state: Process) {
        self.processes.insert(process, state);
    }

    /// Judges what the session said.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn outputs(&mut self, outputs: &[Output]) -> Result {
        outputs.iter().try_for_each(|output| self.output(output))
    }

    /// All processes are gone: every id has its receipt, every run its end.
    ///
    /// # Errors
    /// Something is still open.
    pub fn finished(&self) -> Result {
        ensure(self.waiting.is_empty(), "RP-6.2", || {
            format!("no receipt for {:?}", self.waiting)
        })?;
        let open = self
            .runs
            .iter()
            .find(|(_, run)| !run.rejected && run.settled.is_none());
        ensure(open.is_none(), "TRN-005", || {
            format!("run {:?} is not settled", open.map(|(id, _)| id))
        })?;
        ensure(self.preparation != Preparation::Asked, "RP-10.2", || {
            "not prepared".into()
        })
    }

    /// Whether a run is active: started and not settled.
    #[must_use]
    pub fn active_run(&self) -> Option<&str> {
        let mut active = self
            .runs
            .iter()
            .filter(|(_, run)| !run.rejected && run.settled.is_none());
        active.next().map(|(id, _)| id.as_str())
    }

    /// Ids that still wait for their receipt.
    #[must_use]
    pub fn waiting(&self) -> Vec<&str> {
        self.waiting.keys().map(String::as_str).collect()
    }

    fn output(&mut self, output: &Output) -> Result {
        match output {
            Output::Launch(plan) => {
                outputs::launch(plan)?;
                let asked = self.preparation != Preparation::None;
                ensure(asked, "TRN-002", || "a launch before prepare".into())?;
                let before = self.processes.insert(plan.process, Process::Asked);
                ensure(
                    before.is_none_or(|state| state == Process::Ended),
                    "contract",
                    || format!("process {} is already there", plan.process),
                )
            }
            Output::Write(write) => self.write(write),
            Output::CloseInput(process) | Output::Stop(process) => {
                let known = self
                    .processes
                    .get(process)
                    .is_some_and(|x| *x != Process::Ended);
                ensure(known, "TRN-010", || {
                    format!("process {process} is not there")
                })
            }
            Output::PutHome(entry) => outputs::home_entry(entry),
            Output::Look(look) => ensure(self.looks.insert(look.look), "contract", || {
                format!("look {} is still open", look.look)
            }),
            Output::SetTimer(timer) => ensure(
                (1..=3_600_000).contains(&timer.after_ms),
                "contract",
                || format!("a timer of {} ms", timer.after_ms),
            ),
            Output::Event(event) => self.event(event),
            Output::Receipt(receipt) => self.receipt(receipt),
            Output::Prepared(result) => {
                let asked = self.preparation == Preparation::Asked;
                self.preparation = Preparation::Answered;
                ensure(asked, "RP-10.2", || {
                    "prepared without or again after prepare".into()
                })?;
                match result {
                    Ok(session) => ensure(!session.id.is_empty(), "RP-10.18", || "no id".into()),
                    Err(failure) => outputs::prepare_failure(failure),
                }
            }
            Output::Settled(settlement) => self.settled(settlement),
            Output::AnswerTool(answer) => ensure(self.calls.remove(&answer.call), "S-FN-5", || {
                format!("no tool call {}", answer.call)
            }),
            Output::Retire(code) => {
                ensure(is_code(code), "TRN-006", || format!("code {code:?}"))?;
                let active = self.active_run();
                ensure(active.is_none(), "TRN-006", || {
                    format!("retired during {active:?}")
                })
            }
            Output::ClearTimer(_) | Output::Other(_) => Ok(()),
        }
    }

    fn write(&mut self, write: &Write) -> Result {
        let running = self.processes.get(&write.process) == Some(&Process::Running);
        ensure(running, "RP-12.2", || {
            format!("process {} does not run", write.process)
        })?;
        for id in &write.carries {
            ensure(self.waiting.contains_key(id), "RP-12.2", || {
                format!("{id} does not wait")
            })?;
            ensure(self.carried.insert(id.clone()), "RP-12.4", || {
                format!("{id} is sent again")
            })?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result {
        if let EventBody::Notice(notice) = &event.body {
            outputs::notice(notice)?;
        }
        let Origin::Root(id) = &event.origin else {
            return Ok(());
        };
        let Some(run) = self.runs.get_mut(id) else {
            return broken("TRN-011", format!("an event of unknown run {id}"));
        };
        ensure(run.settled.is_none(), "TRN-005", || {
            format!("an event after {id} settled")
        })?;
        ensure(!run.rejected, "TRN-002", || {
            format!("an event of rejected run {id}")
        })?;
        let notice = matches!(event.body, EventBody::Notice(_));
        ensure(run.exists || notice, "TRN-002", || {
            format!("an event before {id} started")
        })?;
        run.items.event(&event.body)
    }

    fn receipt(&mut self, receipt: &Receipt) -> Result {
        let id = &receipt.id;
        let Some(purpose) = self.waiting.remove(id) else {
            return broken("RP-6.2", format!("a receipt for {id}, which does not wait"));
        };
        if let ReceiptResult::Rejected(code) | ReceiptResult::Unknown(code) = &receipt.outcome {
            ensure(is_code(code), "RP-5", || format!("code {code:?}"))?;
        }
        let done = receipt.outcome == ReceiptResult::Done;
        match purpose {
            Purpose::Start => {
                if let Some(run) = self.runs.get_mut(id) {
                    run.rejected = matches!(receipt.outcome, ReceiptResult::Rejected(_));
                    run.exists = !run.rejected;
                }
                Ok(())
            }
            Purpose::Message(run) | Purpose::Result(run) => {
                let run = self.runs.get(&run);
                let open = run.is_some_and(|run| run.exists && run.settled.is_none());
                ensure(!done || open, "RP-12.3", || {
                    format!("{id} accepted outside its Turn")
                })
            }
            Purpose::Cancel(run) => {
                let status = self.runs.get(&run).and_then(|run| run.settled);
                let cancelled = status == Some(TurnStatus::Cancelled);
                ensure(!done || cancelled, "TRN-005", || {
                    format!("cancel {id} is done and its Turn is {status:?}")
                })
            }
            Purpose::Close => Ok(()),
        }
    }

    fn settled(&mut self, settlement: &Settlement) -> Result {
        outputs::settlement(settlement)?;
        let id = settlement.run.as_str();
        let open = self.waiting.iter().find(|(_, purpose)| match purpose {
            Purpose::Message(run) | Purpose::Result(run) => run == id,
            _ => false,
        });
        ensure(open.is_none(), "TRN-005", || {
            format!("{open:?} is open when {id} settles")
        })?;
        let Some(run) = self.runs.get_mut(id) else {
            return broken("TRN-005", format!("unknown run {id} settles"));
        };
        ensure(run.exists, "TRN-002", || {
            format!("{id} settles and never started")
        })?;
        ensure(run.settled.is_none(), "TRN-005", || {
            format!("{id} settles twice")
        })?;
        let items = run.items.open();
        ensure(items.is_empty(), "TRN-005", || {
            format!("{id} settles with open {items:?}")
        })?;
        let cancelled = settlement.status == TurnStatus::Cancelled;
        ensure(!cancelled || run.cancel_asked, "TRN-004", || {
            format!("{id} is cancelled and nobody asked")
        })?;
        run.settled = Some(settlement.status);
        Ok(())
    }
}
