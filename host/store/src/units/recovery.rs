//! `RecoverSession`: what a new owner makes of one Session (units.md 3, SC-10.1).

use domain::{
    Refusal, SessionId,
    environment::{self, ConnectionState, FailureReason, Initialization, Observe},
    turn,
};

use super::{advance, decide, locked};
use crate::{apply::apply, error::UnitError, load::Parts, tx::Tx, unit::Unit};

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
        let mut state = locked(tx, self.session, None, &Parts::whole()).await?;
        let mut changed = false;
        let interrupted = decide(tx, |cx| turn::interrupt(&state, cx)).await?;
        changed |= interrupted.answer;
        advance(&mut state, &interrupted.changes);
        apply(tx, self.session, interrupted.changes).await?;
        let running = |environment: &domain::environment::Environment| {
            matches!(environment.initialization, Initialization::Running { .. })
        };
        if state.environment.as_ref().is_some_and(running) {
            let failed = decide(tx, |cx| environment::fail(&state, FailureReason::Incomplete, cx)).await?;
            changed |= failed.answer;
            advance(&mut state, &failed.changes);
            apply(tx, self.session, failed.changes).await?;
        }
        let seen = |environment: &domain::environment::Environment| {
            matches!(environment.observation.state, ConnectionState::Registered | ConnectionState::Connected)
        };
        if state.environment.as_ref().is_some_and(seen) {
            let lost = decide(tx, |cx| environment::observe(&state, Observe::OwnerLost, cx)).await?;
            changed = true;
            apply(tx, self.session, lost.changes).await?;
        }
        Ok(changed)
    }
}
