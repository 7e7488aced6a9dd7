//! What the store tells an observer. Names of units are the labels; values of rows never appear.

use std::time::Duration;

/// How a unit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitOutcome {
    /// Committed.
    Committed,
    /// Refused by the rules; nothing written.
    Refused,
    /// Rolled back.
    Failed,
    /// Not known.
    Unknown,
}

/// Receives figures; called from the writer, so it must not block.
pub trait WriteObserver: Send + Sync {
    /// One unit ended after waiting and running for so long.
    fn unit(&self, name: &'static str, outcome: UnitOutcome, total: Duration);

    /// One commit of several units, with the time of the commit itself.
    fn commit(&self, units: usize, synced: bool, took: Duration);
}
