//! Run events to public Items and events (sessions.md 6, 7.3; state-machines T8, T9).
//!
//! An Item is announced once, streams text, and ends once. The harness may be sloppy: an end without a start makes the start
//! up, a repeat says nothing, a start without an end is closed as `incomplete` with the end of the Turn.

mod body;
mod close;
mod items;

use crate::changes::{Context, Decided};
use crate::draft::Draft;
use crate::run::{
    EventBody, NativeSession, Origin, RunEvent, RunFailure, TurnStatus as RunStatus,
    Usage as RunUsage,
};
use crate::turn::{RunPhase, TurnState};
use crate::usage::Usage;
use crate::{Refusal, RunId, SessionState};

pub(crate) use close::close_open_items;

/// Events of one Run in order, as the Runtime numbered them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The Run.
    pub run_id: RunId,
    /// `seq` of the first event; the others follow without a hole (RP-11.2).
    pub first_seq: u64,
    /// The events.
    pub events: Vec<RunEvent>,
}

/// Answer of [`apply`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Appended {
    /// Every event up to this `seq` may be acknowledged after the commit.
    pub through: u64,
    /// The `seq` that was expected, if there is a gap: nothing was applied; the observation has failed (RP-11.2).
    pub gap: Option<u64>,
    /// The last native error of these events.
    pub failure: Option<RunFailure>,
    /// The Run's `done` was among them.
    pub done: Option<RunStatus>,
    /// A function call came again with other content: nothing from it on was applied, and the Turn is to be ended as
    /// `function_call_invalid` (RP-14.1).
    pub invalid_call: bool,
}

/// Applies events of the Run to its Turn.
///
/// Terminal Turns, settled Runs and other Runs are inert: nothing is written and the events may be acknowledged (RP-11.8).
/// Repeated `seq`s are skipped; what they tell about the end of the Run is told again, because the first answer may have been
/// lost with the connection to the database.
///
/// # Errors
/// Only E500-01.
pub fn apply(
    state: &SessionState,
    append: Append,
    cx: &mut Context<'_>,
) -> Result<Decided<Appended>, Refusal> {
    let last = append
        .first_seq
        .saturating_add(append.events.len() as u64)
        .saturating_sub(1);
    let mut answer = Appended {
        through: last,
        ..Appended::default()
    };
    let Some(applied) = working_run(state, append.run_id) else {
        return Ok(Decided::unchanged(answer));
    };
    if append.first_seq > applied + 1 {
        answer.through = applied;
        answer.gap = Some(applied + 1);
        return Ok(Decided::unchanged(answer));
    }
    let repeated = usize::try_from(applied + 1 - append.first_seq).unwrap_or(usize::MAX);
    answer.through = last.max(applied);
    let mut draft = Draft::of(state);
    let mut events = append.events.into_iter().zip(append.first_seq..);
    for (event, _) in events.by_ref().take(repeated) {
        tell_end(&event, &mut answer);
    }
    for (event, seq) in events {
        apply_one(&mut draft, event, &mut answer, cx)?;
        if answer.invalid_call {
            answer.through = seq - 1;
            break;
        }
    }
    if let Some(turn) = &mut draft.state.turn {
        turn.run_seq = answer.through;
    }
    Ok(draft.decide(answer))
}

/// Highest `seq` applied, if this Run works on the newest root Turn.
fn working_run(state: &SessionState, run_id: RunId) -> Option<u64> {
    let turn = state.turn.as_ref()?;
    match &turn.state {
        TurnState::Active {
            claim,
            phase: RunPhase::Running | RunPhase::Waiting,
        } if claim.run_id == run_id => Some(turn.run_seq),
        _ => None,
    }
}

fn apply_one(
    draft: &mut Draft<'_>,
    event: RunEvent,
    answer: &mut Appended,
    cx: &mut Context<'_>,
) -> Result<(), Refusal> {
    if matches!(event.origin, Origin::Child { .. }) {
        return Ok(()); // child Turns and child Items publish nothing on the Session (S-SEQ-10)
    }
    tell_end(&event, answer);
    match event.body {
        EventBody::ItemStarted(item) => items::start(draft, item, answer, cx)?,
        EventBody::Delta(delta) => items::delta(draft, delta),
        EventBody::ItemEnded(end) => items::end(draft, end, cx)?,
        EventBody::Usage(usage) => take_usage(draft, usage),
        EventBody::NativeSession(native) => take_native_session(draft, native),
        EventBody::Adapter(plugin) => {
            if let Some(turn) = &mut draft.state.turn {
                turn.adapter = Some(plugin);
            }
        }
        EventBody::Error(_)
        | EventBody::Done(_)
        | EventBody::Agent(_)
        | EventBody::Child(_)
        | EventBody::Notice(_) => {}
    }
    Ok(())
}

/// What an event of the root Run says about its end.
fn tell_end(event: &RunEvent, answer: &mut Appended) {
    match &event.body {
        _ if matches!(event.origin, Origin::Child { .. }) => {}
        EventBody::Error(failure) => answer.failure = Some(failure.clone()),
        EventBody::Done(done) => answer.done = Some(done.status),
        _ => {}
    }
}

/// A complete snapshot replaces the former one; an incomplete one says nothing (S-USE-1).
fn take_usage(draft: &mut Draft<'_>, usage: RunUsage) {
    let RunUsage {
        input,
        cached: Some(cached),
        output,
        reasoning: Some(reasoning),
        total: Some(total),
    } = usage
    else {
        return;
    };
    if let Some(turn) = &mut draft.state.turn {
        turn.usage = Some(Usage {
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: output,
            reasoning_tokens: reasoning,
            total_tokens: total,
        });
    }
}

fn take_native_session(draft: &mut Draft<'_>, native: NativeSession) {
    if let Some(turn) = &mut draft.state.turn {
        turn.native_session = Some(native);
    }
}

#[cfg(test)]
mod tests;
