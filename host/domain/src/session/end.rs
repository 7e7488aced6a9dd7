//! The ways a Session or its Environment ends: deletion, archive, end of the allocation (state-machines 1.1, V5, V6, A12).

use std::time::Duration;

use super::{Placement, SessionStatus, project};
use crate::allocation::AllocationPhase;
use crate::binding::Release;
use crate::changes::{Context, Decided, Hint};
use crate::draft::Draft;
use crate::environment::{EnvironmentStatus, Initialization};
use crate::reservation::{self, ReservationFailure, ReservationState};
use crate::turn;
use crate::{Refusal, SessionState, Timestamp, time};

use serde::Serialize;

/// Answer of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// Deleted by this call.
    Now,
    /// Was deleted before; nothing changed (S-DEL-4).
    Before,
}

/// Answer of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    /// Ended by this call.
    Now,
    /// Was ended before; nothing changed.
    Before,
}

/// Deletes a Session that is durably idle or failed (S-DEL-1…7). No event; streams end by the deletion itself.
///
/// # Errors
/// E409-05 while it is busy.
pub fn delete(state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<Deleted>, Refusal> {
    if state.session.deleted_at.is_some() {
        return Ok(Decided::unchanged(Deleted::Before));
    }
    if !is_deletable(state) {
        return Err(Refusal::NotDeletable);
    }
    let mut draft = Draft::of(state);
    draft.state.session.deleted_at = Some(cx.now);
    expire_environment(&mut draft);
    match state.session.placement {
        Placement::OpenaiHosted => reclaim(&mut draft, cx.now),
        Placement::None => release(&mut draft, true),
        Placement::SelfHosted => release(&mut draft, false), // the machine and its files are left alone (S-DEL-2)
    }
    draft.wake();
    Ok(draft.decide(Deleted::Now))
}

/// Projection idle or failed, no required action, no root Turn that is not terminal, no pending reservation (S-DEL-1).
fn is_deletable(state: &SessionState) -> bool {
    let shown = project(state);
    matches!(shown.status, SessionStatus::Idle | SessionStatus::Failed)
        && shown.required_actions.is_empty()
        && state.live_turn().is_none()
        && state.pending_reservation().is_none()
}

/// Ends a hosted Session by order of an administrator (OPS-043): input that waits is cancelled (R7), an active Turn gets a
/// cancel (D42), compute is reclaimed (A12). Repeating it is harmless.
///
/// # Errors
/// E404-01 for a deleted Session; 400 for one that is not hosted.
pub fn archive(state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<Archived>, Refusal> {
    if state.session.deleted_at.is_some() {
        return Err(Refusal::NotFound);
    }
    if state.session.placement != Placement::OpenaiHosted {
        return Err(Refusal::NotHosted);
    }
    let mut draft = Draft::of(state);
    end_hosted(&mut draft, ReservationState::Cancelled, cx.now);
    let answer = if draft.state == *state {
        Archived::Before
    } else {
        Archived::Now
    };
    if answer == Archived::Now {
        draft.wake();
    }
    Ok(draft.decide(answer))
}

/// What is left of the compute of a hosted Session (OPS-043).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reclaim {
    /// Nothing was asked to go.
    Active,
    /// The provider has yet to confirm that it is gone.
    CleanupPending,
    /// Nothing is left.
    Released,
}

/// How far the reclamation of a hosted Session is.
///
/// # Errors
/// E404-01 for a deleted Session; 400 for one that is not hosted.
pub fn reclaim_of(state: &SessionState) -> Result<Reclaim, Refusal> {
    if state.session.deleted_at.is_some() {
        return Err(Refusal::NotFound);
    }
    if state.session.placement != Placement::OpenaiHosted {
        return Err(Refusal::NotHosted);
    }
    let environment = state.environment.as_ref();
    let ended = environment.is_some_and(|environment| environment.status.is_terminal());
    Ok(match state.allocation.as_ref().map(|row| row.phase) {
        Some(AllocationPhase::Released) => Reclaim::Released,
        Some(AllocationPhase::Releasing) => Reclaim::CleanupPending,
        None if ended => Reclaim::Released,
        Some(_) | None => Reclaim::Active,
    })
}

/// How long the open socket of an ended Environment is still kept, although its device is revoked: until the cancel of its Turn
/// is answered, at most [`time::ARCHIVE_CANCEL`] from the request (D42, SC-10.5). None: nothing is waited for.
pub fn receipt_wait(state: &SessionState, now: Timestamp) -> Option<Duration> {
    let environment = state.environment.as_ref()?;
    let until = state.live_turn()?.cancel?.requested_at + time::ARCHIVE_CANCEL;
    (environment.status.is_terminal() && now < until).then(|| until.since(now))
}

/// A12 for a live Session: Environment V5/V6, reservation settled as `settlement`, cancel requested, compute reclaimed; one
/// transaction (ENV-069, SP-9.1).
pub(crate) fn end_hosted(draft: &mut Draft<'_>, settlement: ReservationState, now: Timestamp) {
    expire_environment(draft);
    turn::request_cancel(draft, now);
    reservation::settle(draft, settlement, now);
    reclaim(draft, now);
}

/// R8: why a reservation fails when its allocation ends by itself (D8).
pub(crate) const ALLOCATION_ENDED: ReservationState = ReservationState::Failed {
    reason: ReservationFailure::Environment,
};

/// V5: the Environment becomes `expired` without an event (ENV-042); a failed one stays (V6). An initialization that
/// runs or waits is abandoned (N7, D22).
fn expire_environment(draft: &mut Draft<'_>) {
    if let Some(environment) = &mut draft.state.environment {
        if !environment.status.is_terminal() {
            environment.status = EnvironmentStatus::Expired;
        }
        if !matches!(environment.initialization, Initialization::Complete { .. }) {
            environment.initialization = Initialization::Failed;
        }
    }
}

/// A12 and the hosted half of 1.16: authority is revoked and the release counts as acknowledged, because the compute goes (D37).
pub(crate) fn reclaim(draft: &mut Draft<'_>, now: Timestamp) {
    if let Some(device) = &mut draft.state.device {
        device.revoked_at.get_or_insert(now);
    }
    if let Some(binding) = &mut draft.state.binding
        && binding.release.is_none()
    {
        binding.epoch += 1;
        binding.release = Some(Release {
            remove_home: true,
            acknowledged_at: Some(now),
        });
    }
    let hint = match &mut draft.state.allocation {
        Some(allocation)
            if !matches!(
                allocation.phase,
                AllocationPhase::Releasing | AllocationPhase::Released
            ) =>
        {
            // Nothing was ever sent to the provider: there is nothing that could still land.
            allocation.create_settled |= allocation.phase == AllocationPhase::Reserved;
            allocation.phase = AllocationPhase::Releasing;
            allocation.revision += 1;
            Hint::Allocation(allocation.id)
        }
        _ => return,
    };
    draft.hint(hint);
    // With an active Turn the socket stays for the cancel's receipt, at most 20 s (D42).
    if draft.state.live_turn().is_none() {
        close_connection(draft);
    }
}

/// The release that Core owes to a device that stays (1.16); sent again at each connect until acknowledged.
fn release(draft: &mut Draft<'_>, remove_home: bool) {
    let Some(binding) = &mut draft.state.binding else {
        return;
    };
    if binding.release.is_none() {
        binding.epoch += 1;
        binding.release = Some(Release {
            remove_home,
            acknowledged_at: None,
        });
        let session_id = binding.session_id;
        draft.hint(Hint::Release(session_id));
    }
}

fn close_connection(draft: &mut Draft<'_>) {
    let connection = draft
        .state
        .environment
        .as_ref()
        .and_then(|environment| environment.observation.connection_id);
    if let Some(connection_id) = connection {
        draft.hint(Hint::CloseConnection { connection_id });
    }
}
