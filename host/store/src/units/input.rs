//! `AdmitInput`: one batch into a Session, all or nothing.

use domain::{
    Context, Decided, ProjectId, Refusal, SessionId, SessionState,
    input::{Admission, Admit, Batch, admit},
};

use super::SessionUnit;
use crate::{
    load::Parts,
    provenance::{By, Operation, Provenance},
};

/// Admits messages, a cancel or function results (S-EV-5).
#[derive(Debug, Clone)]
pub struct AdmitInput {
    /// The caller's Project.
    pub project: ProjectId,
    /// The Session.
    pub session: SessionId,
    /// The batch with its key.
    pub admit: Admit,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl SessionUnit for AdmitInput {
    const NAME: &'static str = "AdmitInput";
    const LEASED: bool = false;
    type Answer = Admission;

    fn session(&self) -> SessionId {
        self.session
    }

    fn project(&self) -> Option<ProjectId> {
        Some(self.project)
    }

    fn parts(&self) -> Parts {
        let mut parts = Parts {
            retry_key: self.admit.key.clone(),
            binding: true,
            ..Parts::default()
        };
        match &self.admit.batch {
            Batch::Messages(_) => parts.inputs = true,
            // A cancel of a queued Turn ends it, with everything that belongs to an end (T4).
            Batch::Cancel => {
                parts = Parts {
                    retry_key: parts.retry_key,
                    ..Parts::whole()
                }
            }
            Batch::Results(results) => {
                parts.calls = true;
                parts.named_calls = results
                    .iter()
                    .map(|result| result.call_id.clone())
                    .collect();
            }
        }
        parts
    }

    fn provenance(&self) -> Option<(By<'_>, Operation)> {
        let by = self.provenance.as_ref()?;
        Some((
            by.into(),
            Operation::new("send_events", "session", self.session),
        ))
    }

    fn decide(
        &self,
        state: &SessionState,
        cx: &mut Context<'_>,
    ) -> Result<Decided<Admission>, Refusal> {
        admit(state, self.admit.clone(), cx)
    }
}
