//! Items still in progress when their Turn (or its native Run) ends: `incomplete`, partial content kept (S-CAN-5).

use super::items::finish;
use crate::event::EventPayload;
use crate::item::{Item, ItemBody, ItemStatus};
use crate::session_state::PartialText;
use crate::{SessionState, Timestamp};

/// Closes every open Item of the newest root Turn, in output order; gives the events.
pub(crate) fn close_open_items(state: &mut SessionState, now: Timestamp) -> Vec<EventPayload> {
    let Some(turn_id) = state.turn.as_ref().map(|turn| turn.id) else {
        return Vec::new();
    };
    state.items.sort_by_key(|item| item.position);
    let open = state
        .items
        .iter_mut()
        .filter(|item| item.turn_id == turn_id && !item.is_ended());
    let mut events = Vec::new();
    for item in open {
        let body = cut_off(item, &state.partial);
        // An open Item is an output Item, so this cannot fail; an Item without an index has nothing to announce.
        events.extend(finish(item, body, ItemStatus::Incomplete, now).unwrap_or_default());
    }
    events
}

/// The content as far as it was streamed.
fn cut_off(item: &Item, partial: &[PartialText]) -> ItemBody {
    let text = |index| {
        let part = partial
            .iter()
            .find(|part| part.item_id == item.id && part.index == index);
        part.map(|part| part.text.clone())
    };
    match item.body.clone() {
        ItemBody::AssistantMessage { phase, .. } if item.parts > 0 => ItemBody::AssistantMessage {
            text: Some(text(0).unwrap_or_default()),
            phase,
        },
        ItemBody::Reasoning { .. } => ItemBody::Reasoning {
            summary: (0..item.parts)
                .map(|index| text(index).unwrap_or_default())
                .collect(),
        },
        ItemBody::CommandExecution {
            command,
            cwd,
            output,
            exit_code,
            duration_ms,
        } => ItemBody::CommandExecution {
            command,
            cwd,
            output: output.or_else(|| text(0)),
            exit_code,
            duration_ms,
        },
        other => other,
    }
}
