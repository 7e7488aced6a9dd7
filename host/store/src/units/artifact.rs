//! `DeleteArtifact`: what a client does to a published output file.

use domain::{ArtifactId, ProjectId, Refusal, SessionId, artifact};

use super::{decide_and_apply, locked};
use crate::{
    artifacts,
    error::UnitError,
    load::Parts,
    provenance::{Author, Operation, record},
    tx::Tx,
    unit::Unit,
};

/// Deletes an Artifact; the file in the workspace stays (ART-025).
#[derive(Debug, Clone)]
pub struct DeleteArtifact {
    /// The caller's Project.
    pub project: ProjectId,
    /// The Session.
    pub session: SessionId,
    /// The Artifact.
    pub artifact: ArtifactId,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteArtifact {
    const NAME: &'static str = "DeleteArtifact";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Refusal>> {
        let (session, project) = (self.session, self.project);
        locked(tx, session, Some(project), &Parts::default()).await?;
        let found = artifacts::get(tx.conn, session, self.artifact).await?;
        let found = found.ok_or(UnitError::Refused(Refusal::NotFound))?;
        decide_and_apply(tx, session, |cx| artifact::delete(&found, cx)).await?;
        let operation = Operation::new("delete", "artifact", self.artifact).of(session);
        record(tx, project, self.by.as_ref(), operation).await?;
        Ok(())
    }
}
