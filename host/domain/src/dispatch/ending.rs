//! How a Run ended, and what the end asks of the Turn.

use crate::turn::{FailureClass, TurnFailure};

/// The Run's own end, as the Runtime's `error` and `done` events told it (RP-11.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// Without an error.
    Completed,
    /// By a cancel.
    Cancelled,
    /// With an error, classified where the harness told its class (RP-11.5).
    Failed(Option<FailureClass>),
}

/// What dispatch proposes for the Turn. The unit decides under the Session lock: an unapplied input or a requested
/// cancel may change it (SC-7.6, D14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The Run ended without an error.
    Completed,
    /// The cancel is confirmed, or nothing native ever ran (T19, T21).
    Cancelled,
    /// It cannot be called anything better.
    Failed(TurnFailure),
}
