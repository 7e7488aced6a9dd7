//! The write units of the design, by name. One file per subject; each unit is a struct of its inputs, and its decision
//! is one function of `domain`.

pub mod allocation;
pub mod artifact;
pub mod create;
pub mod device;
pub mod environment;
pub mod input;
pub mod recovery;
pub mod reservation;
pub mod retention;
pub mod session;
pub mod turn;

use domain::{Context, Decided, ProjectId, Refusal, SessionId, SessionState};

use crate::{
    apply::apply,
    error::UnitError,
    load::{Parts, load},
    provenance::{self, By},
    tx::Tx,
    unit::{Durability, Unit},
};

/// A unit about one Session: lock it, load the parts, decide, apply.
///
/// Implementing this gives a [`Unit`]. The decision must not depend on anything but its arguments.
pub trait SessionUnit: Send + Sync + 'static {
    /// See [`Unit::NAME`].
    const NAME: &'static str;
    /// See [`Unit::LEASED`].
    const LEASED: bool;
    /// See [`Unit::Answer`].
    type Answer: Send + 'static;

    /// The Session; its row lock is the first lock.
    fn session(&self) -> SessionId;

    /// The caller's Project; a Session of another one is a missing one (W-AUTH-4).
    fn project(&self) -> Option<ProjectId> {
        None
    }

    /// What the decision needs.
    fn parts(&self) -> Parts;

    /// See [`Unit::durability`].
    fn durability(&self) -> Durability {
        Durability::Synced
    }

    /// Which key did this, and what it did (OPS-060).
    fn provenance(&self) -> Option<(By<'_>, provenance::Operation)> {
        None
    }

    /// The decision.
    ///
    /// # Errors
    /// The rules' refusal; then nothing is written.
    fn decide(
        &self,
        state: &SessionState,
        cx: &mut Context<'_>,
    ) -> Result<Decided<Self::Answer>, Refusal>;
}

impl<S: SessionUnit> Unit for S {
    const NAME: &'static str = S::NAME;
    const LEASED: bool = S::LEASED;
    type Answer = S::Answer;
    type Refusal = Refusal;

    fn durability(&self) -> Durability {
        SessionUnit::durability(self)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<S::Answer, UnitError<Refusal>> {
        let state = locked(tx, self.session(), self.project(), &self.parts()).await?;
        let decided = decide(tx, |cx| self.decide(&state, cx)).await?;
        let changed = !decided.changes.is_empty();
        apply(tx, self.session(), decided.changes).await?;
        if changed && let Some((by, operation)) = self.provenance() {
            provenance::record(tx, state.session.project_id, Some(by), operation).await?;
        }
        Ok(decided.answer)
    }
}

/// Takes the Session's lock and loads it.
pub(crate) async fn locked(
    tx: &mut Tx<'_>,
    session: SessionId,
    project: Option<ProjectId>,
    parts: &Parts,
) -> Result<SessionState, UnitError<Refusal>> {
    tx.lock_session(session).await?;
    match load(tx.conn, session, parts).await? {
        Some((state, _)) if project.is_none_or(|project| project == state.session.project_id) => {
            Ok(state)
        }
        _ => Err(UnitError::Refused(Refusal::NotFound)),
    }
}

/// Calls one domain function with the clock of this transaction and random ids.
pub(crate) async fn decide<A>(
    tx: &mut Tx<'_>,
    decision: impl FnOnce(&mut Context<'_>) -> Result<Decided<A>, Refusal>,
) -> Result<Decided<A>, UnitError<Refusal>> {
    let now = tx.now().await?;
    let mut ids = uuid::Uuid::new_v4;
    decision(&mut Context { now, ids: &mut ids }).map_err(UnitError::Refused)
}

/// Decides and applies: the body of a unit that loads in its own way.
pub(crate) async fn decide_and_apply<A>(
    tx: &mut Tx<'_>,
    session: SessionId,
    decision: impl FnOnce(&mut Context<'_>) -> Result<Decided<A>, Refusal>,
) -> Result<(A, bool), UnitError<Refusal>> {
    let Decided { answer, changes } = decide(tx, decision).await?;
    let changed = !changes.is_empty();
    apply(tx, session, changes).await?;
    Ok((answer, changed))
}
