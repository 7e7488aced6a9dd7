//! What a Session's Executor tells.

use domain::{
    RunId,
    run::{PrepareCode, PrepareState},
};
use tokio::time::Instant;

use super::{
    admission::Stage,
    session::{LiveState, Outgoing, Task},
};
use crate::{
    ask::Ask,
    execute::{Report, Reported},
};

impl Task {
    pub(super) fn reported(&mut self, reported: Reported) {
        let Some(live) = self.live.as_mut().filter(|live| live.executor.id() == reported.executor) else { return };
        match reported.report {
            Report::Prepared(Ok(())) => {
                if live.state == LiveState::Preparing {
                    live.state = LiveState::Idle { since: Instant::now() };
                }
            }
            Report::Prepared(Err(code)) => live.state = LiveState::Closing(Some(code)),
            Report::Started(run) => self.started(run),
            Report::NotStarted(run, code) => self.not_started(run, code),
            Report::Answer(ask, answer) => self.answer(ask, answer),
            Report::Events(events) => {
                if let Some((_, last)) = &mut self.run {
                    *last = events.seq + events.events.len() as u64 - 1;
                }
                if self.connected {
                    self.send(Outgoing::Events(self.binding, events));
                }
            }
            Report::Settled { run, outcome, proof } => {
                tracing::info!(%run, ?outcome, "a Run has settled");
                if let LiveState::Running(_) = live.state {
                    live.state = LiveState::Idle { since: Instant::now() };
                }
                self.run = None;
                self.remember(run, proof);
                // A settlement without a start still ends the admission.
                self.started(run);
            }
            Report::Retiring => {
                if !matches!(live.state, LiveState::Running(_) | LiveState::Closing(_)) {
                    live.state = LiveState::Closing(None);
                }
            }
            Report::Closed { clean } => self.closed(clean),
        }
    }

    fn start_of(&mut self, run: RunId) -> Option<(domain::PrepareId, Ask)> {
        self.admissions.iter().find_map(|admission| match admission.stage {
            Stage::Starting { run: starting, ask } if starting == run => Some((admission.id(), ask)),
            _ => None,
        })
    }

    fn started(&mut self, run: RunId) {
        if let Some((id, ask)) = self.start_of(run)
            && let Some(admission) = self.admission(id)
        {
            let status = admission.end(PrepareState::Started);
            self.tell(status);
            self.settled_by_status(ask);
        }
    }

    fn not_started(&mut self, run: RunId, code: PrepareCode) {
        if let Some(live) = &mut self.live
            && matches!(live.state, LiveState::Running(_))
        {
            live.state = LiveState::Idle { since: Instant::now() };
        }
        self.run = None;
        if let Some((id, ask)) = self.start_of(run) {
            if let Some(admission) = self.admission(id) {
                admission.stage = Stage::Over;
            }
            self.reject(ask, code);
        }
    }

    fn closed(&mut self, clean: bool) {
        let Some(live) = self.live.take() else { return };
        self.unconfirmed |= !clean;
        if !clean {
            tracing::error!(session = %self.binding.session, "processes of an Executor are not confirmed gone");
        }
        let never_ready = match live.state {
            LiveState::Closing(why) => why,
            _ => None,
        };
        // An admission that it was prepared for fails with it; one that pinned it has nothing to start any more.
        let pinned = match live.state {
            LiveState::Reserved(id) => Some((id, PrepareCode::ExecutorUnavailable)),
            _ => None,
        };
        let waiting = never_ready.and_then(|code| Some((self.waiting.keys().next().copied()?, code)));
        for (id, code) in pinned.into_iter().chain(waiting) {
            let code = if clean { code } else { PrepareCode::CleanupUnconfirmed };
            self.give_up(id, PrepareState::Failed(code));
        }
        // Also one whose Executor retired between `ready` and the start.
        let orphans: Vec<_> = self.admissions.iter().filter(|a| a.stage == Stage::Ready).map(|a| a.id()).collect();
        for id in orphans {
            self.give_up(id, PrepareState::Failed(PrepareCode::ExecutorUnavailable));
        }
    }
}
