//! Sessions: the row, its public status and what is projected from it (state-machines 1.1).

use serde::{Deserialize, Serialize};

use crate::call::CallId;
use crate::metadata::Metadata;
use crate::usage::{Usage, UsageSum};
use crate::{
    AgentId, ConfigurationId, EnvironmentId, ProjectId, SessionId, Timestamp, TurnId, VaultId,
};

/// Order of Turns and reservations in a Session; "newer" always means larger.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WorkSeq(pub u64);

/// A Session as stored. It has no stored status: status is a projection of facts (S-ST-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Identity.
    pub id: SessionId,
    /// Owner.
    pub project_id: ProjectId,
    /// Its Agent, saved or inline.
    pub agent_id: AgentId,
    /// The frozen configuration (S-SES-12).
    pub configuration: ConfigurationId,
    /// Where it runs.
    pub placement: Placement,
    /// How the machine of a workspace placement connects.
    pub connector: Connector,
    /// Metadata.
    pub metadata: Metadata,
    /// Attached Vaults.
    pub vault_ids: Vec<VaultId>,
    /// Creation.
    pub created_at: Timestamp,
    /// Latest activity (D34); a failed Environment overrides it (P1).
    pub last_active_at: Timestamp,
    /// Deletion; terminal.
    pub deleted_at: Option<Timestamp>,
    /// `work_seq` of the newest Turn or reservation; zero if there was none.
    pub work_seq: WorkSeq,
    /// Position of the newest Item; positions start at 1.
    pub item_position: u64,
    /// Usage of the ended root Turns.
    pub usage: UsageSum,
}

/// `environment.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Conversation only.
    None,
    /// A machine of our provider.
    OpenaiHosted,
    /// A machine of the client.
    SelfHosted,
}

/// How a machine is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connector {
    /// Our daemon runs the harness there.
    Daemon,
    /// A remote-tool runner (API-136, API-137): the harness runs elsewhere and input never waits for the connection.
    Runner,
}

/// Public status of a Session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Nothing to do.
    Idle,
    /// A Turn works.
    InProgress,
    /// The client must act.
    RequiresAction,
    /// The last work or the Environment failed.
    Failed,
}

/// What a client must do before work goes on (S-SES-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum RequiredAction {
    /// Answer a function call.
    FunctionCall {
        /// The waiting Turn.
        turn_id: TurnId,
        /// The call.
        call_id: CallId,
        /// Function name.
        name: String,
        /// Complete JSON text.
        arguments: String,
    },
    /// Connect the machine.
    EnvironmentConnection {
        /// Its Environment.
        environment_id: EnvironmentId,
    },
}

/// The computed part of a Session: what every read and every Session event shows (S-ST-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Projection {
    /// Status.
    pub status: SessionStatus,
    /// Fixed, safe text; only with `failed`.
    pub error: Option<String>,
    /// Required actions in order.
    pub required_actions: Vec<RequiredAction>,
    /// Usage, if known.
    pub usage: Option<Usage>,
    /// Latest activity.
    pub last_active_at: Timestamp,
}

mod create;
mod end;
mod status;
mod update;

pub use create::{NewSession, create};
pub(crate) use end::{ALLOCATION_ENDED, end_hosted, reclaim};
pub use end::{Archived, Deleted, Reclaim, archive, delete, receipt_wait, reclaim_of};
pub use status::{ENVIRONMENT_ENDED, EXECUTION_FAILED, INPUT_EXPIRED, PREPARATION_FAILED, project};
pub use update::update;

#[cfg(test)]
mod tests;
