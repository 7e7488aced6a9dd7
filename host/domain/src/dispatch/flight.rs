//! The machine from the claim to the end of the Turn.

use std::collections::HashSet;
use std::time::Duration;

use super::ending::{Ending, RunEnd};
use super::input::{
    CancelAnswer, Capture, DeliveryAnswer, Effect, Input, SettleAnswer, StartAnswer,
};
use super::machine::{Admission, CANCEL_CONFIRMATION};
use super::view::{Delivery, PeerView, Waiting, WorkView};
use crate::turn::TurnFailure;
use crate::{ConnectionId, ExecutorId, PrepareId, RunId, TurnId};

/// One claimed Turn and its only Run.
#[derive(Debug)]
pub(super) struct Flight {
    turn: TurnId,
    run: RunId,
    prepare: PrepareId,
    executor: ExecutorId,
    connection: ConnectionId,
    /// The Session has an Environment, so that a good end is followed by the copy of its outputs.
    environment: bool,
    stage: Stage,
    /// When the cancel was sent; from then on its receipt owns the outcome (RP-13.2).
    cancel_sent: Option<Duration>,
    /// One delivery at a time (RP-12.1).
    under_way: Option<Delivery>,
    /// Everything handed over; none of it is handed over again (I19).
    handed: HashSet<Delivery>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The claim is committed, Start is not asked for.
    Claimed,
    /// Start is asked for, nothing is known of it.
    Asked,
    /// Start was handed to the socket.
    Sent,
    /// `started` or an event was seen.
    Running,
    /// `SettleRun` is on its way.
    Settling,
    /// Outputs are being copied.
    Capturing,
    /// `FinishTurn` is on its way; nothing changes the proposal any more.
    Finishing,
}

/// Whether the flight goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It does.
    Stay,
    /// The machine is idle again.
    Over,
}

type Step = (Vec<Effect>, Next);

fn stay(effects: Vec<Effect>) -> Step {
    (effects, Next::Stay)
}

fn over() -> Step {
    (vec![Effect::Read], Next::Over)
}

impl Flight {
    pub(super) fn new(
        admission: Admission,
        executor: ExecutorId,
        turn: TurnId,
        run: RunId,
    ) -> Self {
        Self {
            turn,
            run,
            prepare: admission.prepare,
            executor,
            connection: admission.connection,
            environment: matches!(admission.waiting, Waiting::Reservation(_)),
            stage: Stage::Claimed,
            cancel_sent: None,
            under_way: None,
            handed: HashSet::new(),
        }
    }

    pub(super) fn step(&mut self, input: Input, now: Duration) -> Step {
        match (self.stage, input) {
            (Stage::Finishing, Input::Finished(_)) => over(),
            (Stage::Finishing, _) => stay(Vec::new()),
            (Stage::Settling, Input::Settled(answer)) => self.settled(answer),
            (Stage::Capturing, Input::Captured(capture)) => stay(self.captured(capture)),
            // The Run is over: a lost peer, a late receipt or a tick says nothing about it. The copy ends by itself.
            (Stage::Settling | Stage::Capturing, _) => stay(Vec::new()),
            (_, Input::Read { work, peer }) => self.read(&work, peer.as_ref(), now),
            (_, Input::PeerLost(lost)) if lost == self.connection => stay(self.lost()),
            (_, Input::Start(answer)) => stay(self.start(answer)),
            (Stage::Asked | Stage::Sent, Input::Event(run)) if run == self.run => {
                stay(self.running())
            }
            (_, Input::Delivered { delivery, answer }) if self.under_way == Some(delivery) => {
                stay(self.delivered(delivery, answer))
            }
            (_, Input::Undelivered(delivery)) if self.under_way == Some(delivery) => {
                self.under_way = None;
                self.handed.remove(&delivery);
                // The next re-read tries again: what kept it back needs its time too.
                stay(Vec::new())
            }
            (_, Input::Cancelled(answer)) if self.cancel_sent.is_some() => {
                stay(self.cancelled(answer))
            }
            (_, Input::Ended(run, end)) if run == self.run => stay(self.ended(end)),
            (_, Input::JournalBroken(run, fault)) if run == self.run => {
                stay(self.fail_and_abandon(fault.cause()))
            }
            (_, Input::Tick) => stay(self.tick(now)),
            _ => stay(Vec::new()),
        }
    }

    fn read(&mut self, work: &WorkView, peer: Option<&PeerView>, now: Duration) -> Step {
        let Some(claimed) = work
            .claimed
            .as_ref()
            .filter(|claimed| claimed.run == self.run)
        else {
            // Somebody with more right ended the Turn; a Run that may live is told so (D30), and an Executor that waits for one
            // is free again (SC-7.4).
            let told = match self.stage {
                Stage::Claimed => Effect::Release(self.prepare),
                _ => Effect::Abandon(self.run),
            };
            return (vec![told, Effect::Read], Next::Over);
        };
        if peer.is_none_or(|peer| peer.connection != self.connection) {
            return stay(self.lost());
        }
        if self.stage == Stage::Claimed {
            if claimed.cancel {
                // Nothing native happened, and it is certain (T21, D12).
                let mut effects = vec![Effect::Release(self.prepare)];
                effects.extend(self.finish(Ending::NeverBegan));
                return stay(effects);
            }
            self.stage = Stage::Asked;
            let (prepare, executor, run, turn) = (self.prepare, self.executor, self.run, self.turn);
            return stay(vec![Effect::Start {
                prepare,
                executor,
                run,
                turn,
            }]);
        }
        if claimed.cancel {
            // Before any waiting message, and before its barriers (F13, RP-13.5).
            if self.cancel_sent.is_none() && self.stage != Stage::Asked {
                self.cancel_sent = Some(now);
                return stay(vec![Effect::Cancel(self.run)]);
            }
            return stay(Vec::new());
        }
        if self.stage != Stage::Running || self.under_way.is_some() {
            return stay(Vec::new());
        }
        let next = claimed
            .undelivered
            .iter()
            .copied()
            .find(|delivery| !self.handed.contains(delivery));
        let Some(delivery) = next else {
            return stay(Vec::new());
        };
        self.under_way = Some(delivery);
        self.handed.insert(delivery);
        stay(vec![Effect::Deliver(self.run, delivery)])
    }

    fn start(&mut self, answer: StartAnswer) -> Vec<Effect> {
        match (self.stage, answer) {
            (Stage::Asked, StartAnswer::Sent) => {
                self.stage = Stage::Sent;
                vec![Effect::Read]
            }
            // Certainly nothing runs, and the admission has its time left: it is given back (SC-7.4).
            (Stage::Asked, StartAnswer::Unsent(cause)) => {
                let mut effects = vec![Effect::Release(self.prepare)];
                effects.extend(self.finish(Ending::Failed(cause.failure())));
                effects
            }
            (Stage::Asked | Stage::Sent, StartAnswer::Started) => self.running(),
            (Stage::Asked | Stage::Sent, StartAnswer::Rejected) if self.cancel_sent.is_some() => {
                self.finish(Ending::NeverBegan)
            }
            // The right is used up: no second Start (D11).
            (Stage::Asked | Stage::Sent, StartAnswer::Rejected) => {
                self.finish(Ending::Failed(TurnFailure::PreparationStartFailed))
            }
            // With a cancel under way its receipt or its deadline decides (RP-13.2).
            (Stage::Asked | Stage::Sent, StartAnswer::Unknown) if self.cancel_sent.is_none() => {
                self.fail_and_abandon(TurnFailure::DeliveryUnknown)
            }
            _ => Vec::new(),
        }
    }

    fn running(&mut self) -> Vec<Effect> {
        self.stage = Stage::Running;
        vec![Effect::Read]
    }

    fn delivered(&mut self, delivery: Delivery, answer: DeliveryAnswer) -> Vec<Effect> {
        self.under_way = None;
        let confirm = Effect::Confirm(delivery, answer);
        let cause = match (delivery, answer) {
            // A message that was not applied is judged at the Run's end (RP-12.6).
            (Delivery::Message(_), _) | (Delivery::Result(_), DeliveryAnswer::Accepted) => {
                return vec![confirm, Effect::Read];
            }
            (Delivery::Result(_), DeliveryAnswer::Rejected) => TurnFailure::FunctionResultInvalid,
            (Delivery::Result(_), DeliveryAnswer::Unknown) => {
                TurnFailure::FunctionResultUnconfirmed
            }
        };
        if self.cancel_sent.is_some() {
            return vec![confirm];
        }
        let mut effects = vec![confirm];
        effects.extend(self.fail_and_abandon(cause));
        effects
    }

    fn cancelled(&mut self, answer: CancelAnswer) -> Vec<Effect> {
        match answer {
            CancelAnswer::Settled(RunEnd::Cancelled) => self.finish(Ending::Cancelled),
            CancelAnswer::Settled(RunEnd::Completed) => self.finish(Ending::Completed),
            CancelAnswer::Settled(RunEnd::Failed(class)) => {
                self.finish(Ending::Failed(TurnFailure::EngineFailed { class }))
            }
            CancelAnswer::Unavailable => {
                self.fail_and_abandon(TurnFailure::CancelOutcomeUnavailable)
            }
        }
    }

    /// T14, T15, T20, T22. Once the cancel was sent its receipt decides, and the end alone does not (D14).
    fn ended(&mut self, end: RunEnd) -> Vec<Effect> {
        if self.cancel_sent.is_some() {
            return Vec::new();
        }
        match end {
            RunEnd::Completed if self.environment => {
                self.stage = Stage::Settling;
                vec![Effect::Settle {
                    turn: self.turn,
                    run: self.run,
                }]
            }
            RunEnd::Completed => self.finish(Ending::Completed),
            RunEnd::Failed(class) => {
                self.finish(Ending::Failed(TurnFailure::EngineFailed { class }))
            }
            // Nobody of ours asked for it.
            RunEnd::Cancelled => {
                self.finish(Ending::Failed(TurnFailure::EngineFailed { class: None }))
            }
        }
    }

    fn settled(&mut self, answer: SettleAnswer) -> Step {
        match answer {
            SettleAnswer::Capture => {
                self.stage = Stage::Capturing;
                stay(vec![Effect::Capture(self.run)])
            }
            SettleAnswer::Finished | SettleAnswer::Unsettled => over(),
        }
    }

    fn captured(&mut self, capture: Capture) -> Vec<Effect> {
        match capture {
            Capture::Staged => self.finish(Ending::Completed),
            Capture::Discarded => self.finish(Ending::Failed(TurnFailure::ArtifactCaptureFailed)),
        }
    }

    /// The table of causes in `state-machines.md` 1.2: what the loss of the peer leaves unknown.
    fn lost(&mut self) -> Vec<Effect> {
        let cause = match self.stage {
            Stage::Claimed => TurnFailure::DeviceDisconnected,
            _ if self.cancel_sent.is_some() => TurnFailure::CancelUnconfirmed,
            Stage::Asked | Stage::Sent => TurnFailure::DeliveryUnknown,
            Stage::Running => TurnFailure::EventStreamIncomplete,
            Stage::Settling | Stage::Capturing | Stage::Finishing => return Vec::new(),
        };
        self.finish(Ending::Failed(cause))
    }

    fn tick(&mut self, now: Duration) -> Vec<Effect> {
        match self.cancel_sent {
            Some(at) if now.saturating_sub(at) >= CANCEL_CONFIRMATION => {
                self.fail_and_abandon(TurnFailure::CancelUnconfirmed)
            }
            _ => Vec::new(),
        }
    }

    fn finish(&mut self, ending: Ending) -> Vec<Effect> {
        self.stage = Stage::Finishing;
        vec![Effect::Finish {
            turn: self.turn,
            run: self.run,
            ending,
        }]
    }

    fn fail_and_abandon(&mut self, cause: TurnFailure) -> Vec<Effect> {
        let mut effects = self.finish(Ending::Failed(cause));
        effects.push(Effect::Abandon(self.run));
        effects
    }
}
