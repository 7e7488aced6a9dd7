//! Vaults and Credentials, without their secrets.

use domain::{
    CredentialId, ProjectId, VaultId,
    vault::{Credential, Status, Vault},
};

use super::{
    Reader,
    list::{List, ListError, Page, list_sql, page},
};
use crate::{
    error::StoreError,
    renewals::{self, CredentialUse, Opened, UseFault},
    tx::read_clock,
    vaults,
};

impl Reader<'_> {
    /// A Vault of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn vault(
        &self,
        project: ProjectId,
        id: VaultId,
    ) -> Result<Option<Vault>, StoreError> {
        let mut conn = self.connection().await?;
        vaults::get(&mut conn, project, id).await
    }

    /// The Vaults of a Project by creation, of one status if named (VLT-021).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn vaults(
        &self,
        project: ProjectId,
        status: Option<Status>,
        list: &List,
    ) -> Result<Page<Vault>, ListError> {
        let sql = match status {
            None => list_sql!(
                "id, name, metadata, created_at",
                "vaults WHERE project_id = $1",
                "created_at",
                "id"
            ),
            Some(_) => list_sql!(
                "id, name, metadata, created_at",
                "vaults WHERE project_id = $1 AND status = $5",
                "vaults WHERE project_id = $1",
                "created_at",
                "id"
            ),
        };
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let (project, status) = (project.to_string(), status.map(Status::word));
        page(&mut conn, &sql, &project, status, list, vaults::read).await
    }

    /// A Credential of a Vault of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn credential(
        &self,
        project: ProjectId,
        vault: VaultId,
        id: CredentialId,
    ) -> Result<Option<Credential>, StoreError> {
        let mut conn = self.connection().await?;
        vaults::credential(&mut conn, project, vault, id).await
    }

    /// All Credentials of a Vault in use, for the Session that it is attached to (SEL-004).
    ///
    /// # Errors
    /// What the database says.
    pub async fn active_credentials(&self, vault: VaultId) -> Result<Vec<Credential>, StoreError> {
        let mut conn = self.connection().await?;
        let rows = sqlx::query(
            "SELECT id, vault_id, name, auth, created_at, updated_at FROM credentials \
             WHERE vault_id = $1 AND status = $2 ORDER BY created_at, id",
        )
        .bind(vault.to_string())
        .bind(Status::Active.word())
        .fetch_all(&mut conn)
        .await?;
        rows.iter().map(vaults::read_credential).collect()
    }

    /// Opens the Credential of a Session's server, at the point of use (SEL-019).
    ///
    /// # Errors
    /// What the database says; a secret that does not open.
    pub async fn open_credential(
        &self,
        wanted: &CredentialUse,
    ) -> Result<Result<Opened, UseFault>, StoreError> {
        let mut conn = self.connection().await?;
        let now = read_clock(&mut conn, self.store.inner.dialect).await?;
        renewals::open(&mut conn, self.store.keys(), wanted, now).await
    }

    /// The Credentials of a Vault by creation, of one status if named.
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn credentials(
        &self,
        vault: VaultId,
        status: Option<Status>,
        list: &List,
    ) -> Result<Page<Credential>, ListError> {
        let sql = match status {
            None => list_sql!(
                "id, vault_id, name, auth, created_at, updated_at",
                "credentials WHERE vault_id = $1",
                "created_at",
                "id"
            ),
            Some(_) => list_sql!(
                "id, vault_id, name, auth, created_at, updated_at",
                "credentials WHERE vault_id = $1 AND status = $5",
                "credentials WHERE vault_id = $1",
                "created_at",
                "id"
            ),
        };
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let (vault, status) = (vault.to_string(), status.map(Status::word));
        let read = vaults::read_credential;
        page(&mut conn, &sql, &vault, status, list, read).await
    }
}
