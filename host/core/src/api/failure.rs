//! What a client hears of a failing store: refusals as they are, everything else as one text. The cause is logged.

use domain::Refusal;
use store::{StoreError, WriteError};

use super::error::ApiError;

/// A read failed.
pub(crate) fn read_failed(error: StoreError) -> ApiError {
    tracing::error!(%error, "a read failed");
    ApiError::Internal {
        effect_unknown: false,
    }
}

/// A write was refused or failed.
pub(crate) fn write_failed(error: WriteError<Refusal>) -> ApiError {
    match error {
        WriteError::Refused(refusal) => refusal.into(),
        WriteError::Store(error) => write_broke(&error),
    }
}

/// A creation was refused or failed; with a key a repetition finds out what happened.
pub(crate) fn creation_failed(error: WriteError<Refusal>, keyed: bool) -> ApiError {
    match write_failed(error) {
        ApiError::Internal { effect_unknown } => ApiError::Internal {
            effect_unknown: effect_unknown && !keyed,
        },
        other => other,
    }
}

/// A write failed in the store. After an unknown commit it may have happened: without a key a repetition is no retry (D27).
pub(crate) fn write_broke(error: &StoreError) -> ApiError {
    tracing::error!(%error, "a write failed");
    if matches!(error, StoreError::Full) {
        // Nothing was written, and the operator can make room.
        return ApiError::ExecutionUnavailable {
            effect_unknown: false,
        };
    }
    ApiError::Internal {
        effect_unknown: error.is_unknown(),
    }
}
