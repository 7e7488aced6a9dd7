//! Choosing the device of a conversation-only Session, and the end of a binding (state-machines 1.16).

use super::Binding;
use crate::changes::{Context, Decided};
use crate::draft::Draft;
use crate::session::Placement;
use crate::{BindingId, DeviceId, Refusal, SessionState};

/// Binds a `none` Session to this device, once; later calls answer the same binding whatever they name (S-EV-10). None for a
/// deleted Session.
///
/// # Errors
/// E500-01 for a placement whose device is allocated or enrolled.
pub fn choose(
    state: &SessionState,
    device_id: DeviceId,
    cx: &mut Context<'_>,
) -> Result<Decided<Option<Binding>>, Refusal> {
    if let Some(binding) = &state.binding {
        return Ok(Decided::unchanged(Some(binding.clone())));
    }
    if state.session.placement != Placement::None {
        return Err(Refusal::Impossible(
            "a chosen device for a Session with an Environment",
        ));
    }
    if state.session.deleted_at.is_some() {
        return Ok(Decided::unchanged(None));
    }
    let binding = Binding {
        id: BindingId::draw(cx.ids),
        session_id: state.session.id,
        environment_id: None,
        device_id,
        epoch: 1,
        release: None,
    };
    let mut draft = Draft::of(state);
    draft.state.binding = Some(binding.clone());
    Ok(draft.decide(Some(binding)))
}

/// The Runtime acknowledged the release of exactly this epoch; terminal. Otherwise inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn released(
    state: &SessionState,
    binding_id: BindingId,
    epoch: u64,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    let mut draft = Draft::of(state);
    let binding = draft
        .state
        .binding
        .as_mut()
        .filter(|binding| binding.id == binding_id && binding.epoch == epoch);
    let release = binding
        .and_then(|binding| binding.release.as_mut())
        .filter(|release| release.acknowledged_at.is_none());
    let Some(release) = release else {
        return Ok(Decided::unchanged(false));
    };
    release.acknowledged_at = Some(cx.now);
    Ok(draft.decide(true))
}
