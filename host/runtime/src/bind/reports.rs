//! What a Session's Executor tells.

use domain::run::PrepareCode;
use protocol::runtime_end::Command;
use tokio::time::Instant;

use super::session::{State, Task};
use crate::execute::{Report, Reported};

impl Task {
    pub(super) fn reported(&mut self, reported: Reported) {
        let Some(live) = self
            .live
            .as_mut()
            .filter(|live| live.executor.id() == reported.executor)
        else {
            return;
        };
        match reported.report {
            Report::Prepared(Ok(())) => {
                if matches!(live.state, State::Preparing { .. }) {
                    crash::crash_point!("daemon.prepared");
                    live.state = State::Idle {
                        since: Instant::now(),
                    };
                }
            }
            Report::Prepared(Err(code)) => live.state = State::Closing(Some(code)),
            Report::Started(run_id) => {
                crash::crash_point!("daemon.started");
                self.send(Command::Started { run_id });
            }
            Report::NotStarted(run_id, code) => {
                if live.state == State::Running(run_id) {
                    live.state = State::Idle {
                        since: Instant::now(),
                    };
                }
                self.send(Command::NotStarted { run_id, code });
            }
            Report::Answer(id, answer) => self.answer(id, answer),
            Report::Events(events) => {
                crash::crash_point!("daemon.events");
                self.send(Command::Events(events));
            }
            Report::Settled {
                run,
                outcome,
                proof,
            } => {
                crash::crash_point!("daemon.settled");
                tracing::info!(%run, ?outcome, "a Run has settled");
                if live.state == State::Running(run) {
                    live.state = State::Idle {
                        since: Instant::now(),
                    };
                }
                self.send(Command::Settled { run_id: run, proof });
            }
            Report::Retiring => {
                if !matches!(
                    live.state,
                    State::Running(_) | State::Reserved(_) | State::Closing(_)
                ) {
                    live.state = State::Closing(None);
                }
            }
            Report::Closed { clean } => self.closed(clean),
        }
    }

    fn closed(&mut self, clean: bool) {
        let Some(live) = self.live.take() else { return };
        if !clean {
            self.unconfirmed = true;
            tracing::error!(session = %self.binding.session, "processes of an Executor are not confirmed gone");
        }
        let failed = match live.state {
            // The admission that it was made for fails with it.
            State::Closing(Some(code)) => self
                .waiting
                .take()
                .map(|(prepare_id, _)| (prepare_id, code)),
            State::Preparing { .. } => self
                .waiting
                .take()
                .map(|(prepare_id, _)| (prepare_id, PrepareCode::ProgramFailed)),
            // It retired between `ready` and the start.
            State::Reserved(prepare_id) => Some((prepare_id, PrepareCode::ExecutorUnavailable)),
            State::Idle { .. } | State::Running(_) | State::Closing(None) => None,
        };
        // One that waits for the end of an Executor that cannot be confirmed waits for ever.
        let failed = match failed {
            None if !clean => self
                .waiting
                .take()
                .map(|(prepare_id, _)| (prepare_id, PrepareCode::CleanupUnconfirmed)),
            failed => failed,
        };
        if let Some((prepare_id, code)) = failed {
            let code = if clean {
                code
            } else {
                PrepareCode::CleanupUnconfirmed
            };
            self.send(Command::PrepareFailed {
                prepare_id,
                code,
                rejected: false,
            });
        }
    }
}
