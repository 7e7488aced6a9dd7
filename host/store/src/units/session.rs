//! `UpdateSession`, `DeleteSession`, `ArchiveSession`: what is done to a Session besides input.

use domain::{
    Context, Decided, ProjectId, Refusal, SessionId, SessionState,
    metadata::Metadata,
    session::{self, Deleted},
};

use super::{SessionUnit, decide_and_apply, locked};
use crate::{
    error::UnitError,
    load::Parts,
    provenance::{self, Administrator, Author, By, Operation, Provenance},
    selections,
    tx::Tx,
    unit::Unit,
};

/// Replaces the metadata (S-SES-14).
#[derive(Debug, Clone)]
pub struct UpdateSession {
    /// The caller's Project.
    pub project: ProjectId,
    /// The Session.
    pub session: SessionId,
    /// All pairs.
    pub metadata: Metadata,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl SessionUnit for UpdateSession {
    const NAME: &'static str = "UpdateSession";
    const LEASED: bool = false;
    type Answer = ();

    fn session(&self) -> SessionId {
        self.session
    }

    fn project(&self) -> Option<ProjectId> {
        Some(self.project)
    }

    fn parts(&self) -> Parts {
        Parts::default()
    }

    fn provenance(&self) -> Option<(By<'_>, Operation)> {
        let by = self.provenance.as_ref()?;
        Some((by.into(), Operation::new("update", "session", self.session)))
    }

    fn decide(&self, state: &SessionState, _cx: &mut Context<'_>) -> Result<Decided<()>, Refusal> {
        session::update(state, self.metadata.clone())
    }
}

/// Deletes a Session that is durably idle or failed (S-DEL-1).
#[derive(Debug, Clone)]
pub struct DeleteSession {
    /// The caller's Project.
    pub project: ProjectId,
    /// The Session.
    pub session: SessionId,
    /// The caller.
    pub by: Option<Author>,
}

impl SessionUnit for DeleteSession {
    const NAME: &'static str = "DeleteSession";
    const LEASED: bool = false;
    type Answer = Deleted;

    fn session(&self) -> SessionId {
        self.session
    }

    fn project(&self) -> Option<ProjectId> {
        Some(self.project)
    }

    fn parts(&self) -> Parts {
        Parts::whole()
    }

    fn provenance(&self) -> Option<(By<'_>, Operation)> {
        let by = self.by.as_ref()?;
        Some((by.into(), Operation::new("delete", "session", self.session)))
    }

    fn decide(
        &self,
        state: &SessionState,
        cx: &mut Context<'_>,
    ) -> Result<Decided<Deleted>, Refusal> {
        session::delete(state, cx)
    }
}

/// Ends a hosted Session by order of an administrator (OPS-043). Repeating it changes nothing more, and is recorded again.
#[derive(Debug, Clone)]
pub struct ArchiveSession {
    /// Its Project.
    pub project: ProjectId,
    /// The Session.
    pub session: SessionId,
    /// Generation that the administrator saw.
    pub expected_generation: u64,
    /// The caller.
    pub by: Administrator,
}

/// Why a Session is not archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveRefusal {
    /// By the rules of Sessions.
    Refused(Refusal),
    /// Its compute belongs to another generation of the deployment.
    Stale {
        /// That generation.
        current: u64,
    },
}

impl Unit for ArchiveSession {
    const NAME: &'static str = "ArchiveSession";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = ArchiveRefusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<ArchiveRefusal>> {
        let state = locked(tx, self.session, Some(self.project), &Parts::whole()).await;
        let state = state.map_err(refused)?;
        // Whether it can be archived at all comes before the generation.
        session::reclaim_of(&state).map_err(|refusal| refused(UnitError::Refused(refusal)))?;
        // A Session without an allocation of its own is of the deployment's present generation.
        let current = match &state.allocation {
            Some(allocation) => allocation.generation,
            None => selections::current(&mut *tx.conn).await?.generation,
        };
        if current != self.expected_generation {
            return Err(UnitError::Refused(ArchiveRefusal::Stale { current }));
        }
        let decided = decide_and_apply(tx, self.session, |cx| session::archive(&state, cx));
        decided.await.map_err(refused)?;
        let operation = Operation::new("archive", "session", self.session);
        let by = Some(By::Administrator(&self.by));
        provenance::record(tx, self.project, by, operation).await?;
        Ok(())
    }
}

fn refused(error: UnitError<Refusal>) -> UnitError<ArchiveRefusal> {
    match error {
        UnitError::Refused(refusal) => UnitError::Refused(ArchiveRefusal::Refused(refusal)),
        UnitError::Store(error) => UnitError::Store(error),
    }
}
