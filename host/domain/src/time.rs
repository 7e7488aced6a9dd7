//! Time as a value. The domain has no clock: `now` is read from the database inside the unit and passed in (SC-11.1).

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment of the database clock in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down: the public form (W-TIME-1).
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn as_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(as_millis(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(as_millis(duration)))
    }
}

/// A reservation waits this long for its Environment (S-RES-2).
pub const RESERVATION_DEADLINE: Duration = Duration::from_secs(5 * 60);
/// The request that waits for a reservation may stay open this long (S-RES-3).
pub const RESERVATION_WAIT: Duration = Duration::from_secs(6 * 60);
/// Life of the execution lease without renewal (SC-12.4, D31).
pub const LEASE_TTL: Duration = Duration::from_secs(30);
/// Interval of lease renewal (D31).
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);
/// The owner stops this long before others may take the lease (D31).
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// The socket of an ended Environment waits this long, from its request, for the receipt of a cancel (SC-10.5, D42).
pub const ARCHIVE_CANCEL: Duration = Duration::from_secs(20);
/// One initialization step (S-ENV-3).
pub const INIT_STEP: Duration = Duration::from_secs(2 * 60);
/// The whole initialization (S-ENV-3).
pub const INIT_TOTAL: Duration = Duration::from_secs(30 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_seconds_round_down_even_before_the_epoch() {
        assert_eq!(Timestamp::from_millis(1_999).seconds(), 1);
        assert_eq!(Timestamp::from_millis(-1).seconds(), -1);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(
            Timestamp::from_millis(i64::MAX) + Duration::MAX,
            Timestamp::from_millis(i64::MAX)
        );
        assert_eq!(
            Timestamp::from_millis(5).since(Timestamp::from_millis(9)),
            Duration::ZERO
        );
    }
}
