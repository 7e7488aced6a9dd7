//! What a write unit is: a named struct with its inputs, a durability, and whether it needs the execution lease.

use crate::{error::UnitError, tx::Tx};

/// When a commit may be announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Survives `kill -9`, not a power cut; the next synced commit makes it durable.
    Flushed,
    /// On disk before anybody hears of it.
    Synced,
}

/// One entrance for writes. The body loads rows, calls one domain function and applies its changes.
///
/// A body may run more than once (a lock was not free); it must depend on nothing but `self` and the database.
pub trait Unit: Send + Sync + 'static {
    /// Name of the unit: crash points, metrics and the fencing test hang on it.
    const NAME: &'static str;
    /// Whether it may run only under the execution lease.
    const LEASED: bool;
    /// What the caller learns.
    type Answer: Send + 'static;
    /// Why the rules may refuse it.
    type Refusal: Send + 'static;

    /// When its commit may be announced.
    fn durability(&self) -> Durability {
        Durability::Synced
    }

    /// The body.
    fn run(
        &self,
        tx: &mut Tx<'_>,
    ) -> impl Future<Output = Result<Self::Answer, UnitError<Self::Refusal>>> + Send;
}
