//! Does what an adapter asks for, in its order.

use std::{error::Error as _, time::Duration};

use domain::{Secret, run::EventBody};
use plugin_host::{
    contract::{
        harness_events::Origin,
        harness_io::{Input, LaunchFailure, Looked, Output as Wish, ReceiptResult, Write},
        harness_launch::{Directory, HomeContent as Wanted, HomeEntry as WantedEntry, LaunchPlan},
    },
    translate::harness as translate,
};
use tokio::time::Instant;

use super::{
    executor::Task,
    process::{Running, STOP_GRACE},
    run::{Confirmed, Settlement},
};
use crate::place::{Command, HomeContent, HomeEntry, SpawnError};

/// Processes of one Executor.
const PROCESSES: usize = 4;
/// Longest timer of an adapter.
const TIMER: Duration = Duration::from_secs(3600);
/// After the installed programs of the harness.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Task {
    pub(super) async fn perform(&mut self, wish: Wish) {
        match wish {
            Wish::Launch(plan) => self.launch(plan).await,
            Wish::Write(write) => self.write(write),
            Wish::CloseInput(process) => {
                if let Some(running) = self.processes.get_mut(&process) {
                    running.close_input();
                }
            }
            Wish::Stop(process) => self.stop(process, STOP_GRACE),
            Wish::PutHome(entry) => {
                if let Err(code) = self.put_home(entry).await {
                    // The adapter goes on from what is there; a program that needs the entry will say so itself.
                    tracing::warn!(code, "an entry of the private home could not be written");
                }
            }
            Wish::Look(look) => {
                let answer = self.place.look(look.query).await;
                self.pending.push_back(Input::Looked(Looked {
                    look: look.look,
                    answer,
                }));
            }
            Wish::SetTimer(timer) => {
                let after = Duration::from_millis(timer.after_ms.max(1).into()).min(TIMER);
                self.timers.insert(timer.timer, Instant::now() + after);
            }
            Wish::ClearTimer(timer) => {
                self.timers.remove(&timer);
            }
            Wish::Event(event) => self.event(event),
            Wish::Receipt(receipt) => {
                let confirmed = match receipt.outcome {
                    ReceiptResult::Done => Confirmed::Done,
                    ReceiptResult::Rejected(code) => Confirmed::Rejected(code),
                    ReceiptResult::Unknown(_) => Confirmed::Unknown,
                };
                self.tell_run(|run, now, out| run.receipt(&receipt.id, confirmed, now, out));
            }
            Wish::Prepared(Ok(native)) => self.prepared(Ok(translate::native_session(native))),
            Wish::Prepared(Err(failure)) => {
                tracing::warn!(
                    code = failure.code,
                    detail = failure.detail,
                    "the harness could not be prepared"
                );
                self.prepared(Err(translate::prepare_code(&failure)));
            }
            Wish::Settled(settled) => {
                if self
                    .run_id()
                    .is_some_and(|run| run.to_string() == settled.run)
                {
                    let how = Settlement {
                        status: translate::turn_status(settled.status),
                        failure: settled.failure.map(translate::run_failure),
                        reusable: translate::is_reusable(&settled.afterwards),
                    };
                    self.tell_run(|run, now, out| run.settled(how, now, out));
                }
            }
            Wish::Retire(code) => {
                tracing::debug!(code, "the harness takes no further Turn");
                self.doom();
                self.processes
                    .keys()
                    .for_each(|process| self.stop(*process, STOP_GRACE));
            }
            Wish::AnswerTool(answer) => {
                // No tool endpoint is offered to any launch, so no call can be open.
                tracing::warn!(
                    call = answer.call,
                    "an adapter answered a tool call that nobody made"
                );
            }
            Wish::Other(extra) => tracing::debug!(
                kind = extra.kind,
                "an adapter asked for something newer than this host"
            ),
        }
    }

    fn event(&mut self, event: plugin_host::contract::harness_events::Event) {
        // An event of a former Run is never attached to the present one (RP-11.8).
        if let Origin::Root(run) = &event.origin
            && self
                .run_id()
                .is_none_or(|current| current.to_string() != *run)
        {
            return;
        }
        if let Some(event) = translate::run_event(event) {
            if let EventBody::Notice(notice) = &event.body {
                tracing::debug!(code = notice.code, "harness notice");
            }
            self.tell_run(|run, now, out| run.event(event, now, out));
        }
    }

    fn write(&mut self, write: Write) {
        let Some(running) = self.processes.get(&write.process) else {
            return;
        };
        match self.fills.join(&write.content) {
            Ok(bytes) => {
                if !running.write(bytes, write.carries) {
                    tracing::debug!(
                        process = write.process,
                        "a write after the input was closed"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(%error, "an adapter's write was refused");
                running.stop(STOP_GRACE);
            }
        }
    }

    async fn launch(&mut self, plan: LaunchPlan) {
        let process = plan.process;
        let answer = match self.try_launch(plan).await {
            Ok(()) => Input::Launched(process),
            Err(code) => {
                tracing::warn!(process, code, "a harness program was not started");
                Input::LaunchFailed(LaunchFailure {
                    process,
                    code: code.to_owned(),
                })
            }
        };
        self.pending.push_back(answer);
    }

    async fn try_launch(&mut self, plan: LaunchPlan) -> Result<(), &'static str> {
        let taken = self.processes.contains_key(&plan.process) || self.processes.len() >= PROCESSES;
        if self.doomed || taken || plan.tools.is_some() {
            return Err("refused");
        }
        let program = self
            .programs
            .by_name
            .get(&plan.program)
            .cloned()
            .ok_or("program_missing")?;
        for entry in plan.home {
            self.put_home(entry).await?;
        }
        let mut env = self.base_env();
        env.extend(self.env.iter().cloned());
        for variable in &plan.env {
            env.push((
                variable.name.clone(),
                self.fills
                    .join(&variable.value)
                    .map_err(|_| "fill_unknown")?,
            ));
        }
        let home = self.place.home();
        let directory = match plan.directory {
            Directory::Workspace => self.place.workspace().unwrap_or(home),
            Directory::Home => home,
        };
        let command = Command {
            program,
            args: plan.args,
            env: last_wins(env),
            directory: directory.to_owned(),
        };
        let started = match self.place.spawn(command).await {
            Ok(started) => started,
            Err(SpawnError::Missing) => return Err("program_missing"),
            Err(SpawnError::Io(error)) => {
                tracing::warn!(%error, cause = error.source().map(ToString::to_string), "spawn");
                return Err("spawn_failed");
            }
        };
        self.processes.insert(
            plan.process,
            Running::attach(plan.process, started, &plan.framing, &self.feeds),
        );
        Ok(())
    }

    /// What every program gets: nothing of the daemon's own (RP-16.7).
    fn base_env(&self) -> Vec<(String, Secret)> {
        let own = self
            .programs
            .path
            .iter()
            .map(|p| p.to_string_lossy().into_owned());
        let path: Vec<_> = own.chain([SYSTEM_PATH.to_owned()]).collect();
        let home = self.place.home().to_string_lossy().into_owned();
        let values = [
            ("PATH", path.join(":")),
            ("HOME", home),
            ("LANG", "C.UTF-8".to_owned()),
            // Without a view of its own a sandbox may not write into the machine's `/tmp`.
            (
                "TMPDIR",
                std::env::temp_dir().to_string_lossy().into_owned(),
            ),
        ];
        values
            .map(|(name, value)| (name.to_owned(), Secret::from(value)))
            .into()
    }

    async fn put_home(&mut self, entry: WantedEntry) -> Result<(), &'static str> {
        let content = match &entry.content {
            Wanted::File(pieces) => {
                HomeContent::File(self.fills.join(pieces).map_err(|_| "fill_unknown")?)
            }
            Wanted::Folder => HomeContent::Folder,
            Wanted::Absent => HomeContent::Absent,
            Wanted::Skill(_) => return Err("skill_missing"),
        };
        let entry = HomeEntry {
            path: entry.path,
            mode: entry.mode,
            content,
        };
        self.place.put_home(entry).await.map_err(|error| {
            tracing::warn!(%error, "put home");
            "home_failed"
        })
    }
}

fn last_wins(env: Vec<(String, Secret)>) -> Vec<(String, Secret)> {
    let mut kept: Vec<(String, Secret)> = Vec::with_capacity(env.len());
    for (name, value) in env {
        match kept.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => kept.push((name, value)),
        }
    }
    kept
}
