//! One task per Session with work (SC-3.6). It feeds the dispatch machine and performs its effects, one after another.
//!
//! The actor decides nothing: `domain::dispatch` decides what is asked for, the units decide what is written. What lives
//! here is order (everything the Run reported is committed before the Turn ends) and waiting (answers of the Runtime come
//! back as inputs while the actor goes on listening).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use domain::artifact::CapturedFile;
use domain::dispatch::{
    Dispatch, Effect, Fresh, Input, JournalFault, Phase, PrepareAnswer, StartAnswer, Unsent,
};
use domain::run::{Binding, PrepareState};
use domain::{PrepareId, RunId, SessionId};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use super::Shared;
use super::facts::Facts;
use super::journal::Journal;
use super::slots::Slot;
use crate::peer::{Peer, PrepareFeed, PrepareSignal, RunBreak, RunSignal, Unanswered};

/// How often a Session with a claimed Turn is read again without a hint (D28), and cancels are timed.
const REREAD: Duration = Duration::from_secs(1);

/// First and longest wait between two preparations that ended without a verdict (X8).
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The period of one Session, up to a quarter shorter: Turns that began together must not go on reading together, or each of
/// their streams stalls until the last of them has read.
fn reread(session: SessionId) -> Duration {
    let [.., last] = session.uuid().into_bytes();
    REREAD - REREAD * u32::from(last) / 1024
}

/// An answer of the Runtime on its way.
type Pending = FuturesUnordered<BoxFuture<'static, Input>>;

/// The task of one Session.
pub(super) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) session: SessionId,
    pub(super) wake: Arc<Notify>,
    dispatch: Dispatch,
    began: Instant,
    pub(super) pending: Pending,
    /// What the last read said; effects use exactly what the machine decided on.
    pub(super) facts: Option<Facts>,
    /// The connection that the preparation or Run in progress belongs to.
    pub(super) peer: Option<Arc<dyn Peer>>,
    pub(super) preparing: Option<(PrepareId, PrepareFeed)>,
    pub(super) journal: Option<Journal>,
    /// The authority that the newest Run was started under: it is addressed by no other, also when the Session's has moved on
    /// meanwhile (RP-2.6).
    pub(super) started: Option<Binding>,
    /// Files of a complete capture, until the Turn's end takes them.
    pub(super) captured: Option<oneshot::Receiver<Vec<CapturedFile>>>,
    backoff: Duration,
    /// Hints and re-reads before it are ignored.
    not_before: Instant,
    /// When the store is read again without a hint, however much the Run reports meanwhile (D28).
    read_again: Instant,
    /// Held from the first preparation to the end of the Turn (SC-4.1).
    slot: Option<Slot>,
    /// The process drains: the Turn in flight is the last work.
    draining: bool,
}

/// What woke the loop.
enum Wake {
    Input(Input),
    Prepare(PrepareId, Option<PrepareSignal>),
    Run(Option<RunSignal>),
    Hint,
    Again,
    Lost,
    Drain,
    Stop,
}

impl Actor {
    pub(super) fn new(shared: Arc<Shared>, session: SessionId, wake: Arc<Notify>) -> Self {
        Self {
            shared,
            session,
            wake,
            dispatch: Dispatch::default(),
            began: Instant::now(),
            pending: FuturesUnordered::new(),
            facts: None,
            peer: None,
            preparing: None,
            journal: None,
            started: None,
            captured: None,
            backoff: BACKOFF.0,
            not_before: Instant::now(),
            read_again: Instant::now() + reread(session),
            slot: None,
            draining: false,
        }
    }

    /// Works until there is nothing left to do for the Session, or ownership ends.
    pub(super) async fn run(mut self) {
        let mut inputs = VecDeque::new();
        if self.read(&mut inputs).await.is_err() {
            return;
        }
        loop {
            while let Some(input) = inputs.pop_front() {
                if self.feed(input, &mut inputs).await.is_break() {
                    return;
                }
            }
            match self.next().await {
                Wake::Input(input) => inputs.push_back(input),
                Wake::Prepare(prepare, signal) => inputs.extend(self.prepared(prepare, signal)),
                Wake::Run(signal) => inputs.extend(self.reported(signal).await),
                Wake::Lost => inputs.extend(self.lost()),
                Wake::Hint | Wake::Again if Instant::now() < self.not_before => {}
                Wake::Hint | Wake::Again => {
                    if self.dispatch.phase() == Phase::Flying {
                        inputs.push_back(Input::Tick);
                    }
                    if self.read(&mut inputs).await.is_err() {
                        return;
                    }
                }
                Wake::Drain => {
                    self.draining = true;
                    // Only a claimed Turn is waited for; everything before it is still in the store.
                    if self.dispatch.phase() != Phase::Flying {
                        return self.give_up();
                    }
                }
                Wake::Stop => {
                    if self.draining && self.dispatch.phase() == Phase::Flying {
                        self.interrupt().await;
                    }
                    inputs.push_back(Input::Stop);
                }
            }
            if self.dispatch.phase() == Phase::Stopped {
                return;
            }
        }
    }

    async fn next(&mut self) -> Wake {
        let again = tokio::time::sleep_until(self.read_again.max(self.not_before));
        let closed = self.peer.as_ref().map(|peer| peer.closed());
        tokio::select! {
            // Stop first: after it nothing may be written. Answers before losses, so that what arrived still counts.
            biased;
            () = self.shared.stop.cancelled() => Wake::Stop,
            () = self.shared.draining.cancelled(), if !self.draining => Wake::Drain,
            Some(input) = self.pending.next(), if !self.pending.is_empty() => Wake::Input(input),
            // A cancel or a message must not wait until a talkative Run is quiet.
            () = self.wake.notified() => Wake::Hint,
            () = again => Wake::Again,
            signal = next_of(&mut self.preparing), if self.preparing.is_some() => Wake::Prepare(signal.0, signal.1),
            signal = next_run(&mut self.journal), if self.journal.is_some() => Wake::Run(signal),
            () = async { match closed { Some(closed) => closed.cancelled().await, None => std::future::pending().await } } => Wake::Lost,
        }
    }

    /// Gives the machine one input and performs what it asks for.
    async fn feed(
        &mut self,
        input: Input,
        inputs: &mut VecDeque<Input>,
    ) -> std::ops::ControlFlow<()> {
        let fresh = Fresh {
            prepare: PrepareId::new(Uuid::now_v7()),
            run: RunId::new(Uuid::now_v7()),
        };
        let effects = self.dispatch.step(input, self.began.elapsed(), fresh);
        for effect in effects {
            tracing::debug!(session = %self.session, ?effect, "dispatch");
            match effect {
                Effect::Read => {
                    if self.read(inputs).await.is_err() {
                        return std::ops::ControlFlow::Break(());
                    }
                }
                Effect::Rest => {
                    self.give_slot_back();
                    return std::ops::ControlFlow::Break(());
                }
                Effect::Backoff => {
                    self.give_slot_back();
                    self.not_before = Instant::now() + self.backoff;
                    self.backoff = (self.backoff * 2).min(BACKOFF.1);
                }
                Effect::Prepare { prepare, .. } => {
                    if self.draining {
                        return std::ops::ControlFlow::Break(());
                    }
                    self.slot = self.shared.slots.take();
                    if self.slot.is_none() {
                        // Full: a freed slot asks for one scan (SC-3.4). Nothing was sent, so the task just ends.
                        return std::ops::ControlFlow::Break(());
                    }
                    inputs.extend(self.prepare(prepare).await);
                }
                other => inputs.extend(self.perform(other).await),
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Reads the store and the registry. An error ends an actor that holds nothing: the scan starts it again. One that holds a
    /// claim or something of a Runtime goes on with what it knows, and reads again a little later.
    async fn read(&mut self, inputs: &mut VecDeque<Input>) -> Result<(), ()> {
        self.read_again = Instant::now() + reread(self.session);
        let known = match &self.facts {
            Some(facts) if self.dispatch.phase() == Phase::Flying => Some(facts),
            _ => None,
        };
        let read = match known {
            Some(facts) => facts.read_during_run(&self.shared, self.session).await,
            None => Facts::read(&self.shared, self.session).await,
        };
        match read {
            Ok(Some(facts)) => {
                if !self.draining && facts.misses(&self.shared, self.shared.engine_host.device_id())
                {
                    self.shared.engine_host.ensure_started().await;
                }
                let input = facts.input(&self.shared);
                self.facts = Some(facts);
                inputs.push_back(input);
                Ok(())
            }
            Ok(None) => Err(()),
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "a Session could not be read");
                let claimed = |facts: &Facts| facts.state.live_turn()?.claim().copied();
                let holds = self.dispatch.phase() != Phase::Idle
                    || self.facts.as_ref().and_then(claimed).is_some();
                if holds { Ok(()) } else { Err(()) }
            }
        }
    }

    fn prepared(&mut self, prepare: PrepareId, signal: Option<PrepareSignal>) -> Option<Input> {
        let answer = match signal {
            Some(PrepareSignal::State(PrepareState::Ready { executor_id, .. })) => {
                PrepareAnswer::Ready(executor_id)
            }
            Some(PrepareSignal::State(PrepareState::Preparing | PrepareState::Starting)) => {
                return None;
            }
            // The Run reports its own start.
            Some(PrepareSignal::State(PrepareState::Started)) => {
                self.preparing = None;
                return None;
            }
            Some(
                PrepareSignal::State(PrepareState::Failed(code)) | PrepareSignal::Rejected(code),
            ) => {
                tracing::info!(session = %self.session, ?code, "a preparation ended");
                PrepareAnswer::Ended(Some(code))
            }
            Some(PrepareSignal::State(PrepareState::Released | PrepareState::Expired))
            | Some(PrepareSignal::Unanswered(Unanswered::NotSent | Unanswered::Unknown))
            | None => PrepareAnswer::Ended(None),
        };
        match answer {
            PrepareAnswer::Ready(_) => self.backoff = BACKOFF.0,
            PrepareAnswer::Ended(_) => self.preparing = None,
        }
        Some(Input::Prepare { prepare, answer })
    }

    async fn reported(&mut self, signal: Option<RunSignal>) -> Vec<Input> {
        let Some(journal) = self.journal.as_mut() else {
            return Vec::new();
        };
        let run = journal.run();
        match signal {
            Some(RunSignal::Sent) => vec![Input::Start(StartAnswer::Sent)],
            Some(RunSignal::Started) => vec![Input::Start(StartAnswer::Started)],
            Some(RunSignal::Rejected(code)) => {
                tracing::warn!(session = %self.session, ?code, "a start was rejected");
                vec![Input::Start(StartAnswer::Rejected)]
            }
            Some(RunSignal::NotSent) => vec![Input::Start(StartAnswer::Unsent(Unsent::Peer))],
            Some(RunSignal::TooLong) => {
                tracing::error!(session = %self.session, "the input of a Turn does not fit into one frame");
                vec![Input::Start(StartAnswer::Unsent(Unsent::Content))]
            }
            Some(RunSignal::Unknown) => {
                tracing::warn!(session = %self.session, "a start was not answered");
                vec![Input::Start(StartAnswer::Unknown)]
            }
            Some(RunSignal::Events { seq, events }) => {
                journal.append(&self.shared, seq, events).await
            }
            Some(RunSignal::Broken(RunBreak::Gap | RunBreak::Overflow)) => {
                vec![Input::JournalBroken(run, JournalFault::Stream)]
            }
            // The loss of the socket tells itself. The end of the feed is not the end of the Turn: what the journal owes is
            // acknowledged with that (RP-11.2).
            Some(RunSignal::Broken(RunBreak::Lost)) | None => Vec::new(),
        }
    }

    /// Leaves a preparation to the next owner (SC-7.4).
    fn give_up(mut self) {
        if let Some((prepare, _)) = self.preparing.take()
            && let Some(peer) = &self.peer
            && let Some(binding) = self.facts.as_ref().and_then(Facts::binding)
        {
            peer.release_preparation(binding, prepare);
        }
    }

    /// Frees the place for other Sessions.
    pub(super) fn give_slot_back(&mut self) {
        self.slot = None;
    }

    /// The socket is gone. What it had already reported is committed first.
    fn lost(&mut self) -> Option<Input> {
        let peer = self.peer.take()?;
        self.preparing = None;
        Some(Input::PeerLost(peer.connection()))
    }
}

async fn next_of(
    preparing: &mut Option<(PrepareId, PrepareFeed)>,
) -> (PrepareId, Option<PrepareSignal>) {
    match preparing {
        Some((prepare, feed)) => (*prepare, feed.recv().await),
        None => std::future::pending().await,
    }
}

async fn next_run(journal: &mut Option<Journal>) -> Option<RunSignal> {
    match journal {
        Some(journal) => journal.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_began_together_do_not_read_together_for_long() {
        // D28
        let period = |n: u128| reread(SessionId::new(Uuid::from_u128(n)));
        assert_eq!(period(0), REREAD);
        assert!(period(255) >= REREAD * 3 / 4);
        let mut periods: Vec<_> = (0..256).map(period).collect();
        periods.dedup();
        assert_eq!(periods.len(), 256);
    }
}
