//! Replacing the metadata of a Session (S-SES-14).

use crate::changes::Decided;
use crate::draft::Draft;
use crate::metadata::Metadata;
use crate::{Refusal, SessionState};

/// Replaces all pairs. No event: execution state does not change.
///
/// # Errors
/// E404-01 for a deleted Session.
pub fn update(state: &SessionState, metadata: Metadata) -> Result<Decided<()>, Refusal> {
    if state.session.deleted_at.is_some() {
        return Err(Refusal::NotFound);
    }
    let mut draft = Draft::of(state);
    draft.state.session.metadata = metadata;
    Ok(draft.decide(()))
}
