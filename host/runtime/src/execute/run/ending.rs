//! How a Run is brought to its end, and what the end means.

use domain::run::{Done, EventBody, RefusalCode, RunEvent, RunFailure, TurnStatus};
use plugin_host::contract::harness_io::{AddMessage, CancelTurn, Command};
use protocol::wire::{Answer, CancelProof, Proof};
use tokio::time::Instant;

use super::{
    Cause, Do, Ending, InputState, Phase, Run, Settlement, WRITTEN_WITHIN, in_flight, lose,
    message, rejected, unconfirmed,
};

impl Run {
    pub(super) fn end(&mut self, cause: Cause, now: Instant, out: &mut Vec<Do>) {
        if matches!(self.phase, Phase::Settling { .. } | Phase::Settled(_)) || self.ending.is_some()
        {
            return;
        }
        let id = uuid::Uuid::now_v7().to_string();
        let kill_at = Some(now + self.limits.cancel);
        self.ending = Some(Ending {
            cause,
            id,
            given: false,
            kill_at,
        });
        self.refuse_the_rest(out);
        if matches!(self.phase, Phase::Running) {
            self.give_cancel(out);
        }
    }

    pub(super) fn give_cancel(&mut self, out: &mut Vec<Do>) {
        let run = self.id.to_string();
        if let Some(ending) = self.ending.as_mut().filter(|e| !e.given) {
            ending.given = true;
            out.push(Do::Give(Command::CancelTurn(CancelTurn {
                id: ending.id.clone(),
                run,
            })));
        }
    }

    pub(super) fn give_next(&mut self, now: Instant, out: &mut Vec<Do>) {
        if !matches!(self.phase, Phase::Running) || self.input_in_flight() {
            return;
        }
        let run = self.id.to_string();
        if let Some(next) = self
            .inputs
            .iter_mut()
            .find(|i| i.state == InputState::Queued)
        {
            next.state = InputState::Given {
                written_by: Some(now + WRITTEN_WITHIN),
            };
            out.push(Do::Give(Command::AddMessage(AddMessage {
                run,
                message: message(&next.message),
            })));
        }
    }

    pub(super) fn input_in_flight(&self) -> bool {
        self.inputs.iter().any(in_flight)
    }

    pub(super) fn kill(&mut self, out: &mut Vec<Do>) {
        if let Some(ending) = &mut self.ending {
            ending.kill_at = None;
        }
        if !std::mem::replace(&mut self.killed, true) && self.gone.is_none() {
            out.push(Do::Kill);
        }
    }

    /// The processes are gone and the adapter has no more to say: the host decides.
    pub(super) fn force(&mut self, now: Instant, out: &mut Vec<Do>) {
        if !matches!(self.phase, Phase::Starting | Phase::Running) {
            return;
        }
        let confirmed_end = self.gone == Some(true) && self.ending.is_some();
        let status = if confirmed_end {
            TurnStatus::Cancelled
        } else {
            TurnStatus::Unknown
        };
        self.settled(
            Settlement {
                status,
                failure: None,
                reusable: false,
            },
            now,
            out,
        );
    }

    pub(super) fn try_settle(&mut self, now: Instant, out: &mut Vec<Do>) {
        let Phase::Settling { how, inputs_until } = &self.phase else {
            return;
        };
        let process_open = !how.reusable && self.gone.is_none();
        if process_open || self.surveying || (self.input_in_flight() && *inputs_until > now) {
            return;
        }
        let how = how.clone();
        self.inputs
            .iter_mut()
            .filter(|i| in_flight(i))
            .for_each(|i| lose(i, out));
        let (outcome, failure) = self.verdict(&how);
        self.phase = Phase::Settled(outcome);
        self.refuse_the_rest(out);
        let late = std::mem::take(&mut self.results);
        out.extend(late.into_iter().map(|r| Do::Answer(r.ask, unconfirmed())));

        // Free first: Core may start the next Turn as soon as it sees the end of this one (RP-11.7).
        let answer = self.cancel_answer(outcome);
        out.push(Do::Settled {
            outcome,
            reusable: how.reusable,
            proof: answer.clone(),
        });
        out.extend(
            std::mem::take(&mut self.cancels)
                .into_iter()
                .map(|ask| Do::Answer(ask, answer.clone())),
        );
        let (first, mut last) = (self.journal.last_seq() + 1, Vec::new());
        if let Some(failure) = failure {
            self.journal
                .push_last(RunEvent::root(EventBody::Error(failure)), &mut last);
        }
        self.journal.push_last(
            RunEvent::root(EventBody::Done(Done { status: outcome })),
            &mut last,
        );
        if !last.is_empty() {
            out.push(Do::Events(first, last));
        }
    }

    /// What the settlement means, given what the host knows besides.
    pub(super) fn verdict(&self, how: &Settlement) -> (TurnStatus, Option<RunFailure>) {
        let limit = self.ending.as_ref().and_then(|e| match e.cause {
            Cause::Limit(code) => Some(code),
            Cause::Cancel => None,
        });
        // A cancel that had to take the process away is confirmed by the empty tree only (F01, RP-13.3).
        let unclean = !how.reusable && self.gone == Some(false);
        match (how.status, limit) {
            (TurnStatus::Cancelled | TurnStatus::Unknown, Some(code)) => (
                TurnStatus::Failed,
                Some(RunFailure::new(
                    Some(code),
                    None,
                    "a limit of the Turn was reached",
                )),
            ),
            (TurnStatus::Cancelled, None) if unclean => (TurnStatus::Unknown, None),
            // RP-12.6
            (TurnStatus::Completed, _)
                if self.inputs.iter().any(|i| i.state != InputState::Accepted) =>
            {
                (
                    TurnStatus::Failed,
                    Some(RunFailure::new(None, None, "a message was not accepted")),
                )
            }
            (TurnStatus::Failed, _) => {
                let unclassified = || RunFailure::new(None, None, "the harness reported a failure");
                (
                    TurnStatus::Failed,
                    Some(how.failure.clone().unwrap_or_else(unclassified)),
                )
            }
            (status, _) => (status, how.failure.clone()),
        }
    }

    pub(super) fn refuse_the_rest(&mut self, out: &mut Vec<Do>) {
        for input in self
            .inputs
            .iter_mut()
            .filter(|i| i.state == InputState::Queued)
        {
            input.state = InputState::Lost;
            out.extend(input.ask.map(|ask| rejected(ask, RefusalCode::RunEnded)));
        }
    }

    pub(super) fn cancel_answer(&self, outcome: TurnStatus) -> Answer {
        if outcome == TurnStatus::Unknown {
            return unconfirmed();
        }
        let (native_session, usage) = (self.native.clone(), self.usage);
        Answer::Ok(Proof::Cancelled(CancelProof {
            settled: true,
            outcome,
            native_session,
            usage,
        }))
    }
}
