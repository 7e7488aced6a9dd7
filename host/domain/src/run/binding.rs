//! The authority of one Session on one Runtime (RP-2).

use serde::{Deserialize, Serialize};

use crate::{BindingId, EnvironmentId, SessionId};

/// What every session-scoped frame carries (RP-6.1). A lower epoch is stale, another id is a conflict (RP-2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The Session.
    pub session: SessionId,
    /// Its Environment; none for Environment type `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentId>,
    /// The binding.
    pub id: BindingId,
    /// Grows in the store before any change of the binding's desired state is sent (RP-2.4).
    pub epoch: u64,
}

impl Binding {
    /// Session, Environment and id are the same; only the epoch may differ.
    pub fn same_authority(&self, other: &Self) -> bool {
        self.session == other.session
            && self.environment == other.environment
            && self.id == other.id
    }
}
