//! Allocation from reservation to release (A1–A7, A9, A11–A15).

use super::{Allocation, AllocationPhase, Observed};
use crate::binding::{Binding, Device};
use crate::changes::{Context, Decided, Hint};
use crate::draft::Draft;
use crate::environment::{self, FailureReason};
use crate::run::PluginIdentity;
use crate::session::{self, Placement};
use crate::{AllocationId, BindingId, DeviceId, Digest, Refusal, SessionState, Timestamp};

/// Compute that the deployment may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Allocations that hold it, counted under the capacity lock.
    pub used: u32,
    /// Most that may; none = no limit.
    pub limit: Option<u32>,
}

impl Capacity {
    /// One more fits.
    pub fn is_free(&self) -> bool {
        self.limit.is_none_or(|limit| self.used < limit)
    }
}

/// An allocation to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserve {
    /// Provider name.
    pub provider: String,
    /// The plugin that it is.
    pub plugin: Option<PluginIdentity>,
    /// Deployment generation.
    pub generation: u64,
    /// Id of the device, chosen with its credential.
    pub device_id: DeviceId,
    /// Digest of the credential that the daemon will present.
    pub credential: Digest,
}

/// What became of the wish for an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// It is made.
    Now(AllocationId),
    /// Nobody wishes it any more: the Environment is not live and hosted, or has had one (I22).
    NotWanted,
    /// Capacity is used up; the Environment waits (A2).
    NoCapacity,
}

/// A1: allocation, device, credential digest and binding in one commit, before any native call (SP-4.1).
///
/// # Errors
/// None; the signature is that of every decision.
pub fn reserve(
    state: &SessionState,
    capacity: Capacity,
    reserve: Reserve,
    cx: &mut Context<'_>,
) -> Result<Decided<Reserved>, Refusal> {
    let live =
        state.session.deleted_at.is_none() && state.session.placement == Placement::OpenaiHosted;
    let environment = state
        .environment
        .as_ref()
        .filter(|environment| live && !environment.status.is_terminal());
    let Some(environment) = environment.filter(|_| state.allocation.is_none()) else {
        return Ok(Decided::unchanged(Reserved::NotWanted));
    };
    if !capacity.is_free() {
        return Ok(Decided::unchanged(Reserved::NoCapacity));
    }
    let mut draft = Draft::of(state);
    let id = AllocationId::draw(cx.ids);
    draft.state.device = Some(Device {
        id: reserve.device_id,
        environment_id: Some(environment.id),
        credential: reserve.credential,
        revoked_at: None,
    });
    draft.state.binding = Some(Binding {
        id: BindingId::draw(cx.ids),
        session_id: state.session.id,
        environment_id: Some(environment.id),
        device_id: reserve.device_id,
        epoch: 1,
        release: None,
    });
    draft.state.allocation = Some(Allocation {
        id,
        project_id: state.session.project_id,
        session_id: state.session.id,
        environment_id: environment.id,
        device_id: reserve.device_id,
        provider: reserve.provider,
        plugin: reserve.plugin,
        generation: reserve.generation,
        node: None,
        phase: AllocationPhase::Reserved,
        revision: 1,
        native_id: None,
        create_settled: false,
        bootstrap_complete: false,
        create_sent_at: None,
        lease_expires_at: None,
        observation: None,
        created_at: cx.now,
    });
    draft.hint(Hint::Allocation(id));
    Ok(draft.decide(Reserved::Now(id)))
}

/// A3: the right to send `create`, once ever (SP-4.2, SP-4.3), from the node that will have it. Anything else is inert; the answer
/// tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn begin_create(
    state: &SessionState,
    revision: u64,
    node: Option<String>,
    cx: &mut Context<'_>,
) -> Result<Decided<bool>, Refusal> {
    change(state, revision, |allocation| {
        if allocation.phase != AllocationPhase::Reserved {
            return false;
        }
        allocation.node = node;
        allocation.phase = AllocationPhase::Creating;
        allocation.create_sent_at = Some(cx.now);
        true
    })
}

/// What a provider call or an inspection told. `Unknown` results are not recorded: they change nothing (A7, A14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// `create` is known to have ended, with the resource's id; the bootstrap is not complete yet (SP-5.8).
    Created {
        /// The provider's id.
        native_id: String,
    },
    /// Ours, running and bootstrapped (A4, A6).
    Running {
        /// The provider's id.
        native_id: String,
        /// End of the provider's lease, if it has one.
        lease_expires_at: Option<Timestamp>,
    },
    /// `create` was refused, or the resource is not ours: the Environment fails, the allocation is released (A5, D25).
    CreateRejected,
    /// An uncertain create can never land any more (SP-4.6).
    CreateSettled,
    /// The suspend operation, or the machine by itself, left a stopped machine with its disks intact (A9, A15a).
    Suspended,
    /// The suspension was given up, or the resume is done: the machine runs (A9, A11).
    Resumed {
        /// End of the provider's lease, if it has one.
        lease_expires_at: Option<Timestamp>,
    },
    /// The provider's lease was prolonged.
    Renewed {
        /// Its end.
        lease_expires_at: Timestamp,
    },
    /// A running allocation is missing or stopped; never replaced (A15, ENV-095).
    NotRunning(Observed),
}

/// Answer of [`record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Stored; the new revision.
    Stored {
        /// Revision to name next.
        revision: u64,
    },
    /// An older revision, or nothing that this phase may learn: nothing changed (SP-4.9).
    Inert,
}

/// Stores what is known of the native resource.
///
/// # Errors
/// Only E500-01.
pub fn record(
    state: &SessionState,
    revision: u64,
    record: Record,
    cx: &mut Context<'_>,
) -> Result<Decided<Recorded>, Refusal> {
    let Some(allocation) = state
        .allocation
        .as_ref()
        .filter(|allocation| allocation.revision == revision)
    else {
        return Ok(Decided::unchanged(Recorded::Inert));
    };
    let Some(next) = learn(allocation, &record) else {
        return Ok(Decided::unchanged(Recorded::Inert));
    };
    let mut draft = Draft::of(state);
    let id = next.id;
    draft.state.allocation = Some(Allocation {
        revision: revision + 1,
        ..next
    });
    if record == Record::CreateRejected && allocation.phase == AllocationPhase::Creating {
        environment::fail_in(&mut draft, FailureReason::Incomplete, cx);
        session::reclaim(&mut draft, cx.now);
        let revision = draft
            .state
            .allocation
            .as_ref()
            .map_or(revision, |allocation| allocation.revision);
        return Ok(draft.decide(Recorded::Stored { revision }));
    }
    draft.hint(Hint::Allocation(id));
    Ok(draft.decide(Recorded::Stored {
        revision: revision + 1,
    }))
}

/// The allocation with what was learnt; none if this phase cannot learn it.
fn learn(old: &Allocation, record: &Record) -> Option<Allocation> {
    use AllocationPhase as Phase;
    let mut new = old.clone();
    match (record, old.phase) {
        (Record::Created { native_id }, Phase::Creating | Phase::Releasing) => {
            new.native_id = Some(native_id.clone());
            new.create_settled = true;
        }
        (
            Record::Running {
                native_id,
                lease_expires_at,
            },
            Phase::Creating,
        ) => {
            new.native_id = Some(native_id.clone());
            new.create_settled = true;
            new.bootstrap_complete = true;
            new.lease_expires_at = *lease_expires_at;
            new.phase = Phase::Running;
        }
        (Record::Running { .. }, Phase::Running) if old.observation.is_some() => {
            new.observation = None
        }
        (Record::CreateRejected | Record::CreateSettled, Phase::Creating | Phase::Releasing) => {
            new.create_settled = true
        }
        (Record::Suspended, Phase::Suspending { .. } | Phase::Running) => {
            new.phase = Phase::Suspended
        }
        (
            Record::Resumed { lease_expires_at },
            Phase::Suspending { .. } | Phase::Resuming { .. },
        ) => {
            new.phase = Phase::Running;
            new.observation = None;
            new.lease_expires_at = lease_expires_at.or(old.lease_expires_at);
        }
        (Record::Renewed { lease_expires_at }, phase) if phase != Phase::Released => {
            new.lease_expires_at = Some(*lease_expires_at);
        }
        (Record::NotRunning(observed), Phase::Running) if old.observation != Some(*observed) => {
            new.observation = Some(*observed);
        }
        _ => return None,
    }
    Some(new)
}

/// A12 by the retention scan: the allocation ends by itself; pending input fails (R8, D8), an active Turn gets a cancel.
/// Anything but a live hosted Session with an unreleased allocation is inert; the answer tells.
///
/// # Errors
/// Only E500-01.
pub fn release(state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
    let releasable = state.session.placement == Placement::OpenaiHosted
        && state.allocation.as_ref().is_some_and(|allocation| {
            !matches!(
                allocation.phase,
                AllocationPhase::Releasing | AllocationPhase::Released
            )
        });
    if !releasable {
        return Ok(Decided::unchanged(false));
    }
    let mut draft = Draft::of(state);
    session::end_hosted(&mut draft, session::ALLOCATION_ENDED, cx.now);
    draft.wake();
    Ok(draft.decide(true))
}

/// A13: `kill` is done and every owned part is gone; only with a settled create (I22). Otherwise inert; the answer tells.
///
/// # Errors
/// None; the signature is that of every decision.
pub fn released(state: &SessionState, revision: u64) -> Result<Decided<bool>, Refusal> {
    change(state, revision, |allocation| {
        let done = allocation.phase == AllocationPhase::Releasing && allocation.create_settled;
        if done {
            allocation.phase = AllocationPhase::Released;
        }
        done
    })
}

/// One compare-and-swap of the allocation (SP-4.9); the answer tells whether it happened.
pub(super) fn change(
    state: &SessionState,
    revision: u64,
    change: impl FnOnce(&mut Allocation) -> bool,
) -> Result<Decided<bool>, Refusal> {
    let mut draft = Draft::of(state);
    let allocation = draft
        .state
        .allocation
        .as_mut()
        .filter(|allocation| allocation.revision == revision);
    let Some(allocation) = allocation else {
        return Ok(Decided::unchanged(false));
    };
    let changed = change(allocation);
    let id = allocation.id;
    if !changed {
        return Ok(Decided::unchanged(false));
    }
    allocation.revision += 1;
    draft.hint(Hint::Allocation(id));
    Ok(draft.decide(true))
}
