//! Answers of the machine routes (executor-credentials.md 3).

use axum::http::StatusCode;

use super::{ApiError, Row, SHAPE};

/// Answers of the machine routes (executor-credentials.md 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MachineError {
    /// 401: not the credential of this device, or not valid any more.
    Credential,
    /// 400: not exactly the expected members.
    Request,
    /// 426: another wire version (RP-3.4).
    IncompatibleVersion,
    /// 400: not a WebSocket request.
    Upgrade,
}

impl MachineError {
    pub(super) fn row(self) -> Row {
        match self {
            Self::Credential => Row::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "A valid device credential is required.",
            ),
            Self::Request => Row::bad(SHAPE, "The machine request is malformed."),
            Self::IncompatibleVersion => {
                let message = "This Runtime speaks another protocol version than this Core.";
                Row::new(
                    StatusCode::UPGRADE_REQUIRED,
                    "incompatible_version",
                    message,
                )
            }
            Self::Upgrade => Row::bad(SHAPE, "A WebSocket upgrade is expected."),
        }
    }
}

impl From<MachineError> for ApiError {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}
