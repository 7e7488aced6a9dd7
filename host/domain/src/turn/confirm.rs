//! What the harness confirmed: a message taken, a function result applied (RP-12, RP-14, T10, T11).

use super::{RunPhase, TurnState};
use crate::call::CallState;
use crate::changes::{Context, Decided};
use crate::draft::Draft;
use crate::event::{Cause, EventPayload, TurnEvent};
use crate::input::Delivery;
use crate::item::{Item, ItemBody, ItemStatus};
use crate::{DeliveryId, InputId, ItemId, Refusal, RunId, SessionState};

/// What became of one delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfirmInput {
    /// The Run it was sent to.
    pub run_id: RunId,
    /// The message.
    pub input_id: InputId,
    /// What is known; only `Accepted` advances the durable cursor (RP-12.3).
    pub delivery: Delivery,
}

/// Stores the delivery state of a message. It only moves forward; a terminal Turn or another Run is inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn input_settled(
    state: &SessionState,
    confirm: ConfirmInput,
) -> Result<Decided<bool>, Refusal> {
    let mut draft = Draft::of(state);
    let current = is_run(state, confirm.run_id);
    let input = draft
        .state
        .inputs
        .iter_mut()
        .find(|input| input.id == confirm.input_id && current);
    let moves = input.is_some_and(|input| {
        let moves = rank(confirm.delivery) > rank(input.delivery);
        if moves {
            input.delivery = confirm.delivery;
        }
        moves
    });
    Ok(draft.decide(moves))
}

fn rank(delivery: Delivery) -> u8 {
    match delivery {
        Delivery::Stored => 0,
        Delivery::Sent => 1,
        Delivery::Written => 2,
        Delivery::Started | Delivery::Accepted | Delivery::Rejected | Delivery::Unknown => 3,
    }
}

/// The newest root Turn is claimed by this Run and not terminal.
fn is_run(state: &SessionState, run_id: RunId) -> bool {
    state
        .live_turn()
        .and_then(|turn| turn.claim())
        .is_some_and(|claim| claim.run_id == run_id)
}

/// The harness applied a function result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplyResult {
    /// The Run.
    pub run_id: RunId,
    /// The delivery that the receipt names (RP-14.5).
    pub delivery_id: DeliveryId,
}

/// T10, T11: the call ends, its output becomes an Item; after the last one the Turn goes on. A call that is not `answered`
/// under this delivery is left alone; the answer tells.
///
/// With a cancel requested the Items are all that is published (1.5).
///
/// # Errors
/// Only E500-01.
pub fn result_applied(
    state: &SessionState,
    apply: ApplyResult,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let mut draft = Draft::of(state);
    let call = draft
        .state
        .calls
        .iter_mut()
        .find_map(|call| match &call.state {
            CallState::Answered(answer) if answer.delivery_id == apply.delivery_id => {
                let answer = answer.clone();
                Some((call, answer))
            }
            _ => None,
        });
    let Some((call, answer)) = call.filter(|_| is_run(state, apply.run_id)) else {
        return Ok(Decided::unchanged(false));
    };
    call.state = CallState::Applied(answer.clone());
    let (turn_id, call_id, item_id) = (call.turn_id, call.call_id.clone(), call.item_id);
    let status = if answer.result.success {
        ItemStatus::Completed
    } else {
        ItemStatus::Failed
    };
    end_call_item(&mut draft, item_id, status, cx)?;
    let output = Item {
        id: ItemId::draw(cx.ids),
        turn_id,
        position: draft.next_position(),
        output_index: None,
        key: None,
        status,
        parts: 0,
        started_at: cx.now,
        completed_at: Some(cx.now),
        body: ItemBody::FunctionCallOutput {
            call_id,
            output: answer.result.output,
            error: answer.result.error,
        },
    };
    draft.state.items.push(output.clone());
    draft.event(EventPayload::ItemAdded { item: output });
    resume_if_none_open(&mut draft)?;
    draft.touch(cx.now);
    draft.announce(Cause::Other);
    Ok(draft.decide(true))
}

fn end_call_item(
    draft: &mut Draft<'_>,
    id: ItemId,
    status: ItemStatus,
    cx: &Context<'_>,
) -> Result<(), Refusal> {
    let item = draft
        .state
        .items
        .iter_mut()
        .find(|item| item.id == id && !item.is_ended());
    let item = item.ok_or(Refusal::Impossible("an open call without its open Item"))?;
    item.status = status;
    item.completed_at = Some(cx.now);
    let item = item.clone();
    draft.event(EventPayload::ItemDone { item });
    Ok(())
}

/// T11, I7: a Turn without an open call does not wait.
fn resume_if_none_open(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let Some(turn) = &mut draft.state.turn else {
        return Ok(());
    };
    let open = draft
        .state
        .calls
        .iter()
        .any(|call| call.turn_id == turn.id && call.state.is_open());
    let TurnState::Active { phase, .. } = &mut turn.state else {
        return Ok(());
    };
    if open || *phase != RunPhase::Waiting {
        return Ok(());
    }
    *phase = RunPhase::Running;
    let cancelled = turn.cancel.is_some();
    if cancelled {
        Ok(())
    } else {
        draft.turn_event(TurnEvent::InProgress)
    }
}
