//! The machine before a Run: choosing, binding, preparing, claiming.

use std::time::Duration;

use super::flight::{Flight, Next};
use super::input::{BindAnswer, ClaimAnswer, Effect, Input, PrepareAnswer};
use super::view::{Fit, PeerView, Waiting, WorkView};
use crate::{ConnectionId, ExecutorId, PrepareId, RunId};

/// Longest wait for the receipt of a cancel (RP-13.3, SC-10.5).
pub const CANCEL_CONFIRMATION: Duration = Duration::from_secs(15);

/// Where one Session's dispatch is (rows X1 to X18).
#[derive(Debug)]
pub struct Dispatch {
    state: State,
}

/// The state without its data, for logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is going on.
    Idle,
    /// `bind` is on its way.
    Binding,
    /// A preparation is on its way.
    Preparing,
    /// The Executor is ready.
    Ready,
    /// The claiming unit runs.
    Claiming,
    /// A claimed Turn: before, during and after its Run.
    Flying,
    /// The lease is lost or the process drains.
    Stopped,
}

#[derive(Debug)]
enum State {
    Idle,
    Binding(ConnectionId),
    Preparing(Admission),
    Ready(Admission, ExecutorId),
    Claiming {
        admission: Admission,
        executor: ExecutorId,
        run: RunId,
    },
    Flying(Flight),
    Stopped,
}

/// One preparation on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) prepare: PrepareId,
    pub(super) connection: ConnectionId,
    pub(super) waiting: Waiting,
}

/// Ids for what a step may begin; unused ones are dropped.
#[derive(Debug, Clone, Copy)]
pub struct Fresh {
    /// For a preparation (RP-6.2).
    pub prepare: PrepareId,
    /// For a Run.
    pub run: RunId,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self { state: State::Idle }
    }
}

impl Dispatch {
    /// The state without its data.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Binding(_) => Phase::Binding,
            State::Preparing(_) => Phase::Preparing,
            State::Ready(..) => Phase::Ready,
            State::Claiming { .. } => Phase::Claiming,
            State::Flying(_) => Phase::Flying,
            State::Stopped => Phase::Stopped,
        }
    }

    /// Takes what happened and says what to do, in order. `now` is the actor's monotonic time (SC-11.2).
    pub fn step(&mut self, input: Input, now: Duration, fresh: Fresh) -> Vec<Effect> {
        if input == Input::Stop {
            self.state = State::Stopped;
            return Vec::new();
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.idle(input, fresh),
            State::Binding(connection) => self.binding(connection, input),
            State::Preparing(admission) => self.preparing(admission, input),
            State::Ready(admission, executor) => self.ready(admission, executor, input, fresh),
            State::Claiming {
                admission,
                executor,
                run,
            } => self.claiming(admission, executor, run, input),
            State::Flying(mut flight) => {
                let (effects, next) = flight.step(input, now);
                if next == Next::Stay {
                    self.state = State::Flying(flight);
                }
                effects
            }
            State::Stopped => {
                self.state = State::Stopped;
                Vec::new()
            }
        }
    }

    /// X1 to X5.
    fn idle(&mut self, input: Input, fresh: Fresh) -> Vec<Effect> {
        let (work, peer) = match input {
            Input::Read { work, peer } => (work, peer),
            // The scan that follows the next connection finds it again (X1).
            Input::NoDevice => return vec![Effect::Rest],
            Input::Written(true) => return vec![Effect::Read],
            // At once again it would fail again, and nobody else would be heard meanwhile.
            Input::Written(false) => return vec![Effect::Backoff],
            _ => return Vec::new(),
        };
        if let Some(claimed) = &work.claimed {
            // Nobody flies this claim: its commit was unknown, or its flight ended without a known commit (X12).
            return vec![Effect::Interrupt {
                turn: claimed.turn,
                run: claimed.run,
            }];
        }
        let Some(waiting) = work.waiting.filter(|_| !work.deleted) else {
            return vec![Effect::Rest];
        };
        if work.device.is_none() {
            return match waiting {
                Waiting::Turn(_) => vec![Effect::ChooseDevice],
                Waiting::Reservation(_) => vec![Effect::Rest],
            };
        }
        let Some(peer) = peer else {
            return vec![Effect::Rest];
        };
        if !peer.bound {
            self.state = State::Binding(peer.connection);
            return vec![Effect::Bind(peer.connection)];
        }
        if !work.initialized || peer.fit == Fit::Lacks {
            return vec![Effect::Rest];
        }
        let prepare = fresh.prepare;
        self.state = State::Preparing(Admission {
            prepare,
            connection: peer.connection,
            waiting,
        });
        vec![Effect::Prepare { prepare, waiting }]
    }

    fn binding(&mut self, connection: ConnectionId, input: Input) -> Vec<Effect> {
        match input {
            Input::Bound(BindAnswer::Done) => vec![Effect::Read],
            Input::Bound(BindAnswer::NotNow) => vec![Effect::Rest],
            Input::PeerLost(lost) if lost == connection => vec![Effect::Rest],
            _ => {
                self.state = State::Binding(connection);
                Vec::new()
            }
        }
    }

    /// X6 to X8.
    fn preparing(&mut self, admission: Admission, input: Input) -> Vec<Effect> {
        match input {
            Input::Prepare { prepare, answer } if prepare == admission.prepare => match answer {
                PrepareAnswer::Ready(executor) => {
                    self.state = State::Ready(admission, executor);
                    vec![Effect::Read]
                }
                PrepareAnswer::Ended(Some(code)) if code.ends_pending_input() => {
                    vec![Effect::Fail(admission.waiting)]
                }
                PrepareAnswer::Ended(_) => vec![Effect::Backoff],
            },
            Input::Read { work, peer } => match void(&admission, &work, peer.as_ref()) {
                Some(effects) => effects,
                None => {
                    self.state = State::Preparing(admission);
                    Vec::new()
                }
            },
            Input::PeerLost(lost) if lost == admission.connection => vec![Effect::Read],
            _ => {
                self.state = State::Preparing(admission);
                Vec::new()
            }
        }
    }

    /// X7, X9: everything is checked once more on the same connection before the claim (SC-7.2).
    fn ready(
        &mut self,
        admission: Admission,
        executor: ExecutorId,
        input: Input,
        fresh: Fresh,
    ) -> Vec<Effect> {
        match input {
            Input::Read { work, peer } => {
                if let Some(effects) = void(&admission, &work, peer.as_ref()) {
                    return effects;
                }
                if peer.is_none_or(|peer| peer.fit == Fit::Lacks) {
                    return vec![Effect::Release(admission.prepare), Effect::Rest];
                }
                self.state = State::Claiming {
                    admission,
                    executor,
                    run: fresh.run,
                };
                vec![Effect::Claim {
                    waiting: admission.waiting,
                    run: fresh.run,
                }]
            }
            // The reservation of the Executor ran out before the claim (RP-10.4).
            Input::Prepare {
                prepare,
                answer: PrepareAnswer::Ended(_),
            } if prepare == admission.prepare => {
                vec![Effect::Backoff]
            }
            Input::PeerLost(lost) if lost == admission.connection => vec![Effect::Read],
            _ => {
                self.state = State::Ready(admission, executor);
                Vec::new()
            }
        }
    }

    /// X10 to X12. Losing the peer here changes nothing yet: the claim may already be committed.
    fn claiming(
        &mut self,
        admission: Admission,
        executor: ExecutorId,
        run: RunId,
        input: Input,
    ) -> Vec<Effect> {
        match input {
            Input::Claimed(ClaimAnswer::First(turn)) => {
                self.state = State::Flying(Flight::new(admission, executor, turn, run));
                vec![Effect::Read]
            }
            // Not at once again: what refused it (a deadline, a generation) is settled by the next tick.
            Input::Claimed(ClaimAnswer::Refused) => {
                vec![Effect::Release(admission.prepare), Effect::Rest]
            }
            Input::Claimed(ClaimAnswer::NoRight) => {
                vec![Effect::Release(admission.prepare), Effect::Read]
            }
            _ => {
                self.state = State::Claiming {
                    admission,
                    executor,
                    run,
                };
                Vec::new()
            }
        }
    }
}

/// What gives a preparation up: its work is gone, or its connection is (X7, SC-7.2, SC-7.4).
fn void(admission: &Admission, work: &WorkView, peer: Option<&PeerView>) -> Option<Vec<Effect>> {
    if peer.is_none_or(|peer| peer.connection != admission.connection) {
        return Some(vec![Effect::Read]);
    }
    let gone = work.deleted || work.waiting != Some(admission.waiting);
    gone.then(|| vec![Effect::Release(admission.prepare), Effect::Read])
}
