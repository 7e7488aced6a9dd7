//! `CreateSession`: the retry identity decides first; only its winner makes anything (S-SES-11).

use domain::{
    Refusal, SessionId, SessionState,
    session::{self, NewSession},
};

use super::decide;
use crate::{
    apply::apply,
    configurations::{self, NewConfiguration},
    convert::parse_id,
    error::UnitError,
    provenance::{self, Operation, Provenance},
    retries::{self, Namespace, RetryKey},
    sessions,
    tx::Tx,
    unit::Unit,
};

/// Makes a Session, its Environment, and its first Turn or reservation.
#[derive(Debug, Clone)]
pub struct CreateSession {
    /// Everything resolved and admitted.
    pub new: NewSession,
    /// Its frozen configuration; `new.configuration` names it.
    pub configuration: NewConfiguration,
    /// Under which key.
    pub key: Option<RetryKey>,
    /// The caller.
    pub provenance: Option<Provenance>,
}

/// Answer of [`CreateSession`].
#[derive(Debug, Clone)]
pub enum Created {
    /// This call made it.
    Now {
        /// As created.
        state: Box<SessionState>,
        /// Number of the newest event of this commit; a creation stream begins before the first (S-CS-2).
        last_event: u64,
    },
    /// An earlier call with this key and request made it (W-IDEM-3).
    Before {
        /// The Session.
        session: SessionId,
    },
}

impl Unit for CreateSession {
    const NAME: &'static str = "CreateSession";
    const LEASED: bool = false;
    type Answer = Created;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Created, UnitError<Refusal>> {
        let (project, id) = (self.new.project_id, self.new.id);
        if let Some(retry) = &self.key {
            let mine = id.to_string();
            let earlier = retries::claim(tx, project, Namespace::Session, retry, &mine).await?;
            if let Some(earlier) = earlier {
                let session = parse_id(&earlier, "retries", "resource_id")?;
                // W-IDEM-5: the key of a deleted Session stays taken.
                return match sessions::get(tx.conn, session).await? {
                    Some((row, _)) if row.deleted_at.is_none() => Ok(Created::Before { session }),
                    _ => Err(UnitError::Refused(Refusal::KeyConflict)),
                };
            }
        }
        let decided = decide(tx, |cx| session::create(self.new.clone(), cx)).await?;
        let now = tx.now().await?;
        let keys = tx.keys.clone();
        configurations::add(tx.conn, &keys, project, id, &self.configuration, now).await?;
        let last_event = decided.changes.events.len() as u64;
        apply(tx, id, decided.changes).await?;
        provenance::record(
            tx,
            project,
            self.provenance.as_ref(),
            Operation::new("create", "session", id),
        )
        .await?;
        Ok(Created::Now {
            state: Box::new(decided.answer),
            last_event,
        })
    }
}
