//! Safe failure codes for administrators (sessions.md 16). Derived from stored causes, never from text (S-DIA-5).

use serde::{Deserialize, Serialize};

use crate::environment::FailureReason;
use crate::reservation::{ReservationFailure, ReservationState};
use crate::run::FailureCode;
use crate::session::{SessionStatus, project};
use crate::turn::{Outcome, Turn, TurnFailure, TurnState};
use crate::{SessionState, Timestamp, TurnId};

/// Why a Session reads `failed` (S-DIA-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diagnosis {
    /// What failed.
    pub source: Source,
    /// Its code.
    pub code: Code,
    /// When.
    pub failed_at: Option<Timestamp>,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A root Turn.
    Turn(TurnId),
    /// Provisioning or initialization.
    Environment,
    /// Input that waited for the Environment.
    EnvironmentInput,
}

/// A code with its params.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", content = "params", rename_all = "snake_case")]
pub enum Code {
    /// The harness failed without a class.
    HarnessError,
    /// The harness failed with this class (RP-11.5).
    Native(FailureCode),
    /// No connection to the model provider.
    ConnectionFailed {
        /// 100–599, if there was an answer.
        http_status: Option<u16>,
    },
    /// The Runtime's connection was lost.
    RuntimeDisconnected,
    /// The Runtime refused the preparation or the start.
    RuntimePreparationFailed,
    /// The owner of the execution is gone.
    ExecutionInterrupted,
    /// Something sent was never confirmed.
    DeliveryUnconfirmed,
    /// The harness did not take a message.
    InputRejected,
    /// The Runtime or harness broke the protocol.
    ExecutorProtocolError,
    /// Core could not store.
    CoreStorageFailed,
    /// The reservation expired.
    EnvironmentConnectionTimeout,
    /// The Environment ended under waiting input.
    EnvironmentUnavailable,
    /// Provisioning failed in this step.
    EnvironmentProvisioningFailed {
        /// Step, if one is to blame.
        step: Option<ProvisioningStep>,
        /// Index of a setup command.
        index: Option<u32>,
        /// 1–255.
        exit_code: Option<u8>,
    },
}

/// A step of the initialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvisioningStep {
    /// A setup command.
    Setup,
    /// Python packages.
    Python,
    /// npm packages.
    Npm,
    /// Initial files.
    File,
    /// A Skill.
    Skill,
}

impl Code {
    /// The name as it is shown.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::HarnessError => "harness_error",
            Self::Native(code) => code.as_str(),
            Self::ConnectionFailed { .. } => "connection_failed",
            Self::RuntimeDisconnected => "runtime_disconnected",
            Self::RuntimePreparationFailed => "runtime_preparation_failed",
            Self::ExecutionInterrupted => "execution_interrupted",
            Self::DeliveryUnconfirmed => "delivery_unconfirmed",
            Self::InputRejected => "input_rejected",
            Self::ExecutorProtocolError => "executor_protocol_error",
            Self::CoreStorageFailed => "core_storage_failed",
            Self::EnvironmentConnectionTimeout => "environment_connection_timeout",
            Self::EnvironmentUnavailable => "environment_unavailable",
            Self::EnvironmentProvisioningFailed { .. } => "environment_provisioning_failed",
        }
    }
}

/// The failure of a Session; none unless its status is `failed`. Provisioning first, then input activity, then the newest root
/// Turn (S-DIA-2).
pub fn of_session(state: &SessionState) -> Option<Diagnosis> {
    if project(state).status != SessionStatus::Failed {
        return None;
    }
    if let Some(failure) = state
        .environment
        .as_ref()
        .and_then(|environment| environment.failure)
    {
        let code = of_environment(failure.reason);
        return Some(Diagnosis {
            source: Source::Environment,
            code,
            failed_at: Some(failure.at),
        });
    }
    let turn = state.turn.as_ref();
    let newer = state
        .reservation
        .as_ref()
        .filter(|row| turn.is_none_or(|turn| row.work_seq > turn.work_seq));
    if let Some(reservation) = newer
        && let Some(code) = of_reservation(reservation.state)
    {
        return Some(Diagnosis {
            source: Source::EnvironmentInput,
            code,
            failed_at: reservation.settled_at,
        });
    }
    let turn = turn?;
    let code = of_turn(turn)?;
    Some(Diagnosis {
        source: Source::Turn(turn.id),
        code,
        failed_at: turn.completed_at(),
    })
}

/// The failure of a Turn; none unless it failed (S-DIA-3).
pub fn of_turn(turn: &Turn) -> Option<Code> {
    match turn.state {
        TurnState::Ended {
            outcome: Outcome::Failed { cause },
            ..
        } => Some(of_cause(cause)),
        _ => None,
    }
}

fn of_cause(cause: TurnFailure) -> Code {
    match cause {
        TurnFailure::EngineFailed { class: None } => Code::HarnessError,
        TurnFailure::EngineFailed { class: Some(class) } => match class.code {
            FailureCode::ConnectionFailed => Code::ConnectionFailed {
                http_status: class.http_status,
            },
            code => Code::Native(code),
        },
        TurnFailure::PreparationStartFailed => Code::RuntimePreparationFailed,
        TurnFailure::DeviceDisconnected | TurnFailure::EventStreamIncomplete => {
            Code::RuntimeDisconnected
        }
        TurnFailure::DeliveryUnknown
        | TurnFailure::InputOutcomeUnknown
        | TurnFailure::FunctionResultUnconfirmed
        | TurnFailure::CancelUnconfirmed
        | TurnFailure::CancelOutcomeUnavailable => Code::DeliveryUnconfirmed,
        TurnFailure::InputNotApplied => Code::InputRejected,
        TurnFailure::FunctionResultInvalid | TurnFailure::FunctionCallInvalid => {
            Code::ExecutorProtocolError
        }
        TurnFailure::EventPersistenceFailed | TurnFailure::ArtifactCaptureFailed => {
            Code::CoreStorageFailed
        }
        TurnFailure::ExecutionInterrupted => Code::ExecutionInterrupted,
    }
}

fn of_reservation(state: ReservationState) -> Option<Code> {
    match state {
        ReservationState::Expired => Some(Code::EnvironmentConnectionTimeout),
        ReservationState::Failed {
            reason: ReservationFailure::Preparation,
        } => Some(Code::RuntimePreparationFailed),
        ReservationState::Failed {
            reason: ReservationFailure::Environment,
        } => Some(Code::EnvironmentUnavailable),
        ReservationState::Pending
        | ReservationState::Admitted { .. }
        | ReservationState::Cancelled => None,
    }
}

fn of_environment(reason: FailureReason) -> Code {
    let (step, index, exit_code) = match reason {
        FailureReason::Setup { index, exit_code } => {
            (Some(ProvisioningStep::Setup), Some(index), Some(exit_code))
        }
        FailureReason::Python { exit_code } => {
            (Some(ProvisioningStep::Python), None, Some(exit_code))
        }
        FailureReason::Npm { exit_code } => (Some(ProvisioningStep::Npm), None, Some(exit_code)),
        FailureReason::File => (Some(ProvisioningStep::File), None, None),
        FailureReason::Skill => (Some(ProvisioningStep::Skill), None, None),
        FailureReason::HarnessUnavailable | FailureReason::Incomplete => (None, None, None),
    };
    Code::EnvironmentProvisioningFailed {
        step,
        index,
        exit_code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Placement;
    use crate::testing::World;
    use crate::time;
    use crate::turn::{Ending, FailureClass};

    fn failed_with(cause: TurnFailure) -> Diagnosis {
        let mut world = World::running(Placement::None);
        world.finish(Ending::Failed(cause));
        of_session(&world.state()).unwrap()
    }

    /// Every code; one that is new does not compile before it is in the list.
    fn all() -> Vec<Code> {
        let own = [
            Code::HarnessError,
            Code::ConnectionFailed { http_status: None },
            Code::RuntimeDisconnected,
            Code::RuntimePreparationFailed,
            Code::ExecutionInterrupted,
            Code::DeliveryUnconfirmed,
            Code::InputRejected,
            Code::ExecutorProtocolError,
            Code::CoreStorageFailed,
            Code::EnvironmentConnectionTimeout,
            Code::EnvironmentUnavailable,
            Code::EnvironmentProvisioningFailed {
                step: None,
                index: None,
                exit_code: None,
            },
        ];
        for code in own {
            match code {
                Code::HarnessError
                | Code::Native(_)
                | Code::ConnectionFailed { .. }
                | Code::RuntimeDisconnected
                | Code::RuntimePreparationFailed
                | Code::ExecutionInterrupted
                | Code::DeliveryUnconfirmed
                | Code::InputRejected
                | Code::ExecutorProtocolError
                | Code::CoreStorageFailed
                | Code::EnvironmentConnectionTimeout
                | Code::EnvironmentUnavailable
                | Code::EnvironmentProvisioningFailed { .. } => {}
            }
        }
        let native = FailureCode::ALL.iter().copied().map(Code::Native);
        own.into_iter().chain(native).collect()
    }

    // S-DIA-5: an operator who sees a code finds what it means.
    #[test]
    fn every_code_is_explained_to_operators() {
        let page = include_str!("../../docs/operating.md");
        let (_, page) = page
            .split_once("## Why a Turn or a Session failed")
            .unwrap();
        for code in all() {
            let name = format!("`{}`", code.as_str());
            let explained = page
                .lines()
                .any(|line| line.starts_with('|') && line.contains(&name));
            assert!(explained, "{name} is not in operating.md");
        }
    }

    #[test]
    fn turn_causes_have_their_codes() {
        // S-DIA-5
        for (cause, code) in [
            (TurnFailure::EngineFailed { class: None }, "harness_error"),
            (
                TurnFailure::PreparationStartFailed,
                "runtime_preparation_failed",
            ),
            (TurnFailure::DeviceDisconnected, "runtime_disconnected"),
            (TurnFailure::EventStreamIncomplete, "runtime_disconnected"),
            (TurnFailure::DeliveryUnknown, "delivery_unconfirmed"),
            (TurnFailure::InputOutcomeUnknown, "delivery_unconfirmed"),
            (TurnFailure::CancelUnconfirmed, "delivery_unconfirmed"),
            (
                TurnFailure::CancelOutcomeUnavailable,
                "delivery_unconfirmed",
            ),
            (
                TurnFailure::FunctionResultUnconfirmed,
                "delivery_unconfirmed",
            ),
            (TurnFailure::InputNotApplied, "input_rejected"),
            (
                TurnFailure::FunctionResultInvalid,
                "executor_protocol_error",
            ),
            (TurnFailure::FunctionCallInvalid, "executor_protocol_error"),
            (TurnFailure::EventPersistenceFailed, "core_storage_failed"),
            (TurnFailure::ExecutionInterrupted, "execution_interrupted"),
        ] {
            assert_eq!(failed_with(cause).code.as_str(), code, "{cause:?}");
        }
        let class = FailureClass {
            code: FailureCode::ConnectionFailed,
            http_status: Some(502),
        };
        let code = failed_with(TurnFailure::EngineFailed { class: Some(class) }).code;
        assert_eq!(
            code,
            Code::ConnectionFailed {
                http_status: Some(502)
            }
        );
        let class = FailureClass {
            code: FailureCode::RateLimitExceeded,
            http_status: None,
        };
        assert_eq!(
            failed_with(TurnFailure::EngineFailed { class: Some(class) })
                .code
                .as_str(),
            "rate_limit_exceeded"
        );
    }

    #[test]
    fn input_and_environment_come_before_the_turn() {
        // S-DIA-2
        let mut world = World::created(Placement::OpenaiHosted, &["a"]);
        assert_eq!(of_session(&world.state()), None, "null unless failed");
        world.advance(time::RESERVATION_DEADLINE.as_secs());
        world.expire();
        let diagnosis = of_session(&world.state()).unwrap();
        assert_eq!(
            (diagnosis.source, diagnosis.code.as_str()),
            (Source::EnvironmentInput, "environment_connection_timeout")
        );
        world.fail_environment(FailureReason::Setup {
            index: 1,
            exit_code: 2,
        });
        let diagnosis = of_session(&world.state()).unwrap();
        assert_eq!(diagnosis.source, Source::Environment);
        let step = Some(ProvisioningStep::Setup);
        assert_eq!(
            diagnosis.code,
            Code::EnvironmentProvisioningFailed {
                step,
                index: Some(1),
                exit_code: Some(2)
            }
        );
    }
}
