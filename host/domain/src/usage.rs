//! Token usage: measured snapshots of a Turn, and their sum over a Session (S-USE-1…5). Absent is unknown, never zero.

use serde::{Deserialize, Serialize};

/// A complete usage snapshot. It replaces the former one of its Turn; it is never added to it (S-USE-1, RP-11.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Of them read from a cache.
    pub cached_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Of them reasoning.
    pub reasoning_tokens: u64,
    /// Total tokens as the harness reports them.
    pub total_tokens: u64,
}

impl Usage {
    /// Sum of two Turns; saturates.
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
        }
    }
}

/// Sum over the ended root Turns of a Session (S-USE-2). Subagent Turns never count (S-USE-3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "usage")]
pub enum UsageSum {
    /// No root Turn has ended.
    #[default]
    Nothing,
    /// Every ended root Turn had known usage.
    Known(Usage),
    /// Some ended root Turn had none: unknown for good.
    Unknown,
}

impl UsageSum {
    /// The sum after one more root Turn ended with this usage.
    pub fn with_turn(self, usage: Option<Usage>) -> Self {
        match (self, usage) {
            (Self::Unknown, _) | (_, None) => Self::Unknown,
            (Self::Nothing, Some(usage)) => Self::Known(usage),
            (Self::Known(sum), Some(usage)) => Self::Known(sum.plus(usage)),
        }
    }

    /// The public value while no root Turn is active.
    pub fn public(self) -> Option<Usage> {
        match self {
            Self::Known(usage) => Some(usage),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(tokens: u64) -> Usage {
        Usage {
            input_tokens: tokens,
            total_tokens: tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn one_unknown_turn_makes_the_sum_unknown_for_good() {
        // S-USE-2
        let sum = UsageSum::default()
            .with_turn(Some(usage(1)))
            .with_turn(Some(usage(2)));
        assert_eq!(sum.public(), Some(usage(3)));
        assert_eq!(sum.with_turn(None).with_turn(Some(usage(4))).public(), None);
    }

    #[test]
    fn nothing_measured_is_null_not_zero() {
        // S-USE-1
        assert_eq!(UsageSum::default().public(), None);
    }
}
