//! A requested cancel (state-machines 1.11, K2–K4).

use super::{Cancel, Outcome, TurnStatus};
use crate::Timestamp;
use crate::draft::Draft;
use crate::event::Cause;

/// Requests a cancel of the root Turn that is not terminal; none, or one already requested: no change (K1, K4).
///
/// A `queued` Turn ends at once (T4). Elsewhere the request is stored for the actor; the calls of a waiting Turn leave
/// `required_actions` (T13, S-CAN-4).
pub(crate) fn request_cancel(draft: &mut Draft<'_>, now: Timestamp) {
    let Some(turn) = draft
        .state
        .turn
        .as_mut()
        .filter(|turn| turn.is_live() && turn.cancel.is_none())
    else {
        return;
    };
    turn.cancel = Some(Cancel { requested_at: now });
    if turn.status() == TurnStatus::Queued {
        super::end(draft, Outcome::Cancelled, now);
    } else {
        draft.touch(now);
        draft.announce(Cause::Other);
        draft.wake();
    }
}
