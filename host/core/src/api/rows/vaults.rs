//! Vaults and Credentials.

use super::{PUBLIC, handler};
use crate::api::query::{Limits, ListRule};
use crate::api::route::{Handler, Route, Verb};
use crate::api::vaults;
use domain::vault::Status;

/// Both lists (W-LIST-10).
pub(super) const VAULTS: ListRule = ListRule {
    choice: Some(("status", Status::WORDS)),
    ..ListRule::new(Limits::Nearest)
};

/// The rows.
pub(super) fn rows() -> Vec<Route> {
    use Verb::{Delete, Get, Post};
    let row = |verb, path, shapes, handler| Route::new(verb, path, PUBLIC, shapes, handler);
    vec![
        row(Get, "/v1/vaults", ("", "L(Vault)"), handler!(vaults::list)).list(VAULTS),
        row(
            Post,
            "/v1/vaults",
            ("VaultCreate", "Vault"),
            handler!(vaults::create),
        ),
        row(
            Get,
            "/v1/vaults/{vault_id}",
            ("", "Vault"),
            handler!(vaults::read),
        ),
        row(
            Delete,
            "/v1/vaults/{vault_id}",
            ("", "Deleted"),
            handler!(vaults::delete),
        ),
        row(
            Get,
            "/v1/vaults/{vault_id}/credentials",
            ("", "L(Credential)"),
            handler!(vaults::list_credentials),
        )
        .list(VAULTS),
        row(
            Post,
            "/v1/vaults/{vault_id}/credentials",
            ("CredentialCreate", "Credential"),
            handler!(vaults::create_credential),
        ),
        row(
            Get,
            "/v1/vaults/{vault_id}/credentials/{credential_id}",
            ("", "Credential"),
            handler!(vaults::read_credential),
        ),
        row(
            Post,
            "/v1/vaults/{vault_id}/credentials/{credential_id}",
            ("CredentialRotate", "Credential"),
            handler!(vaults::replace_credential),
        ),
        row(
            Delete,
            "/v1/vaults/{vault_id}/credentials/{credential_id}",
            ("", "Deleted"),
            handler!(vaults::delete_credential),
        ),
    ]
}
