//! What accepted input waits for, for operators: derived from what is stored and what the owner of execution sees.

use crate::SessionState;
use crate::environment::{EnvironmentKind, EnvironmentStatus, Initialization};
use crate::turn::TurnState;

/// What input waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The sandbox provider, which is not ready or was taken away (SP-12.2).
    Provider,
    /// A place: the provider holds as many sandboxes as it may.
    Sandbox,
    /// Its Environment, which is being made or prepared.
    Environment,
    /// The Runtime's connection.
    Runtime,
    /// A harness that the Runtime can run.
    Harness,
}

impl Waiting {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Provider,
        Self::Sandbox,
        Self::Environment,
        Self::Runtime,
        Self::Harness,
    ];

    /// The name as it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "provider_unavailable",
            Self::Sandbox => "sandbox_unavailable",
            Self::Environment => "environment_pending",
            Self::Runtime => "runtime_unavailable",
            Self::Harness => "harness_unavailable",
        }
    }
}

/// What the owner of execution sees at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// New sandboxes can be made.
    pub provider: bool,
    /// The connection of the Session's Runtime; none while it has none.
    pub runtime: Option<Connected>,
}

/// An open connection of a Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// It can run the Session's harness.
    pub harness: bool,
}

/// What the Session's input waits for. None when it has none, or when it is about to begin. Needs its allocation.
pub fn of(state: &SessionState, live: Live) -> Option<Waiting> {
    let queued = state
        .turn
        .as_ref()
        .is_some_and(|turn| turn.state == TurnState::Queued);
    if !queued && state.pending_reservation().is_none() {
        return None;
    }
    if let Some(environment) = &state.environment {
        let hosted = environment.kind == EnvironmentKind::OpenaiHosted;
        match environment.status {
            // It fails by itself (ENV-353).
            EnvironmentStatus::Failed | EnvironmentStatus::Expired => return None,
            EnvironmentStatus::Pending if hosted && state.allocation.is_none() => {
                return Some(if live.provider {
                    Waiting::Sandbox
                } else {
                    Waiting::Provider
                });
            }
            EnvironmentStatus::Pending if hosted => return Some(Waiting::Environment),
            EnvironmentStatus::Pending
            | EnvironmentStatus::Connected
            | EnvironmentStatus::Disconnected => {}
        }
        let prepared = matches!(environment.initialization, Initialization::Complete { .. });
        if live.runtime.is_some() && !prepared {
            return Some(Waiting::Environment);
        }
    }
    match live.runtime {
        None => Some(Waiting::Runtime),
        Some(Connected { harness: false }) => Some(Waiting::Harness),
        Some(Connected { harness: true }) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::FailureReason;
    use crate::session::Placement;
    use crate::testing::World;

    const READY: Live = Live {
        provider: true,
        runtime: Some(Connected { harness: true }),
    };

    #[test]
    fn input_of_a_hosted_session_waits_for_one_thing_after_the_other() {
        let nobody = Live {
            provider: false,
            runtime: None,
        };
        let alone = Live {
            provider: true,
            runtime: None,
        };
        let mut world = World::created(Placement::OpenaiHosted, &[]);
        assert_eq!(of(&world.state(), nobody), None, "no input, no wait");
        world.say("a").unwrap();
        assert_eq!(of(&world.state(), nobody), Some(Waiting::Provider));
        assert_eq!(of(&world.state(), alone), Some(Waiting::Sandbox));
        assert!(world.allocate(1));
        for live in [nobody, alone] {
            assert_eq!(of(&world.state(), live), Some(Waiting::Environment));
        }
        world.connect();
        assert_eq!(of(&world.state(), READY), Some(Waiting::Environment));
        assert!(world.begin_init() && world.complete_init());
        assert_eq!(of(&world.state(), READY), None, "promotion is next");
        let lacks = Live {
            runtime: Some(Connected { harness: false }),
            ..READY
        };
        assert_eq!(of(&world.state(), lacks), Some(Waiting::Harness));
        world.lost();
        assert_eq!(of(&world.state(), nobody), Some(Waiting::Runtime));
        let mut world = World::created(Placement::OpenaiHosted, &["a"]);
        assert!(world.fail_environment(FailureReason::Python { exit_code: 1 }));
        assert_eq!(of(&world.state(), nobody), None, "it has failed");
    }

    #[test]
    fn input_without_an_environment_waits_for_runtime_and_harness() {
        let world = World::created(Placement::None, &["a"]);
        let live = |runtime| Live {
            provider: false,
            runtime,
        };
        let (with, without) = (
            Some(Connected { harness: true }),
            Some(Connected { harness: false }),
        );
        assert_eq!(of(&world.state(), live(None)), Some(Waiting::Runtime));
        assert_eq!(of(&world.state(), live(without)), Some(Waiting::Harness));
        assert_eq!(of(&world.state(), live(with)), None);
    }

    // S-DIA-1: an operator who sees a code finds what it means.
    #[test]
    fn every_wait_is_explained_to_operators() {
        let page = include_str!("../../docs/operating.md");
        let (_, page) = page.split_once("## What a message waits for").unwrap();
        for waiting in Waiting::ALL {
            let row = format!("| `{}` |", waiting.as_str());
            assert!(page.lines().any(|line| line.starts_with(&row)), "{row}");
        }
    }
}
