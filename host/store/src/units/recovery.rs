//! `RecoverSession`: what a new owner makes of one Session (units.md 3, SC-10.1).

use domain::{
    Refusal, SessionId,
    environment::{self, ConnectionState, FailureReason, Initialization, Observe},
    turn,
};

use super::{decide_and_apply, locked};
use crate::{error::UnitError, load::Parts, tx::Tx, unit::Unit};

/// Settles what a former owner left behind: its claim, its initialization, its connection, in this order.
/// Running it again changes nothing (I30). The answer tells whether anything changed.
#[derive(Debug, Clone, Copy)]
pub struct RecoverSession {
    /// The Session, deleted ones included (SC-10.3).
    pub session: SessionId,
}

impl Unit for RecoverSession {
    const NAME: &'static str = "RecoverSession";
    const LEASED: bool = true;
    type Answer = bool;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, UnitError<Refusal>> {
        let parts = Parts::whole();
        let state = locked(tx, self.session, None, &parts).await?;
        let (interrupted, _) =
            decide_and_apply(tx, self.session, |cx| turn::interrupt(&state, cx)).await?;
        let state = locked(tx, self.session, None, &parts).await?;
        let initializing = state.environment.as_ref().is_some_and(|environment| {
            matches!(environment.initialization, Initialization::Running { .. })
        });
        if initializing {
            decide_and_apply(tx, self.session, |cx| {
                environment::fail(&state, FailureReason::Incomplete, cx)
            })
            .await?;
        }
        let state = locked(tx, self.session, None, &parts).await?;
        let observed = state.environment.as_ref().is_some_and(|environment| {
            matches!(
                environment.observation.state,
                ConnectionState::Registered | ConnectionState::Connected
            )
        });
        if observed {
            decide_and_apply(tx, self.session, |cx| {
                environment::observe(&state, Observe::OwnerLost, cx)
            })
            .await?;
        }
        Ok(interrupted || initializing || observed)
    }
}
