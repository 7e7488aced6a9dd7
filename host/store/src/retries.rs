//! Creations that may be repeated (`wire.md` 10): which request holds an `Idempotency-Key`, and what it made. The identity is
//! written in the transaction of the resource, so a crash keeps both or none; it outlives the resource (W-IDEM-5).

use domain::{Digest, ProjectId, Refusal, SkillId, VaultId};
use sqlx::Row;

use crate::{
    conn::Conn,
    error::{StoreError, UnitError},
    tx::Tx,
    unit::{Durability, Unit},
};

/// A key and the request that it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryKey {
    /// `Idempotency-Key`.
    pub key: String,
    /// Identity of the request as compared (W-IDEM-3, W-IDEM-6).
    pub digest: Digest,
}

/// What a key makes. Each kind has keys of its own in a Project, and those of a child belong to its parent (W-IDEM-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the resources that requests create")]
pub enum Namespace {
    Session,
    Agent,
    Template,
    Vault,
    Credential(VaultId),
    File,
    Skill,
    SkillVersion(SkillId),
}

impl Namespace {
    fn text(self) -> String {
        match self {
            Self::Session => "session".to_owned(),
            Self::Agent => "agent".to_owned(),
            Self::Template => "template".to_owned(),
            Self::Vault => "vault".to_owned(),
            Self::Credential(vault) => format!("credential:{vault}"),
            Self::File => "file".to_owned(),
            Self::Skill => "skill".to_owned(),
            Self::SkillVersion(skill) => format!("skill_version:{skill}"),
        }
    }
}

/// A unit that makes one resource.
pub trait Creation: Unit<Refusal = Refusal> {
    /// Owner, kind and id of the resource.
    fn makes(&self) -> (ProjectId, Namespace, String);

    /// The same kind of resource as an earlier request made it, as it is now; none if it is gone.
    fn find(
        &self,
        tx: &mut Tx<'_>,
        id: &str,
    ) -> impl Future<Output = Result<Option<Self::Answer>, StoreError>> + Send;
}

/// A creation under its key, if it has one. A repetition makes nothing and answers what was made (W-IDEM-3, W-IDEM-11); it is
/// [`Refusal::KeyConflict`] for another request, and once the resource is gone (W-IDEM-5).
#[derive(Debug)]
pub struct Keyed<U> {
    /// What to make.
    pub unit: U,
    /// Under which key.
    pub retry: Option<RetryKey>,
}

impl<U: Creation> Unit for Keyed<U> {
    const NAME: &'static str = U::NAME;
    const LEASED: bool = U::LEASED;
    type Answer = U::Answer;
    type Refusal = Refusal;

    fn durability(&self) -> Durability {
        self.unit.durability()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<U::Answer, UnitError<Refusal>> {
        let Some(retry) = &self.retry else {
            return self.unit.run(tx).await;
        };
        let (project, namespace, id) = self.unit.makes();
        match claim(tx, project, namespace, retry, &id).await? {
            None => self.unit.run(tx).await,
            Some(earlier) => {
                let found = self.unit.find(tx, &earlier).await?;
                found.ok_or(UnitError::Refused(Refusal::KeyConflict))
            }
        }
    }
}

/// Who holds a key: the digest of its request, and the resource.
pub(crate) struct Holder {
    pub(crate) digest: String,
    pub(crate) resource: String,
}

/// Claims a key for a new resource (S-SES-11). Answers the earlier resource of the same request, if there is one.
pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    project: ProjectId,
    namespace: Namespace,
    retry: &RetryKey,
    mine: &str,
) -> Result<Option<String>, UnitError<Refusal>> {
    let now = tx.now().await?;
    sqlx::query(
        "INSERT INTO retries (project_id, namespace, key, digest, resource_id, created_at) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (project_id, namespace, key) DO NOTHING",
    )
    .bind(project.to_string())
    .bind(namespace.text())
    .bind(retry.key.clone())
    .bind(retry.digest.to_string())
    .bind(mine.to_owned())
    .bind(now.millis())
    .execute(&mut *tx.conn)
    .await?;
    // Another creation with this key may have held us up: times start now.
    tx.forget_clock();
    let holder = holder(tx.conn, project, namespace, &retry.key).await?;
    let holder = holder.ok_or(StoreError::Missing { table: "retries" })?;
    if holder.resource == mine {
        return Ok(None);
    }
    match holder.digest == retry.digest.to_string() {
        true => Ok(Some(holder.resource)),
        false => Err(UnitError::Refused(Refusal::KeyConflict)),
    }
}

/// Who holds a key.
pub(crate) async fn holder(
    conn: &mut Conn,
    project: ProjectId,
    namespace: Namespace,
    key: &str,
) -> Result<Option<Holder>, StoreError> {
    let row = sqlx::query(
        "SELECT digest, resource_id FROM retries WHERE project_id = $1 AND namespace = $2 AND key = $3",
    )
    .bind(project.to_string())
    .bind(namespace.text())
    .bind(key.to_owned())
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        Ok(Holder {
            digest: row.try_get("digest")?,
            resource: row.try_get("resource_id")?,
        })
    })
    .transpose()
}
