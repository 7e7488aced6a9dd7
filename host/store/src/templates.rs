//! Environment Templates (`environments.md` 10). What may be shown is in clear; variables and setup commands are sealed, each
//! for its purpose (KEY-006); inline bytes are blobs that the Template keeps.

use domain::{
    FileId, ProjectId, Refusal, Secret, SkillId, TemplateId, Timestamp,
    blob::BlobRef,
    preparation::{Confidential, InitialFile, Preparation, SetupCommand, SkillSource, Variables},
    skill::Selector,
    template::{Template, TemplatePatch},
};
use seal::{Binding, KeyRing, Purpose};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Row, any::AnyRow};

use crate::{
    blob_references,
    conn::Conn,
    convert::{id_column, json_column, parse_id, to_json},
    error::{StoreError, UnitError},
    files,
    provenance::{Author, Operation, Provenance, record},
    retries::{Creation, Namespace},
    skills,
    tx::Tx,
    unit::Unit,
};

const TABLE: &str = "templates";

pub(crate) fn read(row: &AnyRow) -> Result<Template, StoreError> {
    Ok(Template {
        id: id_column(row, TABLE, "id")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        updated_at: Timestamp::from_millis(row.try_get("updated_at")?),
        name: row.try_get("name")?,
        preparation: json_column(row, TABLE, "body")?,
    })
}

/// A Template of a Project, without its confidential part.
pub(crate) async fn get(
    conn: &mut Conn,
    project: ProjectId,
    id: TemplateId,
) -> Result<Option<Template>, StoreError> {
    let row = sqlx::query(
        "SELECT id, name, body, created_at, updated_at FROM templates WHERE id = $1 AND project_id = $2",
    )
    .bind(id.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read(&row)).transpose()
}

/// A Template with its confidential part, at the point of use.
pub(crate) async fn opened(
    conn: &mut Conn,
    keys: &KeyRing,
    project: ProjectId,
    id: TemplateId,
) -> Result<Option<(Template, Confidential)>, StoreError> {
    let row = sqlx::query(
        "SELECT id, name, body, created_at, updated_at, sealed_variables, sealed_setup FROM templates \
         WHERE id = $1 AND project_id = $2",
    )
    .bind(id.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let open = Seal { keys, project, id };
    let confidential = Confidential {
        env: open.open::<Variables>(
            Purpose::EnvironmentVariables,
            row.try_get("sealed_variables")?,
        )?,
        setup_commands: open
            .open::<Vec<SetupCommand>>(Purpose::EnvironmentSetup, row.try_get("sealed_setup")?)?,
    };
    Ok(Some((read(&row)?, confidential)))
}

/// Seals and opens one Template's values. Nothing to hide is no value.
struct Seal<'a> {
    keys: &'a KeyRing,
    project: ProjectId,
    id: TemplateId,
}

impl Seal<'_> {
    fn seal<T: Serialize + Default + PartialEq>(
        &self,
        purpose: Purpose,
        value: &T,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if *value == T::default() {
            return Ok(None);
        }
        let plain = Secret::from(to_json(value)?);
        let (project, id) = (self.project.to_string(), self.id.to_string());
        let owner = [project.as_str(), id.as_str()];
        let sealed = self
            .keys
            .seal(&Binding::new(purpose, &owner), plain.expose())?;
        Ok(Some(sealed))
    }

    fn open<T: DeserializeOwned + Default>(
        &self,
        purpose: Purpose,
        sealed: Option<Vec<u8>>,
    ) -> Result<T, StoreError> {
        let Some(sealed) = sealed else {
            return Ok(T::default());
        };
        let (project, id) = (self.project.to_string(), self.id.to_string());
        let owner = [project.as_str(), id.as_str()];
        let plain = self.keys.open(&Binding::new(purpose, &owner), &sealed)?;
        serde_json::from_slice(plain.as_slice()).map_err(|_| StoreError::Corrupt {
            table: TABLE,
            column: "sealed",
        })
    }
}

/// Saves a new Template. Its times are taken from the database clock.
#[derive(Debug, Clone)]
pub struct CreateTemplate {
    /// Owner.
    pub project: ProjectId,
    /// Identity.
    pub id: TemplateId,
    /// What it holds; its inline bytes are stored.
    pub patch: TemplatePatch<BlobRef>,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for CreateTemplate {
    const NAME: &'static str = "CreateTemplate";
    const LEASED: bool = false;
    type Answer = Template;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Template, UnitError<Refusal>> {
        let now = tx.now().await?;
        let mut template = Template {
            id: self.id,
            created_at: now,
            updated_at: now,
            name: None,
            preparation: Preparation::default(),
        };
        let mut confidential = Confidential::default();
        template.update(&mut confidential, self.patch.clone(), now);
        check_references(tx, self.project, &self.patch).await?;
        sqlx::query(
            "INSERT INTO templates (id, project_id, name, body, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5)",
        )
        .bind(self.id.to_string())
        .bind(self.project.to_string())
        .bind(template.name.clone())
        .bind(to_json(&template.preparation)?)
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        put(tx, self.project, &template, &confidential).await?;
        let operation = Operation::new("create", "environment_template", self.id);
        record(tx, self.project, self.provenance.as_ref(), operation).await?;
        Ok(template)
    }
}

impl Creation for CreateTemplate {
    fn makes(&self) -> (ProjectId, Namespace, String) {
        (self.project, Namespace::Template, self.id.to_string())
    }

    async fn find(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<Template>, StoreError> {
        let id = parse_id(id, "retries", "resource_id")?;
        get(tx.conn, self.project, id).await
    }
}

/// Changes what the patch names (ENV-441, ENV-442). Sessions made of it before keep what they froze (ENV-445).
#[derive(Debug, Clone)]
pub struct UpdateTemplate {
    /// Owner.
    pub project: ProjectId,
    /// The Template.
    pub id: TemplateId,
    /// The parsed patch; its inline bytes are stored.
    pub patch: TemplatePatch<BlobRef>,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for UpdateTemplate {
    const NAME: &'static str = "UpdateTemplate";
    const LEASED: bool = false;
    type Answer = Template;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Template, UnitError<Refusal>> {
        let now = tx.lock_row(LOCK, self.id, self.project).await?;
        let keys = tx.keys.clone();
        let found = opened(tx.conn, &keys, self.project, self.id).await?;
        let (mut template, mut confidential) =
            found.ok_or(UnitError::Refused(Refusal::NotFound))?;
        template.update(&mut confidential, self.patch.clone(), now);
        check_references(tx, self.project, &self.patch).await?;
        put(tx, self.project, &template, &confidential).await?;
        let operation = Operation::new("update", "environment_template", self.id);
        record(tx, self.project, self.provenance.as_ref(), operation).await?;
        Ok(template)
    }
}

/// Deletes a Template; Sessions made of it live on (ENV-445).
#[derive(Debug, Clone)]
pub struct DeleteTemplate {
    /// Owner.
    pub project: ProjectId,
    /// The Template.
    pub id: TemplateId,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteTemplate {
    const NAME: &'static str = "DeleteTemplate";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Refusal>> {
        tx.lock_row(LOCK, self.id, self.project).await?;
        blob_references::release(tx.conn, &self.id.to_string()).await?;
        sqlx::query("DELETE FROM templates WHERE id = $1")
            .bind(self.id.to_string())
            .execute(&mut *tx.conn)
            .await?;
        let operation = Operation::new("delete", "environment_template", self.id);
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(())
    }
}

/// Takes the row lock and reads the clock under it.
const LOCK: &str = "UPDATE templates SET updated_at = updated_at WHERE id = $1 AND project_id = $2";

/// Writes a whole Template whose row exists, and what it keeps.
async fn put(
    tx: &mut Tx<'_>,
    project: ProjectId,
    template: &Template,
    confidential: &Confidential,
) -> Result<(), StoreError> {
    let keys = tx.keys.clone();
    let seal = Seal {
        keys: &keys,
        project,
        id: template.id,
    };
    sqlx::query(
        "UPDATE templates SET name = $2, body = $3, sealed_variables = $4, sealed_setup = $5, updated_at = $6 WHERE id = $1",
    )
    .bind(template.id.to_string())
    .bind(template.name.clone())
    .bind(to_json(&template.preparation)?)
    .bind(seal.seal(Purpose::EnvironmentVariables, &confidential.env)?)
    .bind(seal.seal(Purpose::EnvironmentSetup, &confidential.setup_commands)?)
    .bind(template.updated_at.millis())
    .execute(&mut *tx.conn)
    .await?;
    let holder = template.id.to_string();
    blob_references::release(tx.conn, &holder).await?;
    for blob in template.preparation.inline() {
        blob_references::add(tx.conn, blob, &holder).await?;
    }
    Ok(())
}

/// What a request names exists now, in its Project (W-ID-4); it may go later (SKL-044).
async fn check_references(
    tx: &mut Tx<'_>,
    project: ProjectId,
    patch: &TemplatePatch<BlobRef>,
) -> Result<(), UnitError<Refusal>> {
    let mut preparation = Preparation::default();
    preparation.update(&mut Confidential::default(), patch.preparation.clone());
    let missing = || UnitError::Refused(Refusal::NotFound);
    for file in &preparation.files {
        if let InitialFile::FileId { file_id, .. } = file {
            let id = file_id.parse().unwrap_or(FileId::NEVER);
            let found = files::get(tx.conn, project, id).await?;
            found.ok_or_else(missing)?;
        }
    }
    for skill in &preparation.skills {
        if let SkillSource::SkillReference { skill_id, version } = skill {
            let id = skill_id.parse().unwrap_or(SkillId::NEVER);
            let found = skills::get(tx.conn, project, id).await?;
            found.ok_or_else(missing)?;
            if let Some(Selector::Number(number)) = version.as_deref().and_then(Selector::parse) {
                let found = skills::version(tx.conn, project, id, number).await?;
                found.ok_or_else(missing)?;
            }
        }
    }
    Ok(())
}
