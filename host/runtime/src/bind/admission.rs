//! One `prepare_id` (RP-10, state-machines 1.10): `preparing → ready → starting → started`, or an end before.

use std::time::Duration;

use domain::{
    PrepareId, RunId,
    run::{PrepareCode, PrepareState, PrepareStatus},
};
use tokio::time::Instant;

use crate::ask::Ask;

/// From the grant; nothing extends it (RP-10.4).
const LIFE: Duration = Duration::from_secs(300);

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The Executor is being made ready.
    Preparing,
    /// The Executor is reserved for it.
    Ready,
    /// The start is on its way to the harness.
    Starting {
        run: RunId,
        ask: Ask,
    },
    /// Over: started, released, expired or failed.
    Over,
}

/// One admission.
#[derive(Debug)]
pub(super) struct Admission {
    id: PrepareId,
    revision: u64,
    expires: Instant,
    pub(super) stage: Stage,
    last: PrepareState,
}

impl Admission {
    /// Granted now; the first status is `preparing`.
    pub(super) fn new(id: PrepareId, now: Instant) -> Self {
        Self { id, revision: 0, expires: now + LIFE, stage: Stage::Preparing, last: PrepareState::Preparing }
    }

    pub(super) fn id(&self) -> PrepareId {
        self.id
    }

    /// When it expires, while it can.
    pub(super) fn expires(&self) -> Option<Instant> {
        matches!(self.stage, Stage::Preparing | Stage::Ready).then_some(self.expires)
    }

    /// Milliseconds that are left.
    pub(super) fn left_ms(&self, now: Instant) -> u64 {
        u64::try_from(self.expires.saturating_duration_since(now).as_millis()).unwrap_or(u64::MAX)
    }

    /// The next observation.
    pub(super) fn observe(&mut self, state: PrepareState) -> PrepareStatus {
        self.last = state;
        self.revision += 1;
        self.status()
    }

    /// Ends it.
    pub(super) fn end(&mut self, state: PrepareState) -> PrepareStatus {
        self.stage = Stage::Over;
        self.observe(state)
    }

    /// The latest observation again (RP-6.2).
    pub(super) fn status(&self) -> PrepareStatus {
        PrepareStatus { prepare_id: self.id, revision: self.revision, state: self.last }
    }

    /// Why a start of it is refused, if it is (RP-10.7).
    pub(super) fn refusal(&self) -> Option<PrepareCode> {
        match self.stage {
            Stage::Ready => None,
            Stage::Preparing | Stage::Starting { .. } | Stage::Over => Some(PrepareCode::NotReady),
        }
    }
}
