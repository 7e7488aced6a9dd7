//! How a Run ended, and what the end asks of the Turn.

pub use crate::turn::Ending;
use crate::turn::FailureClass;

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
