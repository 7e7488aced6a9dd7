//! Suspension and resumption of a running machine (A8, A10).

use super::lifecycle::change;
use super::{AllocationPhase, Capacity};
use crate::changes::Decided;
use crate::environment::Initialization;
use crate::session_state::OpenFileWrite;
use crate::{OperationId, Refusal, SessionState};

/// A8: nothing is pending, rechecked under the lock (SP-8.1). A file write in flight prevents it, an unsettled one does not
/// (D24). Otherwise inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn begin_suspend(
    state: &SessionState,
    revision: u64,
    operation: OperationId,
) -> Result<Decided<bool>, Refusal> {
    let initializing = state.environment.as_ref().is_some_and(|environment| {
        matches!(environment.initialization, Initialization::Running { .. })
    });
    let busy = state.live_turn().is_some()
        || state.pending_reservation().is_some()
        || state.file_write == Some(OpenFileWrite::InFlight)
        || initializing;
    change(state, revision, |allocation| {
        let may = allocation.phase == AllocationPhase::Running && !busy;
        if may {
            allocation.phase = AllocationPhase::Suspending { operation };
        }
        may
    })
}

/// A10: work waits and capacity is free (SP-10.4). Otherwise inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn begin_resume(
    state: &SessionState,
    revision: u64,
    capacity: Capacity,
    operation: OperationId,
) -> Result<Decided<bool>, Refusal> {
    let wanted = state.pending_reservation().is_some() && capacity.is_free();
    change(state, revision, |allocation| {
        let may = allocation.phase == AllocationPhase::Suspended && wanted;
        if may {
            allocation.phase = AllocationPhase::Resuming { operation };
        }
        may
    })
}
