//! `UpdateSession`, `DeleteSession`: what a client does to a Session besides input.

use domain::{
    Context, Decided, ProjectId, Refusal, SessionId, SessionState,
    metadata::Metadata,
    session::{self, Deleted},
};

use super::SessionUnit;
use crate::{
    load::Parts,
    provenance::{Author, By, Operation, Provenance},
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
