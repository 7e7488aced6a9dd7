//! The life of hosted compute, in steps that are committed before the provider is called (SP-4).

use domain::{
    Context, Decided, OperationId, Refusal, SessionId, SessionState,
    allocation::{self, Capacity, Record, Recorded, Reserve, Reserved},
};

use super::{SessionUnit, decide_and_apply, locked};
use crate::{allocations, error::UnitError, load::Parts, tx::Tx, unit::Unit};

/// Reserves compute for a hosted Environment, with its device and binding (A1).
#[derive(Debug, Clone)]
pub struct ReserveAllocation {
    /// The Session of the Environment.
    pub session: SessionId,
    /// Provider and device.
    pub reserve: Reserve,
    /// Most allocations of this provider that may hold compute; none = no limit.
    pub limit: Option<u32>,
}

impl Unit for ReserveAllocation {
    const NAME: &'static str = "ReserveAllocation";
    const LEASED: bool = true;
    type Answer = Reserved;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Reserved, UnitError<Refusal>> {
        let state = locked(tx, self.session, None, &Parts::whole()).await?;
        // Leased units run one after another, so the count cannot change before the commit.
        let used = allocations::holding(tx.conn, &self.reserve.provider).await?;
        let capacity = Capacity {
            used,
            limit: self.limit,
        };
        let reserve = self.reserve.clone();
        Ok(decide_and_apply(tx, self.session, |cx| {
            allocation::reserve(&state, capacity, reserve, cx)
        })
        .await?
        .0)
    }
}

/// The right to call `create`, once ever (A3).
#[derive(Debug, Clone)]
pub struct BeginCreate {
    /// The Session.
    pub session: SessionId,
    /// Revision that the caller saw.
    pub revision: u64,
    /// Where the compute will be, if not anywhere.
    pub node: Option<String>,
}

/// Stores what a provider call or an inspection told (A4 to A6, A9, A11, A15).
#[derive(Debug, Clone)]
pub struct RecordAllocation {
    /// The Session.
    pub session: SessionId,
    /// Revision that the caller saw.
    pub revision: u64,
    /// What is known.
    pub record: Record,
}

/// The right to suspend (A8).
#[derive(Debug, Clone, Copy)]
pub struct BeginSuspend {
    /// The Session.
    pub session: SessionId,
    /// Revision that the caller saw.
    pub revision: u64,
    /// The operation to observe.
    pub operation: OperationId,
}

/// Ends compute for another reason than deletion or archive (A12, R8). The answer tells whether it did.
#[derive(Debug, Clone, Copy)]
pub struct BeginRelease {
    /// The Session.
    pub session: SessionId,
}

/// Everything of an allocation is gone (A13). The answer tells whether it was `releasing`.
#[derive(Debug, Clone, Copy)]
pub struct FinishRelease {
    /// The Session.
    pub session: SessionId,
    /// Revision that the caller saw.
    pub revision: u64,
}

macro_rules! session_units {
    ($($unit:ident -> $answer:ty = |$self:ident, $state:ident, $cx:ident| $decision:expr;)*) => {$(
        impl SessionUnit for $unit {
            const NAME: &'static str = stringify!($unit);
            const LEASED: bool = true;
            type Answer = $answer;

            fn session(&self) -> SessionId {
                self.session
            }

            fn parts(&self) -> Parts {
                Parts::whole()
            }

            fn decide(&$self, $state: &SessionState, $cx: &mut Context<'_>) -> Result<Decided<$answer>, Refusal> {
                $decision
            }
        }
    )*};
}

session_units! {
    BeginCreate -> bool = |self, state, cx| {
        allocation::begin_create(state, self.revision, self.node.clone(), cx)
    };
    RecordAllocation -> Recorded = |self, state, cx| allocation::record(state, self.revision, self.record.clone(), cx);
    BeginSuspend -> bool = |self, state, _cx| allocation::begin_suspend(state, self.revision, self.operation);
    BeginRelease -> bool = |self, state, cx| allocation::release(state, cx);
    FinishRelease -> bool = |self, state, _cx| allocation::released(state, self.revision);
}

/// The right to resume, under the capacity count (A10).
#[derive(Debug, Clone, Copy)]
pub struct BeginResume {
    /// The Session.
    pub session: SessionId,
    /// Revision that the caller saw.
    pub revision: u64,
    /// The operation to observe.
    pub operation: OperationId,
    /// Most allocations of this provider that may hold compute; none = no limit.
    pub limit: Option<u32>,
}

impl Unit for BeginResume {
    const NAME: &'static str = "BeginResume";
    const LEASED: bool = true;
    type Answer = bool;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, UnitError<Refusal>> {
        let state = locked(tx, self.session, None, &Parts::whole()).await?;
        let used = match &state.allocation {
            Some(allocation) => allocations::holding(tx.conn, &allocation.provider).await?,
            None => 0,
        };
        let capacity = Capacity {
            used,
            limit: self.limit,
        };
        let (answer, _) = decide_and_apply(tx, self.session, |_cx| {
            allocation::begin_resume(&state, self.revision, capacity, self.operation)
        })
        .await?;
        Ok(answer)
    }
}
