//! Saved Agents (sessions.md 1). The provider's key is sealed beside the row (MDL-028).

use domain::{
    AgentId, ProjectId, Refusal, Secret, Timestamp,
    agent::{AgentConfiguration, AgentExtension, AgentPatch, KeyChange, SavedAgent},
    metadata::Metadata,
};
use seal::{Binding, KeyRing, Purpose};
use serde::{Deserialize, Serialize};
use sqlx::{Row, any::AnyRow};

use crate::{
    conn::Conn,
    convert::{id_column, json_column, parse_id, to_json},
    error::{StoreError, UnitError},
    provenance::{Author, Operation, Provenance, record},
    retries::{Creation, Namespace},
    tx::Tx,
    unit::Unit,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: Option<String>,
    metadata: Metadata,
    configuration: AgentConfiguration,
    extension: AgentExtension,
}

pub(crate) fn read(row: &AnyRow) -> Result<SavedAgent, StoreError> {
    let body: Body = json_column(row, "agents", "body")?;
    Ok(SavedAgent {
        id: id_column(row, "agents", "id")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        updated_at: Timestamp::from_millis(row.try_get("updated_at")?),
        name: body.name,
        metadata: body.metadata,
        configuration: body.configuration,
        extension: body.extension,
    })
}

fn body(agent: &SavedAgent) -> Result<String, StoreError> {
    to_json(&Body {
        name: agent.name.clone(),
        metadata: agent.metadata.clone(),
        configuration: agent.configuration.clone(),
        extension: agent.extension.clone(),
    })
}

/// A live Agent of a Project.
pub(crate) async fn get(
    conn: &mut Conn,
    project: ProjectId,
    id: AgentId,
) -> Result<Option<SavedAgent>, StoreError> {
    let row = sqlx::query(
        "SELECT id, body, created_at, updated_at FROM agents WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
    )
    .bind(id.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read(&row)).transpose()
}

/// The provider key of a live Agent; fails closed if it does not open (MDL-031).
pub(crate) async fn provider_key(
    conn: &mut Conn,
    keys: &KeyRing,
    project: ProjectId,
    id: AgentId,
) -> Result<Option<Secret>, StoreError> {
    let row = sqlx::query("SELECT sealed_provider FROM agents WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL")
        .bind(id.to_string())
        .bind(project.to_string())
        .fetch_optional(conn)
        .await?;
    let Some(sealed) = row
        .map(|row| row.try_get::<Option<Vec<u8>>, _>("sealed_provider"))
        .transpose()?
        .flatten()
    else {
        return Ok(None);
    };
    let (project, id) = (project.to_string(), id.to_string());
    let owner = [project.as_str(), id.as_str()];
    let plain = keys.open(&Binding::new(Purpose::AgentProvider, &owner), &sealed)?;
    Ok(Some(Secret::new(plain.as_slice())))
}

fn sealed(
    keys: &KeyRing,
    project: ProjectId,
    id: AgentId,
    key: &Secret,
) -> Result<Vec<u8>, StoreError> {
    let (project, id) = (project.to_string(), id.to_string());
    let owner = [project.as_str(), id.as_str()];
    Ok(keys.seal(&Binding::new(Purpose::AgentProvider, &owner), key.expose())?)
}

/// Saves a new Agent. Its times are taken from the database clock.
#[derive(Debug)]
pub struct CreateAgent {
    /// Owner.
    pub project: ProjectId,
    /// The Agent; both times are replaced.
    pub agent: SavedAgent,
    /// Key of its provider.
    pub provider_key: Option<Secret>,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for CreateAgent {
    const NAME: &'static str = "CreateAgent";
    const LEASED: bool = false;
    type Answer = SavedAgent;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<SavedAgent, UnitError<Refusal>> {
        let now = tx.now().await?;
        let agent = SavedAgent {
            created_at: now,
            updated_at: now,
            ..self.agent.clone()
        };
        let key = self
            .provider_key
            .as_ref()
            .map(|key| sealed(&tx.keys, self.project, agent.id, key))
            .transpose()?;
        sqlx::query(
            "INSERT INTO agents (id, project_id, body, sealed_provider, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(agent.id.to_string())
        .bind(self.project.to_string())
        .bind(body(&agent)?)
        .bind(key)
        .bind(now.millis())
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        record(
            tx,
            self.project,
            self.provenance.as_ref(),
            Operation::new("create", "agent", agent.id),
        )
        .await?;
        Ok(agent)
    }
}

impl Creation for CreateAgent {
    fn makes(&self) -> (ProjectId, Namespace, String) {
        (self.project, Namespace::Agent, self.agent.id.to_string())
    }

    async fn find(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<SavedAgent>, StoreError> {
        let id = parse_id(id, "retries", "resource_id")?;
        get(tx.conn, self.project, id).await
    }
}

/// Changes the members that the patch names (S-AG-10).
#[derive(Debug, Clone)]
pub struct UpdateAgent {
    /// Owner.
    pub project: ProjectId,
    /// The Agent.
    pub id: AgentId,
    /// The parsed patch.
    pub patch: AgentPatch,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for UpdateAgent {
    const NAME: &'static str = "UpdateAgent";
    const LEASED: bool = false;
    type Answer = SavedAgent;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<SavedAgent, UnitError<Refusal>> {
        // The write comes first: on PostgreSQL it is the lock that orders two updates.
        let now = tx.lock_row(LOCK, self.id, self.project).await?;
        let mut agent = get(tx.conn, self.project, self.id)
            .await?
            .ok_or(UnitError::Refused(Refusal::NotFound))?;
        let change = agent.update(self.patch.clone(), now);
        sqlx::query("UPDATE agents SET body = $2, updated_at = $3 WHERE id = $1")
            .bind(self.id.to_string())
            .bind(body(&agent)?)
            .bind(now.millis())
            .execute(&mut *tx.conn)
            .await?;
        let key = match change {
            KeyChange::Keep => None,
            KeyChange::Clear => Some(None),
            KeyChange::Replace(key) => Some(Some(sealed(&tx.keys, self.project, self.id, &key)?)),
        };
        if let Some(key) = key {
            sqlx::query("UPDATE agents SET sealed_provider = $2 WHERE id = $1")
                .bind(self.id.to_string())
                .bind(key)
                .execute(&mut *tx.conn)
                .await?;
        }
        record(
            tx,
            self.project,
            self.provenance.as_ref(),
            Operation::new("update", "agent", self.id),
        )
        .await?;
        Ok(agent)
    }
}

/// Deletes an Agent (S-AG-12); its Sessions live on.
#[derive(Debug, Clone)]
pub struct DeleteAgent {
    /// Owner.
    pub project: ProjectId,
    /// The Agent.
    pub id: AgentId,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteAgent {
    const NAME: &'static str = "DeleteAgent";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Refusal>> {
        let now = tx.lock_row(LOCK, self.id, self.project).await?;
        sqlx::query("UPDATE agents SET deleted_at = $2, sealed_provider = NULL WHERE id = $1")
            .bind(self.id.to_string())
            .bind(now.millis())
            .execute(&mut *tx.conn)
            .await?;
        record(
            tx,
            self.project,
            self.by.as_ref(),
            Operation::new("delete", "agent", self.id),
        )
        .await?;
        Ok(())
    }
}

/// Takes the row lock and reads the clock under it.
const LOCK: &str = "UPDATE agents SET updated_at = updated_at WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL";
