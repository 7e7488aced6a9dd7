//! Vaults and their Credentials (`files-skills-vaults.md` 3). Secrets go in and never come out.

use axum::http::StatusCode;
use domain::vault::{AuthPatch, Credential, CredentialCreation, Status, Vault, VaultCreation};
use domain::{CredentialId, Timestamp, VaultId, invalid::Invalid};
use store::WriteError;
use store::vaults::{
    CreateCredential, CreateVault, DeleteCredential, DeleteVault, ReplaceCredential, ReplaceRefusal,
};

use super::call::{Call, Reply};
use super::error::ApiError;
use super::failure::{read_failed, write_broke, write_failed};
use super::idempotency;
use super::lists::{list as store_list, list_failed};
use super::query::Page;
use super::render::vault::{credential as shown_credential, vault as shown_vault};
use super::render::{Deleted, List};

/// The units replace it by the database clock.
const UNSET: Timestamp = Timestamp::from_millis(0);

/// `POST /vaults`
pub(crate) async fn create(call: Call) -> Result<Reply, ApiError> {
    let VaultCreation { name, metadata } = call.read(VaultCreation::parse)?;
    let retry = idempotency::retry(&call, &(&name, &metadata), &[])?;
    let unit = CreateVault {
        project: call.project()?,
        vault: Vault {
            id: VaultId::new(uuid::Uuid::new_v4()),
            created_at: UNSET,
            name,
            metadata,
        },
        provenance: call.provenance(),
    };
    let made = idempotency::write(&call, unit, retry).await?;
    Reply::json(StatusCode::CREATED, &shown_vault(&made))
}

/// `GET /vaults`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = store_list(&call.page, VaultId::NEVER);
    let found = call.core.store.read();
    let found = found
        .vaults(call.scope()?, status(&call.page), &page)
        .await
        .map_err(|error| list_failed(error, ApiError::NotFound))?;
    let shown = found
        .items
        .iter()
        .map(|vault| (vault.id.to_string(), shown_vault(vault)))
        .collect();
    Reply::ok(&List::new(shown, found.has_more))
}

/// One status, or none if the filter names both or neither (W-LIST-10).
fn status(page: &Page) -> Option<Status> {
    let has = |status: Status| page.chosen.contains(&status.word());
    match (has(Status::Active), has(Status::Archived)) {
        (true, false) => Some(Status::Active),
        (false, true) => Some(Status::Archived),
        _ => None,
    }
}

/// `GET /vaults/{vault_id}`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    Reply::ok(&shown_vault(&existing(&call).await?))
}

/// `DELETE /vaults/{vault_id}`
pub(crate) async fn delete(call: Call) -> Result<Reply, ApiError> {
    let id: VaultId = call.id("vault_id");
    let unit = DeleteVault {
        project: call.scope()?,
        id,
        by: call.author()?,
    };
    call.core.store.write(unit).await.map_err(write_failed)?;
    Reply::ok(&Deleted::new(id, "vault.deleted"))
}

/// `POST /vaults/{vault_id}/credentials`
pub(crate) async fn create_credential(call: Call) -> Result<Reply, ApiError> {
    let creation = call.read(CredentialCreation::parse)?;
    let secrets = creation.secrets.to_bytes();
    let secrets = secrets.as_ref().map(domain::Secret::expose);
    let said = (&creation.name, &creation.auth);
    let retry = idempotency::retry(&call, &said, &[secrets.unwrap_or_default()])?;
    let unit = CreateCredential {
        project: call.project()?,
        credential: Credential {
            id: CredentialId::new(uuid::Uuid::new_v4()),
            vault: call.id("vault_id"),
            name: creation.name,
            auth: creation.auth,
            created_at: UNSET,
            updated_at: UNSET,
        },
        secrets: creation.secrets,
        provenance: call.provenance(),
    };
    let made = idempotency::write(&call, unit, retry).await?;
    Reply::json(StatusCode::CREATED, &shown_credential(&made))
}

/// `GET /vaults/{vault_id}/credentials`
pub(crate) async fn list_credentials(call: Call) -> Result<Reply, ApiError> {
    let vault = existing(&call).await?.id;
    let page = store_list(&call.page, CredentialId::NEVER);
    let found = call.core.store.read();
    let found = found
        .credentials(vault, status(&call.page), &page)
        .await
        .map_err(|error| list_failed(error, ApiError::NotFound))?;
    let shown = found
        .items
        .iter()
        .map(|credential| (credential.id.to_string(), shown_credential(credential)))
        .collect();
    Reply::ok(&List::new(shown, found.has_more))
}

/// `GET /vaults/{vault_id}/credentials/{credential_id}`
pub(crate) async fn read_credential(call: Call) -> Result<Reply, ApiError> {
    let (vault, id) = (call.id("vault_id"), call.id("credential_id"));
    let found = call.core.store.read();
    let found = found.credential(call.scope()?, vault, id).await;
    let found = found.map_err(read_failed)?.ok_or(ApiError::NotFound)?;
    Reply::ok(&shown_credential(&found))
}

/// `POST /vaults/{vault_id}/credentials/{credential_id}`
pub(crate) async fn replace_credential(call: Call) -> Result<Reply, ApiError> {
    let unit = ReplaceCredential {
        patch: call.read(AuthPatch::parse)?,
        project: call.project()?,
        vault: call.id("vault_id"),
        id: call.id("credential_id"),
        provenance: call.provenance(),
    };
    let replaced = call.core.store.write(unit).await;
    let replaced = replaced.map_err(|error| match error {
        WriteError::Refused(ReplaceRefusal::NotFound) => ApiError::NotFound,
        WriteError::Refused(ReplaceRefusal::Fault(fault)) => {
            Invalid::other(Some(fault.param()), fault.to_string()).into()
        }
        // A secret that does not open is no client's fault: nothing was written (KEY-002).
        WriteError::Store(store::StoreError::Seal(error)) => {
            tracing::error!(%error, "a credential could not be opened");
            ApiError::CredentialStorageUnavailable
        }
        WriteError::Store(error) => write_broke(&error),
    })?;
    Reply::ok(&shown_credential(&replaced))
}

/// `DELETE /vaults/{vault_id}/credentials/{credential_id}`
pub(crate) async fn delete_credential(call: Call) -> Result<Reply, ApiError> {
    let id: CredentialId = call.id("credential_id");
    let unit = DeleteCredential {
        project: call.scope()?,
        vault: call.id("vault_id"),
        id,
        by: call.author()?,
    };
    call.core.store.write(unit).await.map_err(write_failed)?;
    Reply::ok(&Deleted::new(id, "vault.credential.deleted"))
}

async fn existing(call: &Call) -> Result<Vault, ApiError> {
    let found = call.core.store.read();
    let found = found.vault(call.scope()?, call.id("vault_id")).await;
    found.map_err(read_failed)?.ok_or(ApiError::NotFound)
}
