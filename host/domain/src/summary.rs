//! What a group of Sessions amounts to (OPS-070, OPS-071). Not a bill: what was not measured is told, never guessed.

use crate::Timestamp;
use crate::session::{SessionStatus, project};
use crate::session_state::SessionState;
use crate::usage::Usage;

/// Counts over Sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Sessions by their public status.
    pub idle: u64,
    /// See [`Summary::idle`].
    pub in_progress: u64,
    /// See [`Summary::idle`].
    pub requires_action: u64,
    /// See [`Summary::idle`].
    pub failed: u64,
    /// Tokens of the Sessions whose usage is known.
    pub usage: Usage,
    /// How many those are.
    pub measured: u64,
    /// Latest activity of any.
    pub last_active_at: Option<Timestamp>,
}

impl Summary {
    /// Takes one more Session. A Turn under way adds nothing before its end.
    pub fn add(&mut self, state: &SessionState) {
        let shown = project(state);
        *match shown.status {
            SessionStatus::Idle => &mut self.idle,
            SessionStatus::InProgress => &mut self.in_progress,
            SessionStatus::RequiresAction => &mut self.requires_action,
            SessionStatus::Failed => &mut self.failed,
        } += 1;
        if let Some(usage) = state.session.usage.public() {
            self.usage = self.usage.plus(usage);
            self.measured += 1;
        }
        self.last_active_at = self.last_active_at.max(Some(shown.last_active_at));
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.idle + self.in_progress + self.requires_action + self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Placement;
    use crate::testing::World;
    use crate::usage::UsageSum;

    #[test]
    fn unknown_usage_adds_no_tokens_and_lowers_the_coverage() {
        // OPS-071
        let mut summary = Summary::default();
        assert_eq!((summary.total(), summary.last_active_at), (0, None));
        let usage = |tokens| {
            UsageSum::Known(Usage {
                total_tokens: tokens,
                ..Usage::default()
            })
        };
        for (sum, active) in [
            (usage(3), 5),
            (UsageSum::Unknown, 9),
            (UsageSum::Nothing, 7),
            (usage(4), 1),
        ] {
            let mut state = World::created(Placement::OpenaiHosted, &[]).state();
            state.session.usage = sum;
            state.session.last_active_at = Timestamp::from_millis(active);
            summary.add(&state);
        }
        assert_eq!((summary.total(), summary.idle, summary.measured), (4, 4, 2));
        assert_eq!(summary.usage.total_tokens, 7);
        assert_eq!(summary.last_active_at, Some(Timestamp::from_millis(9)));
    }
}
