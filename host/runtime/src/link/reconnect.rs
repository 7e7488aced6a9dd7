//! When to dial again (RP-3.14, RP-3.15, RP-3.8).

use std::time::Duration;

use protocol::wire::{CloseReason, Reaction};

/// Longest delay before a try.
const LONGEST: Duration = Duration::from_secs(10);
/// Upper bound of the first delay.
const FIRST: Duration = Duration::from_millis(500);
/// A connection that stood so long ends the row of failures.
const STOOD: Duration = Duration::from_secs(30);
/// Violations in a row until the daemon parks.
const VIOLATIONS: u32 = 5;

/// What to do after a connection or a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Dial again after this time.
    Dial(Duration),
    /// Make no request any more.
    Park,
}

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Reconnect {
    failures: u32,
    violations: u32,
}

impl Reconnect {
    /// After a try that opened no connection. `chance` is uniform in 0 to 1.
    pub(super) fn failed(&mut self, chance: f64) -> Next {
        self.failures = self.failures.saturating_add(1);
        Next::Dial(self.delay(chance))
    }

    /// After a connection that stood for `stood` and ended by `reason`, if one was given. `later` is the delay that Core asked for.
    pub(super) fn closed(
        &mut self,
        reason: Option<CloseReason>,
        later: Option<Duration>,
        stood: Duration,
        chance: f64,
    ) -> Next {
        if stood >= STOOD {
            self.failures = 0;
            self.violations = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let reaction = reason.map(CloseReason::reaction);
        if reaction != Some(Reaction::BackOff) {
            // Only violations that follow each other park.
            self.violations = 0;
        }
        match reaction {
            // This daemon has one connection at a time, so only another one can have replaced it.
            Some(Reaction::Park | Reaction::ParkIfOther) => Next::Park,
            Some(Reaction::BackOff) => {
                self.violations += 1;
                if self.violations >= VIOLATIONS {
                    Next::Park
                } else {
                    Next::Dial(self.delay(chance))
                }
            }
            Some(Reaction::ReconnectLater) => {
                Next::Dial(later.unwrap_or_else(|| self.delay(chance)))
            }
            Some(Reaction::Reconnect) | None => {
                Next::Dial(later.unwrap_or_else(|| self.delay(chance)))
            }
        }
    }

    fn delay(&self, chance: f64) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        FIRST
            .saturating_mul(1 << doublings)
            .min(LONGEST)
            .mul_f64(chance.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RP-3.14
    #[test]
    fn the_bound_of_the_delay_doubles_up_to_ten_seconds_and_starts_again() {
        let mut reconnect = Reconnect::default();
        let bounds: Vec<_> = (0..7).map(|_| reconnect.failed(1.0)).collect();
        let expected = [500, 1000, 2000, 4000, 8000, 10_000, 10_000]
            .map(|ms| Next::Dial(Duration::from_millis(ms)));
        assert_eq!(bounds, expected);
        assert_eq!(reconnect.failed(0.0), Next::Dial(Duration::ZERO));
        let after = reconnect.closed(None, None, STOOD, 1.0);
        assert_eq!(after, Next::Dial(Duration::from_millis(500)));
    }

    // RP-3.15, RP-3.8
    #[test]
    fn permanent_reasons_park_and_violations_park_after_five() {
        let short = Duration::from_secs(1);
        for reason in CloseReason::ALL {
            let parks = Reconnect::default().closed(Some(reason), None, short, 1.0) == Next::Park;
            assert_eq!(parks, reason.code() <= 4005, "{reason:?}");
        }
        let mut reconnect = Reconnect::default();
        for n in 1..=5 {
            let next = reconnect.closed(Some(CloseReason::ProtocolViolation), None, short, 1.0);
            assert_eq!(next == Next::Park, n == 5);
        }
        let mut reconnect = Reconnect::default();
        for reason in [CloseReason::ProtocolViolation, CloseReason::Overloaded] {
            for _ in 0..4 {
                assert_ne!(reconnect.closed(Some(reason), None, short, 1.0), Next::Park);
            }
        }
        let next = reconnect.closed(Some(CloseReason::ProtocolViolation), None, short, 1.0);
        assert_ne!(next, Next::Park, "five, but not in a row");
    }

    // RP-18.3
    #[test]
    fn core_may_name_the_delay() {
        let later = Some(Duration::from_secs(60));
        let next =
            Reconnect::default().closed(Some(CloseReason::Suspended), later, Duration::ZERO, 0.5);
        assert_eq!(next, Next::Dial(Duration::from_secs(60)));
    }
}
