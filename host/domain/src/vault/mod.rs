//! Vaults of a Project and the credentials in them (`files-skills-vaults.md` 3). Secrets are write-only: what is read back is
//! [`AuthView`], and the secrets travel beside it as one [`AuthSecrets`].

mod auth;
mod parse;
mod refresh;
mod replace;
mod select;

use crate::json::Opaque;
use crate::{CredentialId, Timestamp, VaultId};

pub use auth::{AuthSecrets, AuthView, RefreshSecrets, RefreshView, TokenMethod};
pub use parse::{CredentialCreation, VaultCreation};
pub use refresh::{
    EXCHANGE_WITHIN, Exchange, Grant, MAX_BEARER, NoGrant, Readiness, Unusable, readiness,
};
pub use replace::{AuthPatch, RefreshPatch, ReplaceFault};
pub use select::{SelectFault, echoed, select};

/// Longest name of a Vault or Credential, in bytes after trimming (VLT-022, CRD-001).
pub const MAX_NAME: usize = 256;
/// Longest metadata of a Vault, in bytes as encoded (VLT-023).
pub const MAX_METADATA: usize = 64 * 1024;

/// Status of a Vault or Credential. No route archives one (VLT-021).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In use.
    Active,
    /// Put away.
    Archived,
}

impl Status {
    /// Every word, as the list filters take it.
    pub const WORDS: &'static [&'static str] = &["active", "archived"];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archived => "archived",
        }
    }
}

/// A Vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vault {
    /// Its id.
    pub id: VaultId,
    /// Creation.
    pub created_at: Timestamp,
    /// Label.
    pub name: Option<String>,
    /// An object of strings, in the caller's order.
    pub metadata: Opaque,
}

/// A Credential without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Its id.
    pub id: CredentialId,
    /// The Vault.
    pub vault: VaultId,
    /// Label.
    pub name: String,
    /// What may be shown of it.
    pub auth: AuthView,
    /// Creation.
    pub created_at: Timestamp,
    /// Last replacement of its secrets.
    pub updated_at: Timestamp,
}
