//! Who may do what: Projects, keys, devices; and the resources of a Project besides Sessions.

use domain::{
    AgentId, Digest, KeyId, ProjectId, Secret, SessionId,
    agent::SavedAgent,
    binding::{Binding, Device},
    selection::Selection,
};

use super::{
    Reader,
    list::{List, ListError, ListSql, Page, list_sql, page},
};
use crate::{
    agents,
    conn::Conn,
    convert::{id_column, optional_json_column},
    devices,
    error::StoreError,
    model_defaults::{self, ModelDefault},
    projects::{self, ApiKey, Project, read_key, read_project},
    provider_state::{self, StateKey},
    selections,
};

/// The caller of a public request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its Project.
    pub project: ProjectId,
    /// The key.
    pub key: KeyId,
}

/// A device that presents its credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRecord {
    /// The device.
    pub device: Device,
    /// Session of its Environment; none for a shared Runtime.
    pub session: Option<SessionId>,
    /// Project of that Session.
    pub project: Option<ProjectId>,
    /// Binding of that Session.
    pub binding: Option<Binding>,
}

macro_rules! projects_list {
    () => {
        ListSql {
            cursor: "SELECT CAST(0 AS BIGINT) AS number, id FROM projects WHERE $1 = '' AND id = $2",
            ascending: "SELECT id, name, created_at, archived_at, (SELECT count(*) FROM api_keys k \
                        WHERE k.project_id = projects.id AND k.revoked_at IS NULL) AS active_key_count FROM projects \
                        WHERE $1 = '' AND (CAST(0 AS BIGINT), id) > ($2, $3) ORDER BY id LIMIT $4",
            descending: "SELECT id, name, created_at, archived_at, (SELECT count(*) FROM api_keys k \
                         WHERE k.project_id = projects.id AND k.revoked_at IS NULL) AS active_key_count FROM projects \
                         WHERE $1 = '' AND (CAST(0 AS BIGINT), id) < ($2, $3) ORDER BY id DESC LIMIT $4",
        }
    };
}

impl Reader<'_> {
    /// The caller that presents a key with this digest: the key is not revoked, its Project not archived (W-AUTH-5).
    ///
    /// # Errors
    /// What the database says; then nobody is let in (W-AUTH-7).
    pub async fn authenticate(&self, digest: Digest) -> Result<Option<Caller>, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT k.id, k.project_id FROM api_keys k JOIN projects p ON p.id = k.project_id \
             WHERE k.digest = $1 AND k.revoked_at IS NULL AND p.archived_at IS NULL",
        )
        .bind(digest.to_string())
        .fetch_optional(&mut conn)
        .await?;
        row.map(|row| {
            Ok(Caller {
                project: id_column(&row, "api_keys", "project_id")?,
                key: id_column(&row, "api_keys", "id")?,
            })
        })
        .transpose()
    }

    /// Whether a key is still valid: what open streams ask once a second (S-LS-5).
    ///
    /// # Errors
    /// What the database says.
    pub async fn key_is_valid(&self, key: KeyId) -> Result<bool, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT k.id FROM api_keys k JOIN projects p ON p.id = k.project_id \
             WHERE k.id = $1 AND k.revoked_at IS NULL AND p.archived_at IS NULL",
        )
        .bind(key.to_string())
        .fetch_optional(&mut conn)
        .await?;
        Ok(row.is_some())
    }

    /// One Project, archived ones included.
    ///
    /// # Errors
    /// What the database says.
    pub async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        let mut conn = self.connection().await?;
        projects::project(&mut conn, id).await
    }

    /// Projects by id (OPS-032).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn projects(&self, list: &List) -> Result<Page<Project>, ListError> {
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        page(&mut conn, &projects_list!(), "", None, list, read_project).await
    }

    /// Keys of a Project by id, revoked ones included.
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn api_keys(
        &self,
        project: ProjectId,
        list: &List,
    ) -> Result<Page<ApiKey>, ListError> {
        let sql = list_sql!(
            "id, project_id, name, prefix, created_at, revoked_at",
            "api_keys WHERE project_id = $1",
            "CAST(0 AS BIGINT)",
            "id"
        );
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        page(&mut conn, &sql, &project.to_string(), None, list, read_key).await
    }

    /// A saved Agent.
    ///
    /// # Errors
    /// What the database says.
    pub async fn agent(
        &self,
        project: ProjectId,
        id: AgentId,
    ) -> Result<Option<SavedAgent>, StoreError> {
        let mut conn = self.connection().await?;
        agents::get(&mut conn, project, id).await
    }

    /// The provider key of a saved Agent, at the point of use.
    ///
    /// # Errors
    /// What the database says, or that it does not open (MDL-031).
    pub async fn agent_provider_key(
        &self,
        project: ProjectId,
        id: AgentId,
    ) -> Result<Option<Secret>, StoreError> {
        let mut conn = self.connection().await?;
        agents::provider_key(&mut conn, &self.store.inner.settings.keys, project, id).await
    }

    /// Saved Agents by creation (S-AG-13).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn agents(
        &self,
        project: ProjectId,
        list: &List,
    ) -> Result<Page<SavedAgent>, ListError> {
        let sql = list_sql!(
            "id, body, created_at, updated_at",
            "agents WHERE project_id = $1 AND deleted_at IS NULL",
            "created_at",
            "id"
        );
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        page(
            &mut conn,
            &sql,
            &project.to_string(),
            None,
            list,
            agents::read,
        )
        .await
    }

    /// The default model of each harness, without keys.
    ///
    /// # Errors
    /// What the database says.
    pub async fn model_defaults(&self) -> Result<Vec<ModelDefault>, StoreError> {
        let mut conn = self.connection().await?;
        model_defaults::all(&mut conn).await
    }

    /// The default model of a harness with its key, at the point of use.
    ///
    /// # Errors
    /// What the database says, or that the key does not open (DEF-004).
    pub async fn model_default(
        &self,
        harness: &str,
    ) -> Result<Option<(ModelDefault, Secret)>, StoreError> {
        let mut conn = self.connection().await?;
        model_defaults::with_key(&mut conn, &self.store.inner.settings.keys, harness).await
    }

    /// The deployment's sandbox provider (SP-2.1).
    ///
    /// # Errors
    /// What the database says.
    pub async fn selection(&self) -> Result<Selection, StoreError> {
        let mut conn = self.connection().await?;
        selections::current(&mut conn).await
    }

    /// The selection of one generation, if there was one (SP-2.6).
    ///
    /// # Errors
    /// What the database says.
    pub async fn selection_of(&self, generation: u64) -> Result<Option<Selection>, StoreError> {
        let mut conn = self.connection().await?;
        selections::of(&mut conn, generation).await
    }

    /// A value that a provider remembers.
    ///
    /// # Errors
    /// What the database says, or that it does not open.
    pub async fn provider_state(&self, key: &StateKey) -> Result<Option<Secret>, StoreError> {
        let mut conn = self.connection().await?;
        provider_state::get(&mut conn, &self.store.inner.settings.keys, key).await
    }

    /// The device that presents a credential with this digest, revoked ones included.
    ///
    /// # Errors
    /// What the database says.
    pub async fn device(&self, credential: Digest) -> Result<Option<DeviceRecord>, StoreError> {
        let mut conn = self.connection().await?;
        let Some(device) = devices::by_credential(&mut conn, credential).await? else {
            return Ok(None);
        };
        served(&mut conn, device).await.map(Some)
    }
}

async fn served(conn: &mut Conn, device: Device) -> Result<DeviceRecord, StoreError> {
    let Some(environment) = device.environment_id else {
        return Ok(DeviceRecord {
            device,
            session: None,
            project: None,
            binding: None,
        });
    };
    let row = sqlx::query(
        "SELECT s.id, s.project_id, b.body AS binding FROM environments e JOIN sessions s ON s.id = e.session_id \
         LEFT JOIN bindings b ON b.session_id = s.id WHERE e.id = $1",
    )
    .bind(environment.to_string())
    .fetch_optional(conn)
    .await?
    .ok_or(StoreError::Missing { table: "environments" })?;
    Ok(DeviceRecord {
        device,
        session: Some(id_column(&row, "sessions", "id")?),
        project: Some(id_column(&row, "sessions", "project_id")?),
        binding: optional_json_column(&row, "bindings", "binding")?,
    })
}
