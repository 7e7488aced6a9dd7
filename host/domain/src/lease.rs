//! The execution lease: one row, one owner, growing epochs (state-machines 1.15).

use serde::{Deserialize, Serialize};

use crate::{OwnerId, Timestamp};

/// Generation of the lease; a lower one can do nothing (SC-2.5). Zero = nobody ever held it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The lease row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Generation.
    pub epoch: Epoch,
    /// Who holds it; none after a clean release.
    pub owner: Option<OwnerId>,
    /// Database time at which others may take it.
    pub expires_at: Option<Timestamp>,
}
