//! A new root Turn with its messages, and messages that join one (T1, T2, T6, T7).

use super::{Turn, TurnSnapshot, TurnState, TurnStatus};
use crate::changes::Context;
use crate::content::start_bytes;
use crate::draft::Draft;
use crate::event::{Cause, EventPayload, TurnEvent};
use crate::input::{Delivery, Input};
use crate::item::{Item, ItemBody, ItemStatus, UserMessage};
use crate::{BatchId, InputId, ItemId, Refusal, TurnId};

/// Makes a Turn the newest root Turn of the draft, with one Item and one input per message. Emits nothing.
pub(crate) fn begin(
    draft: &mut Draft<'_>,
    batch_id: BatchId,
    messages: Vec<UserMessage>,
    state: TurnState,
    cx: &mut Context<'_>,
) -> Vec<Item> {
    let claimed = matches!(state, TurnState::Active { .. });
    draft.touch(cx.now);
    let turn = Turn {
        id: TurnId::draw(cx.ids),
        session_id: draft.state.session.id,
        agent_id: draft.state.session.agent_id,
        work_seq: draft.next_work(),
        state,
        cancel: None,
        created_at: cx.now,
        started_at: claimed.then_some(cx.now),
        usage: None,
        native_session: None,
        adapter: None,
        output_items: 0,
        run_seq: 0,
        never_began: false,
        start_bytes: start_bytes(&messages),
    };
    draft.state.turn = Some(turn);
    draft.state.inputs.clear();
    draft.state.items.clear();
    draft.state.partial.clear();
    let delivery = if claimed {
        Delivery::Started
    } else {
        Delivery::Stored
    };
    add_messages(draft, batch_id, messages, delivery, cx)
}

/// `T.created` (shown `queued`), first `I.added`, `S.in_progress`, the other `I.added` (S-SEQ-1).
pub(crate) fn announce_begin(draft: &mut Draft<'_>, items: Vec<Item>) -> Result<(), Refusal> {
    let turn = draft
        .state
        .turn
        .as_ref()
        .ok_or(Refusal::Impossible("a beginning without a Turn"))?;
    let turn = TurnSnapshot {
        status: TurnStatus::Queued,
        started_at: None,
        ..turn.snapshot()
    };
    draft.event(EventPayload::Turn {
        event: TurnEvent::Created,
        turn,
    });
    let mut items = items.into_iter();
    draft.event(EventPayload::ItemAdded {
        item: items
            .next()
            .ok_or(Refusal::Impossible("a Turn without input"))?,
    });
    draft.announce_always(Cause::Other);
    for item in items {
        draft.event(EventPayload::ItemAdded { item });
    }
    Ok(())
}

/// Messages join the newest root Turn in order (T6, T7): `I.added` each.
pub(crate) fn join(
    draft: &mut Draft<'_>,
    batch_id: BatchId,
    messages: Vec<UserMessage>,
    cx: &mut Context<'_>,
) {
    draft.touch(cx.now);
    // A Run that was asked for begins without them (D6).
    if let Some(turn) = draft
        .state
        .turn
        .as_mut()
        .filter(|turn| turn.state == TurnState::Queued)
    {
        turn.start_bytes = turn.start_bytes.saturating_add(start_bytes(&messages));
    }
    for item in add_messages(draft, batch_id, messages, Delivery::Stored, cx) {
        draft.event(EventPayload::ItemAdded { item });
    }
}

fn add_messages(
    draft: &mut Draft<'_>,
    batch_id: BatchId,
    messages: Vec<UserMessage>,
    delivery: Delivery,
    cx: &mut Context<'_>,
) -> Vec<Item> {
    let Some(turn_id) = draft.state.turn.as_ref().map(|turn| turn.id) else {
        return Vec::new();
    };
    let first = draft
        .state
        .inputs
        .iter()
        .map(|input| input.position + 1)
        .max()
        .unwrap_or(0);
    let mut items = Vec::with_capacity(messages.len());
    for (message, position) in messages.into_iter().zip(first..) {
        let item = Item {
            id: ItemId::draw(cx.ids),
            turn_id,
            position: draft.next_position(),
            output_index: None,
            key: None,
            status: ItemStatus::Completed,
            parts: 0,
            started_at: cx.now,
            completed_at: Some(cx.now),
            body: ItemBody::UserMessage(message),
        };
        draft.state.inputs.push(Input {
            id: InputId::draw(cx.ids),
            turn_id,
            position,
            item_id: item.id,
            batch_id,
            delivery,
        });
        draft.state.items.push(item.clone());
        items.push(item);
    }
    items
}
