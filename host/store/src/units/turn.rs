//! `ClaimTurn` to `InterruptTurn`: the life of a Turn after its admission.

use domain::{
    Context, Decided, Refusal, RunId, SessionId, SessionState, TurnId,
    artifact::{Captured, CapturedFile},
    call::CallId,
    projection::{self, Append, Appended},
    run::{EventBody, ItemBody, RunEvent},
    turn::{self, Claim, Claimed, Ending, Settled},
};

use super::{SessionUnit, decide_and_apply, locked};
use crate::{
    artifacts,
    error::UnitError,
    load::Parts,
    tx::Tx,
    unit::{Durability, Unit},
};

/// Claims a queued Turn of a `none` Session (T3). Only [`Claimed::Now`] of a known commit gives the right to one Start.
#[derive(Debug, Clone, Copy)]
pub struct ClaimTurn {
    /// Its Session.
    pub session: SessionId,
    /// The Turn.
    pub turn: TurnId,
    /// The claim. Its epoch is replaced by the one under which the unit commits (I21).
    pub claim: Claim,
}

impl Unit for ClaimTurn {
    const NAME: &'static str = "ClaimTurn";
    const LEASED: bool = true;
    type Answer = Claimed;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Claimed, UnitError<Refusal>> {
        let parts = Parts {
            inputs: true,
            binding: true,
            calls: true,
            ..Parts::default()
        };
        let state = locked(tx, self.session, None, &parts).await?;
        let claim = Claim {
            owner_epoch: tx.epoch()?,
            ..self.claim
        };
        let (answer, _) = decide_and_apply(tx, self.session, |cx| {
            turn::claim(&state, self.turn, claim, cx)
        })
        .await?;
        Ok(answer)
    }
}

/// Fails a queued Turn whose preparation failed for good (T5). The answer tells whether it did.
#[derive(Debug, Clone, Copy)]
pub struct FailQueuedTurn {
    /// Its Session.
    pub session: SessionId,
    /// The Turn.
    pub turn: TurnId,
}

impl SessionUnit for FailQueuedTurn {
    const NAME: &'static str = "FailQueuedTurn";
    const LEASED: bool = true;
    type Answer = bool;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts::whole()
    }

    fn decide(&self, state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
        turn::fail_queued(state, self.turn, cx)
    }
}

/// Turns run events into Items and public events (T8, T9).
#[derive(Debug, Clone)]
pub struct AppendRun {
    /// Its Session.
    pub session: SessionId,
    /// The events.
    pub append: Append,
}

impl SessionUnit for AppendRun {
    const NAME: &'static str = "AppendRun";
    const LEASED: bool = true;
    type Answer = Appended;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        let mut item_keys: Vec<String> = Vec::new();
        for key in self.append.events.iter().filter_map(key_of) {
            if !item_keys.iter().any(|known| known == key) {
                item_keys.push(key.to_owned());
            }
        }
        // A repeated call is known by its id, also after its result was applied (RP-14.1).
        let call = |event: &RunEvent| match &event.body {
            EventBody::ItemStarted(item) => match &item.body {
                ItemBody::FunctionCall(call) => Some(CallId(call.call.clone())),
                _ => None,
            },
            _ => None,
        };
        Parts {
            calls: true,
            named_calls: self.append.events.iter().filter_map(call).collect(),
            open_items: true,
            item_keys,
            ..Parts::default()
        }
    }

    /// A function call, a native session and the facts of Subagents must not be acknowledged before they are on disk.
    fn durability(&self) -> Durability {
        let synced = |event: &RunEvent| match &event.body {
            EventBody::NativeSession(_) | EventBody::Agent(_) | EventBody::Child(_) => true,
            EventBody::ItemStarted(item) => matches!(item.body, ItemBody::FunctionCall(_)),
            EventBody::Delta(_)
            | EventBody::Adapter(_)
            | EventBody::ItemEnded(_)
            | EventBody::Usage(_)
            | EventBody::Notice(_)
            | EventBody::Error(_)
            | EventBody::Done(_) => false,
        };
        if self.append.events.iter().any(synced) {
            Durability::Synced
        } else {
            Durability::Flushed
        }
    }

    fn decide(
        &self,
        state: &SessionState,
        cx: &mut Context<'_>,
    ) -> Result<Decided<Appended>, Refusal> {
        projection::apply(state, self.append.clone(), cx)
    }
}

fn key_of(event: &RunEvent) -> Option<&str> {
    match &event.body {
        EventBody::ItemStarted(item) => Some(&item.key),
        EventBody::Delta(delta) => Some(&delta.key),
        EventBody::ItemEnded(end) => Some(&end.item.key),
        EventBody::NativeSession(_)
        | EventBody::Adapter(_)
        | EventBody::Usage(_)
        | EventBody::Agent(_)
        | EventBody::Child(_)
        | EventBody::Notice(_)
        | EventBody::Error(_)
        | EventBody::Done(_) => None,
    }
}

/// Stores how far a message got (RP-12.3). The answer tells whether it moved.
#[derive(Debug, Clone, Copy)]
pub struct ConfirmInput {
    /// Its Session.
    pub session: SessionId,
    /// The observation.
    pub confirm: turn::ConfirmInput,
}

impl SessionUnit for ConfirmInput {
    const NAME: &'static str = "ConfirmInput";
    const LEASED: bool = true;
    type Answer = bool;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts {
            inputs: true,
            ..Parts::default()
        }
    }

    fn decide(
        &self,
        state: &SessionState,
        _cx: &mut Context<'_>,
    ) -> Result<Decided<bool>, Refusal> {
        turn::input_settled(state, self.confirm)
    }
}

/// The harness applied a function result (T10, T11). The answer tells whether a call changed.
#[derive(Debug, Clone, Copy)]
pub struct ApplyResult {
    /// Its Session.
    pub session: SessionId,
    /// The observation.
    pub apply: turn::ApplyResult,
}

impl SessionUnit for ApplyResult {
    const NAME: &'static str = "ApplyResult";
    const LEASED: bool = true;
    type Answer = bool;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts {
            calls: true,
            open_items: true,
            ..Parts::default()
        }
    }

    fn decide(&self, state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
        turn::result_applied(state, self.apply, cx)
    }
}

/// The native Run ended without an error: the Turn ends, or its outputs are captured (T14, T15, T20, T22).
#[derive(Debug, Clone, Copy)]
pub struct SettleRun {
    /// Its Session.
    pub session: SessionId,
    /// The Run.
    pub run: RunId,
}

impl SessionUnit for SettleRun {
    const NAME: &'static str = "SettleRun";
    const LEASED: bool = true;
    type Answer = Settled;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts::whole()
    }

    fn decide(
        &self,
        state: &SessionState,
        cx: &mut Context<'_>,
    ) -> Result<Decided<Settled>, Refusal> {
        turn::settle(state, self.run, cx)
    }
}

/// Ends a claimed Turn; Artifacts are published in the same transaction (SC-7.7).
#[derive(Debug, Clone)]
pub struct FinishTurn {
    /// Its Session.
    pub session: SessionId,
    /// The Run.
    pub run: RunId,
    /// What is proposed; the decision is made under the Session lock.
    pub ending: Ending,
    /// Every output, transferred and verified, its blobs stored; empty unless the Turn was capturing.
    pub captured: Vec<CapturedFile>,
}

impl Unit for FinishTurn {
    const NAME: &'static str = "FinishTurn";
    const LEASED: bool = true;
    type Answer = Settled;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Settled, UnitError<Refusal>> {
        let state = locked(tx, self.session, None, &Parts::whole()).await?;
        let newest = if self.captured.is_empty() {
            Vec::new()
        } else {
            artifacts::newest(tx.conn, self.session).await?
        };
        let captured = Captured {
            files: self.captured.clone(),
            newest,
        };
        let (answer, _) = decide_and_apply(tx, self.session, |cx| {
            turn::finish(&state, self.run, self.ending, captured, cx)
        })
        .await?;
        Ok(answer)
    }
}

/// Settles a claim without an owner as `execution_interrupted` (T23). The answer tells whether there was one.
#[derive(Debug, Clone, Copy)]
pub struct InterruptTurn {
    /// Its Session.
    pub session: SessionId,
}

impl SessionUnit for InterruptTurn {
    const NAME: &'static str = "InterruptTurn";
    const LEASED: bool = true;
    type Answer = bool;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts::whole()
    }

    fn decide(&self, state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
        turn::interrupt(state, cx)
    }
}
