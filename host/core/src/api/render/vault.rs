//! Vaults and Credentials (api-surface 11).

use domain::json::Opaque;
use domain::vault::{AuthView, Credential, Vault};
use serde::Serialize;

/// A Vault.
#[derive(Serialize)]
pub(crate) struct VaultJson<'a> {
    id: String,
    object: &'static str,
    created_at: i64,
    name: Option<&'a str>,
    metadata: &'a Opaque,
}

/// A Credential. What may be shown of it is what is stored in clear.
#[derive(Serialize)]
pub(crate) struct CredentialJson<'a> {
    id: String,
    object: &'static str,
    vault_id: String,
    name: &'a str,
    auth: &'a AuthView,
    created_at: i64,
    updated_at: i64,
}

/// Shows a Vault.
pub(crate) fn vault(vault: &Vault) -> VaultJson<'_> {
    VaultJson {
        id: vault.id.to_string(),
        object: "vault",
        created_at: vault.created_at.seconds(),
        name: vault.name.as_deref(),
        metadata: &vault.metadata,
    }
}

/// Shows a Credential.
pub(crate) fn credential(credential: &Credential) -> CredentialJson<'_> {
    CredentialJson {
        id: credential.id.to_string(),
        object: "vault.credential",
        vault_id: credential.vault.to_string(),
        name: &credential.name,
        auth: &credential.auth,
        created_at: credential.created_at.seconds(),
        updated_at: credential.updated_at.seconds(),
    }
}
