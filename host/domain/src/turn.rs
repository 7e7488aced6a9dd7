//! Turns: the row, its states and the causes of failure (state-machines 1.2).

use serde::{Deserialize, Serialize};

use crate::lease::Epoch;
use crate::run::{FailureCode, NativeSession, PluginIdentity, RunFailure};
use crate::session::WorkSeq;
use crate::usage::Usage;
use crate::{AgentId, BindingId, DeviceId, RunId, SessionId, Timestamp, TurnId};

/// A root Turn as stored. Subagent Turns have rows of their own and are in no decision of this machine (S-ST-3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Identity.
    pub id: TurnId,
    /// Its Session.
    pub session_id: SessionId,
    /// The Session's Agent.
    pub agent_id: AgentId,
    /// Order among Turns and reservations.
    pub work_seq: WorkSeq,
    /// Where it stands.
    pub state: TurnState,
    /// Requested cancel, kept after the end.
    pub cancel: Option<Cancel>,
    /// Admission or promotion.
    pub created_at: Timestamp,
    /// Claim.
    pub started_at: Option<Timestamp>,
    /// Latest usage snapshot (S-USE-1).
    pub usage: Option<Usage>,
    /// Native session to continue with.
    pub native_session: Option<NativeSession>,
    /// The plugin that serves it, once it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<PluginIdentity>,
    /// Output Items so far; the next `output_index` (S-ITEM-2).
    pub output_items: u32,
    /// Highest run event `seq` applied (RP-11.2).
    pub run_seq: u64,
    /// Claimed, and certainly never begun by the harness: no native history comes from it (RP-10.18).
    #[serde(default)]
    pub never_began: bool,
    /// What the messages that its Run begins with take of [`crate::content::MAX_START_INPUT`].
    #[serde(default)]
    pub start_bytes: u64,
}

/// State of a Turn with the data valid in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum TurnState {
    /// Admitted on `none`, waits for a device.
    Queued,
    /// Claimed; a Run may exist.
    Active {
        /// The claim.
        claim: Claim,
        /// What it does.
        phase: RunPhase,
    },
    /// Over; terminal.
    Ended {
        /// The claim, if it was ever claimed.
        claim: Option<Claim>,
        /// How it ended.
        outcome: Outcome,
        /// When.
        at: Timestamp,
    },
}

/// The right to run a Turn once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The one native attempt.
    pub run_id: RunId,
    /// Lease epoch of the commit.
    pub owner_epoch: Epoch,
    /// Binding it runs under.
    pub binding_id: BindingId,
    /// Epoch of that binding.
    pub binding_epoch: u64,
    /// The device.
    pub device_id: DeviceId,
}

/// What a claimed Turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum RunPhase {
    /// The Run works (public `in_progress`).
    Running,
    /// At least one function call is open (public `waiting`).
    Waiting,
    /// The native Run has ended; outputs are captured (public `in_progress`, takes no messages: ENV-184a).
    Capturing {
        /// When the Run settled.
        settled_at: Timestamp,
    },
}

/// Terminal outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// Completed.
    Completed,
    /// Failed; the public error has a fixed text (S-TURN-3).
    Failed {
        /// Stored cause.
        cause: TurnFailure,
    },
    /// Cancelled.
    Cancelled,
}

/// A requested cancel. Rows of former versions also say who asked, which nothing depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// When it was requested.
    pub requested_at: Timestamp,
}

/// Why a Turn failed (table of causes in state-machines 1.2; S-DIA-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum TurnFailure {
    /// The Run ended with an error, classified if the harness told (RP-11.5).
    EngineFailed {
        /// Native class.
        class: Option<FailureClass>,
    },
    /// Preparation failed definitely, or Start was rejected.
    PreparationStartFailed,
    /// The peer was gone before Start was sent.
    DeviceDisconnected,
    /// Start was sent and nothing was seen.
    DeliveryUnknown,
    /// The event stream ended early.
    EventStreamIncomplete,
    /// At the end an input was unsent or rejected.
    InputNotApplied,
    /// At the end an input had no receipt.
    InputOutcomeUnknown,
    /// A function result was refused by the harness.
    FunctionResultInvalid,
    /// A function result was not confirmed.
    FunctionResultUnconfirmed,
    /// A call came again with other content.
    FunctionCallInvalid,
    /// A cancel had no receipt.
    CancelUnconfirmed,
    /// A cancel had a receipt without an outcome.
    CancelOutcomeUnavailable,
    /// The journal could not be stored.
    EventPersistenceFailed,
    /// Outputs could not be captured.
    ArtifactCaptureFailed,
    /// The owner of the claim is gone.
    ExecutionInterrupted,
}

/// Neutral class of a native failure (RP-11.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureClass {
    /// The class.
    pub code: FailureCode,
    /// 100–599, only with `connection_failed`.
    pub http_status: Option<u16>,
}

impl FailureClass {
    /// The class of a reported failure, if it has one.
    pub fn of(failure: &RunFailure) -> Option<Self> {
        let http_status = failure.http_status();
        failure.code().map(|code| Self { code, http_status })
    }
}

/// Public status of a Turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Not claimed.
    Queued,
    /// Working, capturing included.
    InProgress,
    /// Waits for a function result.
    Waiting,
    /// Completed.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

/// A Turn as its event shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnSnapshot {
    /// Identity.
    pub id: TurnId,
    /// The Session's Agent.
    pub agent_id: AgentId,
    /// Public status.
    pub status: TurnStatus,
    /// Creation.
    pub created_at: Timestamp,
    /// Claim.
    pub started_at: Option<Timestamp>,
    /// End.
    pub completed_at: Option<Timestamp>,
    /// Usage of this moment (S-USE-5).
    pub usage: Option<Usage>,
    /// Stored cause of a failure; the public error is fixed unless configured otherwise (S-TURN-3, SB-3).
    pub failure: Option<TurnFailure>,
}

impl Turn {
    /// As its events show it.
    pub fn snapshot(&self) -> TurnSnapshot {
        TurnSnapshot {
            id: self.id,
            agent_id: self.agent_id,
            status: self.status(),
            created_at: self.created_at,
            started_at: self.started_at,
            completed_at: self.completed_at(),
            usage: self.usage,
            failure: match self.state {
                TurnState::Ended {
                    outcome: Outcome::Failed { cause },
                    ..
                } => Some(cause),
                _ => None,
            },
        }
    }

    /// Public status.
    pub fn status(&self) -> TurnStatus {
        match &self.state {
            TurnState::Queued => TurnStatus::Queued,
            TurnState::Active {
                phase: RunPhase::Waiting,
                ..
            } => TurnStatus::Waiting,
            TurnState::Active { .. } => TurnStatus::InProgress,
            TurnState::Ended {
                outcome: Outcome::Completed,
                ..
            } => TurnStatus::Completed,
            TurnState::Ended {
                outcome: Outcome::Failed { .. },
                ..
            } => TurnStatus::Failed,
            TurnState::Ended {
                outcome: Outcome::Cancelled,
                ..
            } => TurnStatus::Cancelled,
        }
    }

    /// Not terminal.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, TurnState::Ended { .. })
    }

    /// The native Run has ended and outputs are captured.
    pub fn is_capturing(&self) -> bool {
        matches!(
            self.state,
            TurnState::Active {
                phase: RunPhase::Capturing { .. },
                ..
            }
        )
    }

    /// Its claim, if it has or had one.
    pub fn claim(&self) -> Option<&Claim> {
        match &self.state {
            TurnState::Queued => None,
            TurnState::Active { claim, .. } => Some(claim),
            TurnState::Ended { claim, .. } => claim.as_ref(),
        }
    }

    /// End, if it ended.
    pub fn completed_at(&self) -> Option<Timestamp> {
        match self.state {
            TurnState::Ended { at, .. } => Some(at),
            TurnState::Queued | TurnState::Active { .. } => None,
        }
    }
}

mod begin;
mod cancel;
mod claim;
mod confirm;
mod end;

pub(crate) use begin::{announce_begin, begin, join};
pub(crate) use cancel::request_cancel;
pub(crate) use claim::binding_allows;
pub use claim::{Claimed, claim, fail_queued};
pub use confirm::{ApplyResult, ConfirmInput, input_settled, result_applied};
pub(crate) use end::end;
pub use end::{Ending, Settled, finish, interrupt, settle};

#[cfg(test)]
mod tests;
