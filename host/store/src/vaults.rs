//! Vaults and Credentials (`files-skills-vaults.md` 3). Secrets are one sealed column beside what may be shown (KEY-001); reads
//! and deletions never open it (VLT-025, CRD-003).

use domain::{
    CredentialId, ProjectId, Refusal, Secret, Timestamp, VaultId,
    json::Opaque,
    vault::{AuthPatch, AuthSecrets, AuthView, Credential, ReplaceFault, Status, Vault},
};
use seal::{Binding, KeyRing, Purpose};
use sqlx::{Row, any::AnyRow};

use crate::{
    conn::Conn,
    convert::{id_column, json_column, parse_id, to_json},
    error::{StoreError, UnitError},
    provenance::{Author, Operation, Provenance, record},
    renewals,
    retries::{Creation, Namespace},
    tx::Tx,
    unit::Unit,
};

pub(crate) fn read(row: &AnyRow) -> Result<Vault, StoreError> {
    let metadata: String = row.try_get("metadata")?;
    Ok(Vault {
        id: id_column(row, "vaults", "id")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        name: row.try_get("name")?,
        metadata: Opaque::parse(&metadata).ok_or(StoreError::Corrupt {
            table: "vaults",
            column: "metadata",
        })?,
    })
}

pub(crate) fn read_credential(row: &AnyRow) -> Result<Credential, StoreError> {
    Ok(Credential {
        id: id_column(row, "credentials", "id")?,
        vault: id_column(row, "credentials", "vault_id")?,
        name: row.try_get("name")?,
        auth: json_column(row, "credentials", "auth")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        updated_at: Timestamp::from_millis(row.try_get("updated_at")?),
    })
}

/// A Vault of a Project.
pub(crate) async fn get(
    conn: &mut Conn,
    project: ProjectId,
    id: VaultId,
) -> Result<Option<Vault>, StoreError> {
    let row = sqlx::query(
        "SELECT id, name, metadata, created_at FROM vaults WHERE id = $1 AND project_id = $2",
    )
    .bind(id.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read(&row)).transpose()
}

/// A Credential of a Vault of a Project.
pub(crate) async fn credential(
    conn: &mut Conn,
    project: ProjectId,
    vault: VaultId,
    id: CredentialId,
) -> Result<Option<Credential>, StoreError> {
    let row = sqlx::query(
        "SELECT c.id, c.vault_id, c.name, c.auth, c.created_at, c.updated_at FROM credentials c \
         JOIN vaults v ON v.id = c.vault_id WHERE c.id = $1 AND c.vault_id = $2 AND v.project_id = $3",
    )
    .bind(id.to_string())
    .bind(vault.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read_credential(&row)).transpose()
}

/// Everything that a sealed credential is bound to (KEY-001).
pub(crate) struct Bound([String; 5]);

impl Bound {
    pub(crate) fn new(
        project: ProjectId,
        vault: VaultId,
        id: CredentialId,
        auth: &AuthView,
    ) -> Self {
        Self([
            project.to_string(),
            vault.to_string(),
            id.to_string(),
            auth.kind().to_owned(),
            auth.server_url().to_owned(),
        ])
    }

    /// The parts, outermost first.
    pub(crate) fn owner(&self) -> [&str; 5] {
        self.0.each_ref().map(String::as_str)
    }

    pub(crate) fn seal(
        &self,
        keys: &KeyRing,
        secrets: &AuthSecrets,
    ) -> Result<Vec<u8>, StoreError> {
        let plain = secrets
            .to_bytes()
            .ok_or_else(|| StoreError::Impossible("a credential is no text".to_owned()))?;
        let owner = self.owner();
        Ok(keys.seal(
            &Binding::new(Purpose::VaultCredential, &owner),
            plain.expose(),
        )?)
    }

    pub(crate) fn open(&self, keys: &KeyRing, sealed: &[u8]) -> Result<AuthSecrets, StoreError> {
        let owner = self.owner();
        let plain = keys.open(&Binding::new(Purpose::VaultCredential, &owner), sealed)?;
        let plain = Secret::new(plain.as_slice());
        AuthSecrets::from_bytes(plain.expose()).ok_or(StoreError::Corrupt {
            table: "credentials",
            column: "sealed",
        })
    }
}

/// Makes a Vault (VLT-010).
#[derive(Debug, Clone)]
pub struct CreateVault {
    /// Owner.
    pub project: ProjectId,
    /// The Vault; its time is replaced.
    pub vault: Vault,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for CreateVault {
    const NAME: &'static str = "CreateVault";
    const LEASED: bool = false;
    type Answer = Vault;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vault, UnitError<Refusal>> {
        let now = tx.now().await?;
        let vault = Vault {
            created_at: now,
            ..self.vault.clone()
        };
        sqlx::query(
            "INSERT INTO vaults (id, project_id, name, metadata, status, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(vault.id.to_string())
        .bind(self.project.to_string())
        .bind(vault.name.clone())
        .bind(vault.metadata.as_str().to_owned())
        .bind(Status::Active.word())
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        let operation = Operation::new("create", "vault", vault.id);
        record(tx, self.project, self.provenance.as_ref(), operation).await?;
        Ok(vault)
    }
}

impl Creation for CreateVault {
    fn makes(&self) -> (ProjectId, Namespace, String) {
        (self.project, Namespace::Vault, self.vault.id.to_string())
    }

    async fn find(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<Vault>, StoreError> {
        let id = parse_id(id, "retries", "resource_id")?;
        get(tx.conn, self.project, id).await
    }
}

/// Deletes a Vault and its Credentials (VLT-025).
#[derive(Debug, Clone)]
pub struct DeleteVault {
    /// Owner.
    pub project: ProjectId,
    /// The Vault.
    pub id: VaultId,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteVault {
    const NAME: &'static str = "DeleteVault";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Refusal>> {
        tx.lock_row(LOCK, self.id, self.project).await?;
        for statement in [
            "DELETE FROM credentials WHERE vault_id = $1",
            "DELETE FROM vaults WHERE id = $1",
        ] {
            sqlx::query(statement)
                .bind(self.id.to_string())
                .execute(&mut *tx.conn)
                .await?;
        }
        let operation = Operation::new("delete", "vault", self.id);
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(())
    }
}

/// Makes a Credential (VLT-013).
#[derive(Debug, Clone)]
pub struct CreateCredential {
    /// Owner of the Vault.
    pub project: ProjectId,
    /// What may be shown; its times are replaced.
    pub credential: Credential,
    /// What may not.
    pub secrets: AuthSecrets,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for CreateCredential {
    const NAME: &'static str = "CreateCredential";
    const LEASED: bool = false;
    type Answer = Credential;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Credential, UnitError<Refusal>> {
        // The Vault's lock: a deletion that waits for it takes this Credential too (DEL-002).
        tx.lock_row(LOCK, self.credential.vault, self.project)
            .await?;
        let now = tx.now().await?;
        let credential = Credential {
            created_at: now,
            updated_at: now,
            ..self.credential.clone()
        };
        let bound = Bound::new(
            self.project,
            credential.vault,
            credential.id,
            &credential.auth,
        );
        sqlx::query(
            "INSERT INTO credentials (id, vault_id, name, auth, sealed, status, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7)",
        )
        .bind(credential.id.to_string())
        .bind(credential.vault.to_string())
        .bind(credential.name.clone())
        .bind(to_json(&credential.auth)?)
        .bind(bound.seal(&tx.keys, &self.secrets)?)
        .bind(Status::Active.word())
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        let operation = Operation::new("create", "credential", credential.id);
        let operation = operation.of(credential.vault);
        record(tx, self.project, self.provenance.as_ref(), operation).await?;
        Ok(credential)
    }
}

impl Creation for CreateCredential {
    fn makes(&self) -> (ProjectId, Namespace, String) {
        (
            self.project,
            Namespace::Credential(self.credential.vault),
            self.credential.id.to_string(),
        )
    }

    async fn find(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<Credential>, StoreError> {
        let id = parse_id(id, "retries", "resource_id")?;
        credential(tx.conn, self.project, self.credential.vault, id).await
    }
}

/// Why secrets are not replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceRefusal {
    /// No such Credential in this Vault.
    NotFound,
    /// The stored Credential does not take it.
    Fault(ReplaceFault),
}

/// Replaces secrets of a Credential (CRD-007): under its lock, so that a refresh and a deletion come before or after it
/// (OAU-006).
#[derive(Debug, Clone)]
pub struct ReplaceCredential {
    /// Owner of the Vault.
    pub project: ProjectId,
    /// The Vault.
    pub vault: VaultId,
    /// The Credential.
    pub id: CredentialId,
    /// What to replace.
    pub patch: AuthPatch,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for ReplaceCredential {
    const NAME: &'static str = "ReplaceCredential";
    const LEASED: bool = false;
    type Answer = Credential;
    type Refusal = ReplaceRefusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Credential, UnitError<ReplaceRefusal>> {
        let missing = || UnitError::Refused(ReplaceRefusal::NotFound);
        let id = self.id.to_string();
        let done = sqlx::query(
            "UPDATE credentials SET updated_at = updated_at WHERE id = $1 AND vault_id = $2",
        )
        .bind(id.clone())
        .bind(self.vault.to_string())
        .execute(&mut *tx.conn)
        .await?;
        if done.rows_affected() == 0 {
            return Err(missing());
        }
        let found = credential(tx.conn, self.project, self.vault, self.id).await?;
        let mut credential = found.ok_or_else(missing)?;
        let row = sqlx::query("SELECT sealed FROM credentials WHERE id = $1")
            .bind(id.clone())
            .fetch_one(&mut *tx.conn)
            .await?;
        let sealed: Vec<u8> = row.try_get("sealed").map_err(StoreError::from)?;
        let bound = Bound::new(self.project, self.vault, self.id, &credential.auth);
        let mut secrets = bound.open(&tx.keys, &sealed)?;
        self.patch
            .clone()
            .apply(&mut credential.auth, &mut secrets)
            .map_err(|fault| UnitError::Refused(ReplaceRefusal::Fault(fault)))?;
        tx.forget_clock();
        credential.updated_at = tx.now().await?;
        renewals::write(tx, &bound, self.id, &credential.auth, &secrets).await?;
        let operation = Operation::new("update", "credential", self.id).of(self.vault);
        record(tx, self.project, self.provenance.as_ref(), operation).await?;
        Ok(credential)
    }
}

/// Deletes a Credential (VLT-016); nothing is withdrawn or revoked (DEL-004).
#[derive(Debug, Clone)]
pub struct DeleteCredential {
    /// Owner of the Vault.
    pub project: ProjectId,
    /// The Vault.
    pub vault: VaultId,
    /// The Credential.
    pub id: CredentialId,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteCredential {
    const NAME: &'static str = "DeleteCredential";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Refusal>> {
        tx.lock_row(LOCK, self.vault, self.project).await?;
        let done = sqlx::query("DELETE FROM credentials WHERE id = $1 AND vault_id = $2")
            .bind(self.id.to_string())
            .bind(self.vault.to_string())
            .execute(&mut *tx.conn)
            .await?;
        if done.rows_affected() == 0 {
            return Err(UnitError::Refused(Refusal::NotFound));
        }
        let operation = Operation::new("delete", "credential", self.id).of(self.vault);
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(())
    }
}

/// Takes the row lock and reads the clock under it.
const LOCK: &str = "UPDATE vaults SET status = status WHERE id = $1 AND project_id = $2";
