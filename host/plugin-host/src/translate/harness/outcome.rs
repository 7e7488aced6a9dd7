//! How things ended.

use contract::common::Failure;
use contract::harness_events as theirs;
use contract::harness_io::Afterwards;
use domain::run::{FailureCode, PrepareCode, RunFailure, TurnStatus};

use super::event::cut;

/// Longest detail of a failure in bytes.
const FAILURE: usize = 4096;

/// How a Turn ended natively.
#[must_use]
pub fn turn_status(status: theirs::TurnStatus) -> TurnStatus {
    match status {
        theirs::TurnStatus::Completed => TurnStatus::Completed,
        theirs::TurnStatus::Failed => TurnStatus::Failed,
        theirs::TurnStatus::Cancelled => TurnStatus::Cancelled,
        theirs::TurnStatus::Unknown => TurnStatus::Unknown,
    }
}

/// A native failure; an unknown code is dropped and the failure stays (RP-11.5).
#[must_use]
pub fn run_failure(failure: theirs::NativeFailure) -> RunFailure {
    let code: Option<FailureCode> = failure.code.and_then(|code| code.parse().ok());
    let detail = cut(failure.detail, FAILURE);
    RunFailure::new(code, failure.http_status, detail)
}

/// Whether the process may take another Turn (TRN-006).
#[must_use]
pub fn is_reusable(afterwards: &Afterwards) -> bool {
    match afterwards {
        Afterwards::Reusable => true,
        Afterwards::Retire(_) => false,
    }
}

/// Why a preparation failed (RP-10.12). A code that we do not know is a confirmed failure without a Run, nothing more.
#[must_use]
pub fn prepare_code(failure: &Failure) -> PrepareCode {
    match failure.code.as_str() {
        "invalid_configuration" => PrepareCode::InvalidConfiguration,
        "unsupported_configuration" => PrepareCode::UnsupportedConfiguration,
        "unsupported_preparation" => PrepareCode::UnsupportedPreparation,
        "history_missing" => PrepareCode::HistoryMissing,
        "history_ambiguous" => PrepareCode::HistoryAmbiguous,
        "history_in_use" => PrepareCode::HistoryInUse,
        "mcp_required_failed" => PrepareCode::McpRequiredFailed,
        "program_missing" => PrepareCode::ProgramMissing,
        "program_failed" => PrepareCode::ProgramFailed,
        _ => PrepareCode::PreparationFailed,
    }
}

/// Why a start was refused before anything was submitted (RP-10.11).
#[must_use]
pub fn start_code(code: &str) -> PrepareCode {
    match code {
        "executor_unavailable" => PrepareCode::ExecutorUnavailable,
        "unsupported_content" => PrepareCode::UnsupportedConfiguration,
        _ => PrepareCode::PreparationFailed,
    }
}
