//! Token usage of a Turn: the growth of the thread's total.
//!
//! Codex repeats its last report when a model stream breaks and when a thread is resumed, so adding up `last` would
//! count requests twice; the total only grows when a request really reported its usage. `totalTokens` is not used: Codex
//! sets it to the size of the window when that is exceeded.

use sdk::harness_events::Usage;
use sdk::json::counter;
use serde_json::Value;

/// Counters of Codex. All are always told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    input: u32,
    cached: u32,
    output: u32,
    reasoning: u32,
}

impl Counters {
    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            input: counter(value, "inputTokens")?,
            cached: counter(value, "cachedInputTokens")?,
            output: counter(value, "outputTokens")?,
            reasoning: counter(value, "reasoningOutputTokens")?,
        })
    }

    fn zip(self, other: Self, with: fn(u32, u32) -> Option<u32>) -> Option<Self> {
        Some(Self {
            input: with(self.input, other.input)?,
            cached: with(self.cached, other.cached)?,
            output: with(self.output, other.output)?,
            reasoning: with(self.reasoning, other.reasoning)?,
        })
    }
}

/// The thread's total as last told; none = not known yet.
#[derive(Debug, Default)]
pub struct Meter {
    total: Option<Counters>,
}

impl Meter {
    /// A thread that never ran: its total is known to be zero.
    pub fn fresh() -> Self {
        Self {
            total: Some(Counters::default()),
        }
    }

    /// What one report adds to the Turn it names; none if it is unreadable.
    pub fn advance(&mut self, report: &Value) -> Option<Growth> {
        let usage = &report["tokenUsage"];
        let total = Counters::read(&usage["total"])?;
        let growth = match self.total {
            Some(before) => total.zip(before, u32::checked_sub),
            None => Counters::read(&usage["last"]),
        };
        self.total = Some(total);
        Some(Growth(growth))
    }
}

/// How much one report added; inside none = a counter went back, so nothing is known.
pub struct Growth(Option<Counters>);

/// Usage of one Turn so far. A Turn whose sum is not known any more reports nothing (TRN-012).
#[derive(Debug, Default)]
pub struct TurnUsage {
    sum: Counters,
    unknown: bool,
}

impl TurnUsage {
    /// Adds a report; the new snapshot if there is one (RP-11.3).
    pub fn add(&mut self, growth: Growth) -> Option<Usage> {
        let Some(added) = growth.0 else {
            self.unknown = true;
            return None;
        };
        let Some(sum) = self.sum.zip(added, u32::checked_add) else {
            self.unknown = true;
            return None;
        };
        if self.unknown || added == Counters::default() {
            return None;
        }
        self.sum = sum;
        Some(Usage {
            input: sum.input,
            cached: Some(sum.cached),
            output: sum.output,
            reasoning: Some(sum.reasoning),
            total: sum.input.checked_add(sum.output),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(total: u32, last: u32) -> Value {
        let counters = |n: u32| {
            json!({"inputTokens": n, "cachedInputTokens": 0, "outputTokens": n, "reasoningOutputTokens": 0,
                "totalTokens": 2 * n})
        };
        json!({"tokenUsage": {"total": counters(total), "last": counters(last)}})
    }

    fn total(usage: Option<Usage>) -> Option<u32> {
        usage.and_then(|usage| usage.total)
    }

    #[test]
    fn a_repeated_report_adds_nothing() {
        let (mut meter, mut turn) = (Meter::fresh(), TurnUsage::default());
        assert_eq!(
            total(turn.add(meter.advance(&report(5, 5)).unwrap())),
            Some(10)
        );
        assert_eq!(total(turn.add(meter.advance(&report(5, 5)).unwrap())), None);
        assert_eq!(
            total(turn.add(meter.advance(&report(9, 4)).unwrap())),
            Some(18)
        );
    }

    #[test]
    fn a_resumed_thread_does_not_count_earlier_turns() {
        let mut meter = Meter::default();
        let _ = meter.advance(&report(100, 7));
        let mut turn = TurnUsage::default();
        assert_eq!(
            total(turn.add(meter.advance(&report(103, 3)).unwrap())),
            Some(6)
        );
    }

    #[test]
    fn a_total_that_goes_back_makes_the_turn_unknown() {
        let (mut meter, mut turn) = (Meter::fresh(), TurnUsage::default());
        assert_eq!(
            total(turn.add(meter.advance(&report(5, 5)).unwrap())),
            Some(10)
        );
        assert_eq!(total(turn.add(meter.advance(&report(2, 2)).unwrap())), None);
        assert_eq!(total(turn.add(meter.advance(&report(9, 7)).unwrap())), None);
    }

    #[test]
    fn a_made_up_total_is_not_usage() {
        let (mut meter, mut turn) = (Meter::fresh(), TurnUsage::default());
        let mut full = report(0, 0);
        full["tokenUsage"]["total"]["totalTokens"] = json!(190_000);
        assert_eq!(total(turn.add(meter.advance(&full).unwrap())), None);
    }

    #[test]
    fn an_incomplete_report_is_no_report() {
        assert!(
            Meter::fresh()
                .advance(&json!({"tokenUsage": {"total": {"inputTokens": 1}}}))
                .is_none()
        );
    }
}
