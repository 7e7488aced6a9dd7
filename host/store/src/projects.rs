//! Projects and their API keys (OPS-020 to OPS-035). Only the digest of a key is stored.

use domain::{Digest, KeyId, ProjectId, Timestamp};
use sqlx::{Row, any::AnyRow};

use crate::{
    conn::Conn,
    convert::{count_column, id_column},
    error::{StoreError, UnitError},
    provenance::{Administrator, Operation, audit},
    tx::Tx,
    unit::Unit,
};

/// A Project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Identity.
    pub id: ProjectId,
    /// Label; may repeat.
    pub name: String,
    /// Creation.
    pub created_at: Timestamp,
    /// Archive; terminal.
    pub archived_at: Option<Timestamp>,
    /// Keys that are not revoked.
    pub active_key_count: u64,
}

/// A key without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Identity.
    pub id: KeyId,
    /// Its Project.
    pub project_id: ProjectId,
    /// Label.
    pub name: String,
    /// First characters, to tell keys apart.
    pub prefix: String,
    /// Issue.
    pub created_at: Timestamp,
    /// Revocation; terminal.
    pub revoked_at: Option<Timestamp>,
}

/// Why a Project or key cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectRefusal {
    /// No such Project, or no such key in it.
    NotFound,
    /// The Project is archived (OPS-035).
    Archived,
}

pub(crate) fn read_project(row: &AnyRow) -> Result<Project, StoreError> {
    Ok(Project {
        id: id_column(row, "projects", "id")?,
        name: row.try_get("name")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        archived_at: row
            .try_get::<Option<i64>, _>("archived_at")?
            .map(Timestamp::from_millis),
        active_key_count: count_column(row, "projects", "active_key_count")?,
    })
}

pub(crate) fn read_key(row: &AnyRow) -> Result<ApiKey, StoreError> {
    Ok(ApiKey {
        id: id_column(row, "api_keys", "id")?,
        project_id: id_column(row, "api_keys", "project_id")?,
        name: row.try_get("name")?,
        prefix: row.try_get("prefix")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        revoked_at: row
            .try_get::<Option<i64>, _>("revoked_at")?
            .map(Timestamp::from_millis),
    })
}

pub(crate) async fn project(conn: &mut Conn, id: ProjectId) -> Result<Option<Project>, StoreError> {
    let row = sqlx::query(
        "SELECT id, name, created_at, archived_at, (SELECT count(*) FROM api_keys k WHERE k.project_id = projects.id \
         AND k.revoked_at IS NULL) AS active_key_count FROM projects WHERE id = $1",
    )
    .bind(id.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read_project(&row)).transpose()
}

/// The Project as it is inside a unit; missing ones are refused.
async fn existing(tx: &mut Tx<'_>, id: ProjectId) -> Result<Project, UnitError<ProjectRefusal>> {
    project(tx.conn, id)
        .await?
        .ok_or(UnitError::Refused(ProjectRefusal::NotFound))
}

/// Makes a Project (OPS-021). The name was checked.
#[derive(Debug, Clone)]
pub struct CreateProject {
    /// Identity.
    pub id: ProjectId,
    /// Label.
    pub name: String,
    /// Who; none at the first start of an installation.
    pub by: Option<Administrator>,
}

impl Unit for CreateProject {
    const NAME: &'static str = "CreateProject";
    const LEASED: bool = false;
    type Answer = Project;
    type Refusal = ProjectRefusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Project, UnitError<ProjectRefusal>> {
        let now = tx.now().await?;
        sqlx::query("INSERT INTO projects (id, name, created_at) VALUES ($1, $2, $3)")
            .bind(self.id.to_string())
            .bind(self.name.clone())
            .bind(now.millis())
            .execute(&mut *tx.conn)
            .await?;
        record(
            tx,
            self.id,
            self.by.as_ref(),
            Operation::new("create", "project", self.id),
        )
        .await?;
        existing(tx, self.id).await
    }
}

/// Renames a Project (OPS-022).
#[derive(Debug, Clone)]
pub struct RenameProject {
    /// Identity.
    pub id: ProjectId,
    /// New label.
    pub name: String,
    /// Who.
    pub by: Option<Administrator>,
}

impl Unit for RenameProject {
    const NAME: &'static str = "RenameProject";
    const LEASED: bool = false;
    type Answer = Project;
    type Refusal = ProjectRefusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Project, UnitError<ProjectRefusal>> {
        sqlx::query("UPDATE projects SET name = $2 WHERE id = $1")
            .bind(self.id.to_string())
            .bind(self.name.clone())
            .execute(&mut *tx.conn)
            .await?;
        let project = existing(tx, self.id).await?;
        record(
            tx,
            self.id,
            self.by.as_ref(),
            Operation::new("rename", "project", self.id),
        )
        .await?;
        Ok(project)
    }
}

/// Archives a Project and revokes all its keys in one transaction (OPS-035). Repeating it keeps the first time.
#[derive(Debug, Clone)]
pub struct ArchiveProject {
    /// Identity.
    pub id: ProjectId,
    /// Who.
    pub by: Option<Administrator>,
}

impl Unit for ArchiveProject {
    const NAME: &'static str = "ArchiveProject";
    const LEASED: bool = false;
    type Answer = Project;
    type Refusal = ProjectRefusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Project, UnitError<ProjectRefusal>> {
        let now = tx.now().await?.millis();
        let done = sqlx::query(
            "UPDATE projects SET archived_at = $2 WHERE id = $1 AND archived_at IS NULL",
        )
        .bind(self.id.to_string())
        .bind(now)
        .execute(&mut *tx.conn)
        .await?;
        if done.rows_affected() == 1 {
            sqlx::query(
                "UPDATE api_keys SET revoked_at = $2 WHERE project_id = $1 AND revoked_at IS NULL",
            )
            .bind(self.id.to_string())
            .bind(now)
            .execute(&mut *tx.conn)
            .await?;
            record(
                tx,
                self.id,
                self.by.as_ref(),
                Operation::new("archive", "project", self.id),
            )
            .await?;
        }
        existing(tx, self.id).await
    }
}

/// Stores the digest of a new key (OPS-025).
#[derive(Debug, Clone)]
pub struct IssueApiKey {
    /// Identity.
    pub id: KeyId,
    /// Its Project.
    pub project: ProjectId,
    /// Label.
    pub name: String,
    /// First characters.
    pub prefix: String,
    /// Digest of the whole key.
    pub digest: Digest,
    /// Who; none at the first start of an installation.
    pub by: Option<Administrator>,
}

impl Unit for IssueApiKey {
    const NAME: &'static str = "IssueApiKey";
    const LEASED: bool = false;
    type Answer = ApiKey;
    type Refusal = ProjectRefusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<ApiKey, UnitError<ProjectRefusal>> {
        // The row is locked first: an archive that commits meanwhile would not see this key, and leave it alive.
        sqlx::query("UPDATE projects SET name = name WHERE id = $1")
            .bind(self.project.to_string())
            .execute(&mut *tx.conn)
            .await?;
        let now = tx.now().await?;
        let done = sqlx::query(
            "INSERT INTO api_keys (id, project_id, name, prefix, digest, created_at) \
             SELECT $1, id, $3, $4, $5, $6 FROM projects WHERE id = $2 AND archived_at IS NULL",
        )
        .bind(self.id.to_string())
        .bind(self.project.to_string())
        .bind(self.name.clone())
        .bind(self.prefix.clone())
        .bind(self.digest.to_string())
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        if done.rows_affected() == 0 {
            existing(tx, self.project).await?;
            return Err(UnitError::Refused(ProjectRefusal::Archived));
        }
        let mut operation = Operation::new("create", "api_key", self.id);
        operation.parent_id = Some(self.project.to_string());
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(ApiKey {
            id: self.id,
            project_id: self.project,
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            created_at: now,
            revoked_at: None,
        })
    }
}

/// Revokes a key (OPS-026); takes effect on the next request (W-AUTH-2). Repeating it changes nothing.
#[derive(Debug, Clone)]
pub struct RevokeApiKey {
    /// The key.
    pub id: KeyId,
    /// Its Project.
    pub project: ProjectId,
    /// Who.
    pub by: Option<Administrator>,
}

impl Unit for RevokeApiKey {
    const NAME: &'static str = "RevokeApiKey";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = ProjectRefusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<ProjectRefusal>> {
        let now = tx.now().await?;
        let known =
            sqlx::query("SELECT revoked_at FROM api_keys WHERE id = $1 AND project_id = $2")
                .bind(self.id.to_string())
                .bind(self.project.to_string())
                .fetch_optional(&mut *tx.conn)
                .await?
                .ok_or(UnitError::Refused(ProjectRefusal::NotFound))?;
        if known.try_get::<Option<i64>, _>("revoked_at")?.is_some() {
            return Ok(());
        }
        sqlx::query("UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL")
            .bind(self.id.to_string())
            .bind(now.millis())
            .execute(&mut *tx.conn)
            .await?;
        let mut operation = Operation::new("revoke", "api_key", self.id);
        operation.parent_id = Some(self.project.to_string());
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(())
    }
}

async fn record(
    tx: &mut Tx<'_>,
    project: ProjectId,
    by: Option<&Administrator>,
    operation: Operation,
) -> Result<(), StoreError> {
    match by {
        Some(by) => audit(tx, Some(project), by, operation).await,
        None => Ok(()),
    }
}
