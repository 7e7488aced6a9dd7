//! Start, text and end of one Item.

use super::{Appended, body};
use crate::call::{Call, CallState};
use crate::changes::Context;
use crate::draft::Draft;
use crate::event::{Cause, EventPayload, PartAt};
use crate::item::{Item, ItemBody, ItemStatus};
use crate::run;
use crate::turn::{RunPhase, TurnState};
use crate::{ItemId, Refusal, TurnId};

/// An Item appears. A known key says nothing new (S-SEQ-5).
pub(super) fn start(
    draft: &mut Draft<'_>,
    item: run::Item,
    answer: &mut Appended,
    cx: &mut Context<'_>,
) -> Result<(), Refusal> {
    if let run::ItemBody::FunctionCall(call) = &item.body
        && let Some(known) = known_call(draft, &call.call)
    {
        answer.invalid_call = known.name != call.name || known.arguments != call.arguments;
        return Ok(());
    }
    if find(draft, &item.key).is_some() {
        return Ok(());
    }
    let Some(body) = body::begin(&item.key, &item.body, &root(draft)) else {
        return Ok(());
    };
    let is_call = matches!(item.body, run::ItemBody::FunctionCall(_));
    let added = add(draft, item.key, body, cx)?;
    if is_call {
        wait_for_result(draft, &added)?;
    }
    Ok(())
}

fn known_call<'a>(draft: &'a Draft<'_>, call_id: &str) -> Option<&'a Call> {
    let turn_id = draft.state.turn.as_ref()?.id;
    draft
        .state
        .calls
        .iter()
        .find(|call| call.turn_id == turn_id && call.call_id.0 == call_id)
}

/// T9: the call is registered with its Item in one transaction and the Turn waits (S-SEQ-5).
fn wait_for_result(draft: &mut Draft<'_>, item: &Item) -> Result<(), Refusal> {
    let ItemBody::FunctionCall {
        call_id,
        name,
        arguments,
    } = &item.body
    else {
        return Err(Refusal::Impossible("a call without a call Item"));
    };
    let position = draft
        .state
        .calls
        .iter()
        .filter(|call| call.turn_id == item.turn_id)
        .map(|call| call.position + 1);
    let position = position.max().unwrap_or(0);
    draft.state.calls.push(Call {
        turn_id: item.turn_id,
        call_id: call_id.clone(),
        item_id: item.id,
        position,
        name: name.clone(),
        arguments: arguments.clone(),
        state: CallState::Pending,
    });
    if let Some(turn) = &mut draft.state.turn
        && let TurnState::Active { phase, .. } = &mut turn.state
    {
        *phase = RunPhase::Waiting;
    }
    draft.touch(item.started_at);
    draft.announce(Cause::Other);
    Ok(())
}

/// A piece of text of an Item in progress; anything else is dropped.
pub(super) fn delta(draft: &mut Draft<'_>, delta: run::Delta) {
    let Some((id, turn_id, output_index)) = find(draft, &delta.key)
        .filter(|item| !item.is_ended())
        .and_then(place)
    else {
        return;
    };
    let at = |index| PartAt {
        turn_id,
        item_id: id,
        output_index,
        index,
    };
    let Some(item) = draft.state.items.iter_mut().find(|item| item.id == id) else {
        return;
    };
    match (delta.kind, &item.body) {
        (run::DeltaKind::Text, ItemBody::AssistantMessage { .. }) => {
            let first = item.parts == 0;
            item.parts = 1;
            if first {
                draft.event(EventPayload::ContentPartAdded { at: at(0) });
            }
            draft.event(EventPayload::TextDelta {
                at: at(0),
                delta: delta.text,
            });
        }
        (run::DeltaKind::Summary, ItemBody::Reasoning { .. })
            if delta.index < MAX_SUMMARY_PARTS =>
        {
            let opened = item.parts;
            item.parts = opened.max(delta.index + 1);
            for index in opened..=delta.index {
                draft.event(EventPayload::SummaryPartAdded { at: at(index) });
            }
            draft.event(EventPayload::SummaryDelta {
                at: at(delta.index),
                delta: delta.text,
            });
        }
        (run::DeltaKind::Output, ItemBody::CommandExecution { .. }) => {
            draft.event(EventPayload::CommandDelta {
                at: at(0),
                delta: delta.text,
            });
        }
        _ => {}
    }
}

/// A harness that counts its summary parts in thousands is broken; more would let one delta make any number of events.
const MAX_SUMMARY_PARTS: u32 = 1024;

/// The last word on an Item. Late ends of ended Items and ends of another kind are dropped; an end without a start makes the
/// start up (S-SEQ-3).
pub(super) fn end(
    draft: &mut Draft<'_>,
    end: run::ItemEnd,
    cx: &mut Context<'_>,
) -> Result<(), Refusal> {
    let Some(body) = body::end(&end.item.key, &end.item.body, &root(draft)) else {
        return Ok(());
    };
    let id = match find(draft, &end.item.key) {
        Some(item) if item.is_ended() || !same_kind(&item.body, &body) => return Ok(()),
        // A public function call ends with its result or its Turn, never by itself (S-FN-5).
        Some(item) if draft.state.calls.iter().any(|call| call.item_id == item.id) => return Ok(()),
        Some(item) => item.id,
        None => match body::begin(&end.item.key, &end.item.body, &root(draft)) {
            Some(beginning) => add(draft, end.item.key, beginning, cx)?.id,
            None => return Ok(()),
        },
    };
    let status = body::status(&body, end.status);
    let item = draft.state.items.iter_mut().find(|item| item.id == id);
    let item = item.ok_or(Refusal::Impossible("an Item that is not there"))?;
    for event in finish(item, body, status, cx.now)? {
        draft.event(event);
    }
    Ok(())
}

/// Ends an Item with its whole content: the ends of its parts, then `item.done` (S-SEQ-2, S-SEQ-3).
pub(super) fn finish(
    item: &mut Item,
    body: ItemBody,
    status: ItemStatus,
    now: crate::Timestamp,
) -> Result<Vec<EventPayload>, Refusal> {
    let (item_id, turn_id, output_index) =
        place(item).ok_or(Refusal::Impossible("an output Item without an index"))?;
    let at = |index| PartAt {
        turn_id,
        item_id,
        output_index,
        index,
    };
    let mut events = Vec::new();
    match &body {
        ItemBody::AssistantMessage {
            text: Some(text), ..
        } => {
            if item.parts == 0 {
                events.push(EventPayload::ContentPartAdded { at: at(0) });
                if !text.is_empty() {
                    events.push(EventPayload::TextDelta {
                        at: at(0),
                        delta: text.clone(),
                    });
                }
            }
            item.parts = 1;
            events.push(EventPayload::TextDone {
                at: at(0),
                text: text.clone(),
            });
            events.push(EventPayload::ContentPartDone {
                at: at(0),
                text: text.clone(),
            });
        }
        ItemBody::Reasoning { summary } => {
            let opened = usize::try_from(item.parts).unwrap_or(usize::MAX);
            for (place, text) in summary.iter().enumerate() {
                let index = u32::try_from(place)
                    .map_err(|_| Refusal::Impossible("too many summary parts"))?;
                if place >= opened {
                    events.push(EventPayload::SummaryPartAdded { at: at(index) });
                    events.push(EventPayload::SummaryDelta {
                        at: at(index),
                        delta: text.clone(),
                    });
                    item.parts = index + 1;
                }
                let incomplete = status == ItemStatus::Incomplete && place + 1 == summary.len();
                events.push(EventPayload::SummaryDone {
                    at: at(index),
                    text: text.clone(),
                });
                events.push(EventPayload::SummaryPartDone {
                    at: at(index),
                    text: text.clone(),
                    incomplete,
                });
            }
        }
        _ => {}
    }
    item.body = body;
    item.status = status;
    item.completed_at = Some(now);
    events.push(EventPayload::ItemDone { item: item.clone() });
    Ok(events)
}

fn add(
    draft: &mut Draft<'_>,
    key: String,
    body: ItemBody,
    cx: &mut Context<'_>,
) -> Result<Item, Refusal> {
    let position = draft.next_position();
    let turn = draft
        .state
        .turn
        .as_mut()
        .ok_or(Refusal::Impossible("an Item without a Turn"))?;
    let item = Item {
        id: ItemId::draw(cx.ids),
        turn_id: turn.id,
        position,
        output_index: Some(turn.output_items),
        key: Some(key),
        status: ItemStatus::InProgress,
        parts: 0,
        started_at: cx.now,
        completed_at: None,
        body,
    };
    turn.output_items += 1;
    draft.state.items.push(item.clone());
    draft.event(EventPayload::ItemAdded { item: item.clone() });
    Ok(item)
}

fn find<'a>(draft: &'a Draft<'_>, key: &str) -> Option<&'a Item> {
    draft
        .state
        .items
        .iter()
        .find(|item| item.key.as_deref() == Some(key))
}

pub(super) fn place(item: &Item) -> Option<(ItemId, TurnId, u32)> {
    Some((item.id, item.turn_id, item.output_index?))
}

fn same_kind(a: &ItemBody, b: &ItemBody) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

fn root(draft: &Draft<'_>) -> String {
    draft.state.session.agent_id.to_string()
}
