//! Skills and their versions (`files-skills-vaults.md` 2). The row of a Skill is the lock that orders uploads, deletions and
//! moves of its default (ENV-541, SKL-023).

use domain::{
    ProjectId, Refusal, SkillId, SkillVersionId, Timestamp,
    blob::{BlobOwner, BlobRef, BlobScope},
    skill::{Manifest, Skill, SkillVersion},
};
use sqlx::{Row, any::AnyRow};

use crate::{
    blob_references,
    conn::Conn,
    convert::{count_column, id_column, int, parse_id},
    error::{StoreError, UnitError},
    provenance::{Author, Operation, Provenance, record},
    retries::{Creation, Namespace},
    tx::Tx,
    unit::Unit,
};

/// Reads a row of `skill_versions`.
pub(crate) fn read_version(row: &AnyRow, project: ProjectId) -> Result<SkillVersion, StoreError> {
    const TABLE: &str = "skill_versions";
    let id = id_column(row, TABLE, "version_id")?;
    let skill = id_column(row, TABLE, "skill_id")?;
    let scope = BlobScope {
        project,
        owner: BlobOwner::SkillVersion { skill, version: id },
    };
    let digest = id_column(row, TABLE, "digest")?;
    Ok(SkillVersion {
        id,
        skill,
        number: count_column(row, TABLE, "number")?,
        created_at: Timestamp::from_millis(row.try_get("uploaded_at")?),
        manifest: Manifest {
            name: row.try_get("name")?,
            description: row.try_get("description")?,
        },
        bundle: scope.stored(digest, count_column(row, TABLE, "size")?),
    })
}

/// Reads a Skill joined with its default version.
pub(crate) fn read(row: &AnyRow, project: ProjectId) -> Result<Skill, StoreError> {
    Ok(Skill {
        id: id_column(row, "skills", "skill_id")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        default: read_version(row, project)?,
        latest: count_column(row, "skills", "latest")?,
    })
}

/// A Skill of a Project.
pub(crate) async fn get(
    conn: &mut Conn,
    project: ProjectId,
    id: SkillId,
) -> Result<Option<Skill>, StoreError> {
    let row = sqlx::query(
        "SELECT s.created_at, v.id AS version_id, v.skill_id, v.number, v.name, v.description, v.digest, v.size, \
         v.created_at AS uploaded_at, (SELECT MAX(l.number) FROM skill_versions l WHERE l.skill_id = s.id) AS latest \
         FROM skills s JOIN skill_versions v ON v.skill_id = s.id AND v.number = s.default_version \
         WHERE s.id = $1 AND s.project_id = $2",
    )
    .bind(id.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read(&row, project)).transpose()
}

/// A version of a Skill of a Project.
pub(crate) async fn version(
    conn: &mut Conn,
    project: ProjectId,
    skill: SkillId,
    number: u64,
) -> Result<Option<SkillVersion>, StoreError> {
    let row = sqlx::query(
        "SELECT v.id AS version_id, v.skill_id, v.number, v.name, v.description, v.digest, v.size, \
         v.created_at AS uploaded_at FROM skill_versions v JOIN skills s ON s.id = v.skill_id \
         WHERE v.skill_id = $1 AND v.number = $2 AND s.project_id = $3",
    )
    .bind(skill.to_string())
    .bind(int(number)?)
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read_version(&row, project)).transpose()
}

async fn version_by_id(
    conn: &mut Conn,
    project: ProjectId,
    id: SkillVersionId,
) -> Result<Option<SkillVersion>, StoreError> {
    let row = sqlx::query(
        "SELECT v.id AS version_id, v.skill_id, v.number, v.name, v.description, v.digest, v.size, \
         v.created_at AS uploaded_at FROM skill_versions v JOIN skills s ON s.id = v.skill_id \
         WHERE v.id = $1 AND s.project_id = $2",
    )
    .bind(id.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read_version(&row, project)).transpose()
}

async fn add_version(
    tx: &mut Tx<'_>,
    upload: &Upload,
    number: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO skill_versions (id, skill_id, number, name, description, digest, size, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(upload.version.to_string())
    .bind(upload.skill.to_string())
    .bind(int(number)?)
    .bind(upload.manifest.name.clone())
    .bind(upload.manifest.description.clone())
    .bind(upload.bundle.digest.to_string())
    .bind(int(upload.bundle.size)?)
    .bind(now.millis())
    .execute(&mut *tx.conn)
    .await?;
    blob_references::add(tx.conn, &upload.bundle, &upload.version.to_string()).await
}

/// A checked bundle whose bytes are stored.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The Skill.
    pub skill: SkillId,
    /// Identity of the version.
    pub version: SkillVersionId,
    /// What it says about itself.
    pub manifest: Manifest,
    /// Its bytes.
    pub bundle: BlobRef,
}

/// Makes a Skill of its first version (SKL-001).
#[derive(Debug, Clone)]
pub struct CreateSkill {
    /// The bundle; its owner is the Project.
    pub upload: Upload,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for CreateSkill {
    const NAME: &'static str = "CreateSkill";
    const LEASED: bool = false;
    type Answer = Skill;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Skill, UnitError<Refusal>> {
        let (now, project, id) = (
            tx.now().await?,
            self.upload.bundle.project,
            self.upload.skill,
        );
        sqlx::query(
            "INSERT INTO skills (id, project_id, default_version, last_number, created_at) VALUES ($1, $2, 1, 1, $3)",
        )
        .bind(id.to_string())
        .bind(project.to_string())
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        add_version(tx, &self.upload, 1, now).await?;
        record(
            tx,
            project,
            self.provenance.as_ref(),
            Operation::new("create", "skill", id),
        )
        .await?;
        found(get(tx.conn, project, id).await?)
    }
}

impl Creation for CreateSkill {
    fn makes(&self) -> (ProjectId, Namespace, String) {
        (
            self.upload.bundle.project,
            Namespace::Skill,
            self.upload.skill.to_string(),
        )
    }

    async fn find(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<Skill>, StoreError> {
        let id = parse_id(id, "retries", "resource_id")?;
        get(tx.conn, self.upload.bundle.project, id).await
    }
}

/// Adds a version (SKL-002).
#[derive(Debug, Clone)]
pub struct UploadSkillVersion {
    /// The bundle; its owner is the Project.
    pub upload: Upload,
    /// Also makes it the default.
    pub default: bool,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for UploadSkillVersion {
    const NAME: &'static str = "UploadSkillVersion";
    const LEASED: bool = false;
    type Answer = SkillVersion;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<SkillVersion, UnitError<Refusal>> {
        let (project, skill) = (self.upload.bundle.project, self.upload.skill);
        let number = lock(tx, project, skill, 1).await?;
        let now = tx.now().await?;
        add_version(tx, &self.upload, number, now).await?;
        if self.default {
            set_default(tx, skill, number).await?;
        }
        let operation = Operation::new("upload_version", "skill_version", self.upload.version);
        let operation = operation.of(skill);
        record(tx, project, self.provenance.as_ref(), operation).await?;
        found(version(tx.conn, project, skill, number).await?)
    }
}

impl Creation for UploadSkillVersion {
    fn makes(&self) -> (ProjectId, Namespace, String) {
        (
            self.upload.bundle.project,
            Namespace::SkillVersion(self.upload.skill),
            self.upload.version.to_string(),
        )
    }

    async fn find(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<SkillVersion>, StoreError> {
        let id = parse_id(id, "retries", "resource_id")?;
        version_by_id(tx.conn, self.upload.bundle.project, id).await
    }
}

/// Moves the default (SKL-004); name and description of the Skill move with it.
#[derive(Debug, Clone)]
pub struct SetDefaultSkillVersion {
    /// Owner.
    pub project: ProjectId,
    /// The Skill.
    pub skill: SkillId,
    /// An existing version.
    pub number: u64,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for SetDefaultSkillVersion {
    const NAME: &'static str = "SetDefaultSkillVersion";
    const LEASED: bool = false;
    type Answer = Skill;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Skill, UnitError<Refusal>> {
        lock(tx, self.project, self.skill, 0).await?;
        found(version(tx.conn, self.project, self.skill, self.number).await?)?;
        set_default(tx, self.skill, self.number).await?;
        let operation = Operation::new("update_default_version", "skill", self.skill);
        record(tx, self.project, self.provenance.as_ref(), operation).await?;
        found(get(tx.conn, self.project, self.skill).await?)
    }
}

/// Deletes a Skill and its versions (SKL-005). Sessions that installed one keep it (SKL-044).
#[derive(Debug, Clone)]
pub struct DeleteSkill {
    /// Owner.
    pub project: ProjectId,
    /// The Skill.
    pub skill: SkillId,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteSkill {
    const NAME: &'static str = "DeleteSkill";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Refusal>> {
        lock(tx, self.project, self.skill, 0).await?;
        remove(tx, self.skill).await?;
        let operation = Operation::new("delete", "skill", self.skill);
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(())
    }
}

/// Deletes a version (SKL-040 to SKL-043); with the only one the Skill goes. Answers its identity.
#[derive(Debug, Clone)]
pub struct DeleteSkillVersion {
    /// Owner.
    pub project: ProjectId,
    /// The Skill.
    pub skill: SkillId,
    /// The version.
    pub number: u64,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteSkillVersion {
    const NAME: &'static str = "DeleteSkillVersion";
    const LEASED: bool = false;
    type Answer = SkillVersionId;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<SkillVersionId, UnitError<Refusal>> {
        lock(tx, self.project, self.skill, 0).await?;
        let skill = found(get(tx.conn, self.project, self.skill).await?)?;
        let gone = found(version(tx.conn, self.project, self.skill, self.number).await?)?;
        let row =
            sqlx::query("SELECT COUNT(*) AS versions FROM skill_versions WHERE skill_id = $1")
                .bind(self.skill.to_string())
                .fetch_one(&mut *tx.conn)
                .await?;
        let is_only = count_column(&row, "skill_versions", "versions")? == 1;
        match (skill.default.number == self.number, is_only) {
            (true, false) => return Err(UnitError::Refused(Refusal::DefaultSkillVersion)),
            (_, true) => remove(tx, self.skill).await?,
            (false, false) => {
                blob_references::release(tx.conn, &gone.id.to_string()).await?;
                sqlx::query("DELETE FROM skill_versions WHERE id = $1")
                    .bind(gone.id.to_string())
                    .execute(&mut *tx.conn)
                    .await?;
            }
        }
        let operation = Operation::new("delete", "skill_version", gone.id).of(self.skill);
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(gone.id)
    }
}

/// Takes the row lock of a Skill by writing to it, and hands out so many numbers. Answers the last one given out ever.
async fn lock(
    tx: &mut Tx<'_>,
    project: ProjectId,
    skill: SkillId,
    numbers: i64,
) -> Result<u64, UnitError<Refusal>> {
    let row = sqlx::query(
        "UPDATE skills SET last_number = last_number + $3 WHERE id = $1 AND project_id = $2 RETURNING last_number",
    )
    .bind(skill.to_string())
    .bind(project.to_string())
    .bind(numbers)
    .fetch_optional(&mut *tx.conn)
    .await?;
    tx.forget_clock();
    let row = found(row)?;
    Ok(count_column(&row, "skills", "last_number")?)
}

async fn set_default(tx: &mut Tx<'_>, skill: SkillId, number: u64) -> Result<(), StoreError> {
    sqlx::query("UPDATE skills SET default_version = $2 WHERE id = $1")
        .bind(skill.to_string())
        .bind(int(number)?)
        .execute(&mut *tx.conn)
        .await?;
    Ok(())
}

/// Removes a Skill whose lock is held.
async fn remove(tx: &mut Tx<'_>, skill: SkillId) -> Result<(), StoreError> {
    for statement in [
        "DELETE FROM blob_references WHERE holder IN (SELECT id FROM skill_versions WHERE skill_id = $1)",
        "DELETE FROM skill_versions WHERE skill_id = $1",
        "DELETE FROM skills WHERE id = $1",
    ] {
        sqlx::query(statement)
            .bind(skill.to_string())
            .execute(&mut *tx.conn)
            .await?;
    }
    Ok(())
}

fn found<T>(row: Option<T>) -> Result<T, UnitError<Refusal>> {
    row.ok_or(UnitError::Refused(Refusal::NotFound))
}
