//! Every reachable combination of states × every command (state-machines 1 and 2): the machines explored to closure.
//!
//! Worlds that differ only in ids, times and history count as one. From each, every command is tried once; the invariants
//! are checked after each commit, so a row that would break one cannot hide behind an unlucky random sequence.

use std::collections::{BTreeSet, VecDeque};

use super::World;
use crate::allocation::Record;
use crate::call::CallState;
use crate::environment::{FailureReason, Initialization};
use crate::input::Delivery;
use crate::reservation::ReservationState;
use crate::session::{Placement, project};
use crate::turn::{Ending, RunPhase, TurnFailure, TurnState};

type Command = (&'static str, fn(&mut World));

/// Commands of everybody, in every placement; those that do not fit are refused or inert, which is checked too.
const COMMANDS: &[Command] = &[
    ("message", |world| {
        let _ = world.say("hi");
    }),
    ("cancel", |world| {
        let _ = world.cancel();
    }),
    ("result", |world| {
        let _ = world.answer("1", "one");
    }),
    ("delete", |world| {
        let _ = world.delete();
    }),
    ("archive", |world| {
        let _ = world.archive();
    }),
    ("deadline", |world| {
        world.advance(301);
        world.expire();
    }),
    ("expire early", |world| {
        let _ = world.expire();
    }),
    ("preparation fails", |world| {
        world.fail_reservation();
        world.fail_queued();
    }),
    ("bind", |world| {
        if world.model.binding.is_none() {
            world.bind();
        }
    }),
    ("create", |world| {
        let _ = world.begin_create();
    }),
    ("created", |world| {
        world.record(Record::Running {
            native_id: "m".into(),
            lease_expires_at: None,
        });
    }),
    ("create refused", |world| {
        let _ = world.record(Record::CreateRejected);
    }),
    ("retention", |world| {
        let _ = world.release_allocation();
    }),
    ("killed", |world| {
        let _ = world.released();
    }),
    ("register", |world| {
        if world.model.environment.is_some() {
            world.register();
        }
    }),
    ("connected", |world| {
        if world.model.environment.is_some() {
            world.connected();
        }
    }),
    ("lost", |world| {
        if world.model.environment.is_some() {
            world.lost();
        }
    }),
    ("begin init", |world| {
        let _ = world.begin_init();
    }),
    ("complete init", |world| {
        let _ = world.complete_init();
    }),
    ("environment fails", |world| {
        let _ = world.fail_environment(FailureReason::Incomplete);
    }),
    ("promote", |world| {
        if world.state().reservation.is_some() {
            world.promote();
        }
    }),
    ("claim", |world| {
        let _ = world.claim();
    }),
    ("function call", |world| {
        let _ = world.call("1");
    }),
    ("accepted", World::accept_inputs),
    ("applied", |world| {
        let _ = world.applied("1");
    }),
    ("run ends", |world| {
        let _ = world.settle();
    }),
    ("completed", |world| {
        let _ = world.finish(Ending::Completed);
    }),
    ("cancelled", |world| {
        let _ = world.finish(Ending::Cancelled);
    }),
    ("run fails", |world| {
        let _ = world.finish(Ending::Failed(TurnFailure::EventStreamIncomplete));
    }),
    ("recovery", |world| {
        let _ = world.interrupt();
    }),
];

/// The combination of states that the tables of state-machines speak about.
fn abstraction(world: &World) -> String {
    let state = world.state();
    let shown = project(&state);
    let turn = state.turn.as_ref().map(|turn| {
        let phase = match &turn.state {
            TurnState::Queued => "queued".to_owned(),
            TurnState::Active {
                phase: RunPhase::Running,
                ..
            } => "running".into(),
            TurnState::Active {
                phase: RunPhase::Waiting,
                ..
            } => "waiting".into(),
            TurnState::Active {
                phase: RunPhase::Capturing { .. },
                ..
            } => "capturing".into(),
            TurnState::Ended { outcome, .. } => format!("{outcome:?}"),
        };
        (
            phase,
            turn.cancel.is_some(),
            state
                .reservation
                .as_ref()
                .map(|row| row.work_seq > turn.work_seq),
        )
    });
    let reservation = state.reservation.as_ref().map(|row| match row.state {
        ReservationState::Admitted { .. } => format!("admitted {}", row.initial),
        other => format!("{other:?} {}", row.initial),
    });
    let environment = state.environment.as_ref().map(|row| {
        let initialization = match row.initialization {
            Initialization::Pending => "pending",
            Initialization::Running { generation, .. }
                if generation == row.observation.generation =>
            {
                "running"
            }
            Initialization::Running { .. } => "running on an older socket",
            Initialization::Complete { .. } => "complete",
            Initialization::Failed => "failed",
        };
        (row.status, row.observation.state, initialization)
    });
    let calls: Vec<_> = state
        .calls
        .iter()
        .filter(|call| {
            state
                .turn
                .as_ref()
                .is_some_and(|turn| turn.id == call.turn_id)
        })
        .map(|call| match call.state {
            CallState::Pending => "pending",
            CallState::Answered(_) => "answered",
            CallState::Applied(_) => "applied",
            CallState::Closed => "closed",
            CallState::Kept(_) => "kept",
        })
        .collect();
    let unsent = state
        .inputs
        .iter()
        .any(|input| input.delivery == Delivery::Stored);
    let allocation = state
        .allocation
        .as_ref()
        .map(|row| (row.phase, row.create_settled));
    let binding = state
        .binding
        .as_ref()
        .map(|row| row.release.map(|release| release.acknowledged_at.is_some()));
    let deleted = state.session.deleted_at.is_some();
    format!("{shown:?} {turn:?} {reservation:?} {environment:?} {calls:?} {unsent} {allocation:?} {binding:?} {deleted}")
        .replace(&shown.last_active_at.millis().to_string(), "")
}

/// Ids and times never make two worlds different.
fn key(world: &World) -> String {
    let mut text = abstraction(world);
    for id in [Some(
        world.state().turn.as_ref().map(|turn| turn.id.to_string()),
    )]
    .into_iter()
    .flatten()
    .flatten()
    {
        text = text.replace(&id, "turn");
    }
    text
}

/// Everything reachable from `start` without the commands named in `without`.
fn explore(start: World, without: &[&str]) -> BTreeSet<String> {
    let commands = || COMMANDS.iter().filter(|(name, _)| !without.contains(name));
    let mut seen = BTreeSet::from([key(&start)]);
    let mut todo = VecDeque::from([start]);
    while let Some(world) = todo.pop_front() {
        for (name, command) in commands() {
            let mut next = world.clone();
            next.advance(1);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                command(&mut next);
                next
            }));
            let next = outcome.unwrap_or_else(|_| {
                panic!("`{name}` breaks an invariant in {}", abstraction(&world))
            });
            // History does not matter to the machines; forgetting it would hide I11–I14, so it is kept but bounded.
            if next.model.events.len() < 120 && seen.insert(key(&next)) {
                todo.push_back(next);
            }
        }
    }
    seen
}

const RUN: &[&str] = &[
    "claim",
    "function call",
    "accepted",
    "applied",
    "run ends",
    "completed",
    "cancelled",
    "run fails",
    "recovery",
];
const PROVISION: &[&str] = &[
    "bind",
    "create",
    "created",
    "create refused",
    "begin init",
    "complete init",
    "environment fails",
];

#[test]
fn none_is_closed_under_every_command() {
    let states = explore(World::created(Placement::None, &["a"]), &[]);
    assert!(
        states.iter().any(|state| state.contains("Completed")),
        "the end of a Turn is reached"
    );
    assert!(states.iter().any(|state| state.contains("kept")));
}

#[test]
fn self_hosted_provisioning_is_closed_under_every_command() {
    let states = explore(
        World::created(Placement::SelfHosted, &["a"]),
        &[RUN, &["promote"]].concat(),
    );
    assert!(
        states
            .iter()
            .any(|state| state.contains("running on an older socket"))
    );
}

#[test]
fn self_hosted_execution_is_closed_under_every_command() {
    let without = [PROVISION, &["archive", "retention", "killed"]].concat();
    let states = explore(World::ready(Placement::SelfHosted, &["a"]), &without);
    let both = states
        .iter()
        .any(|state| state.contains("capturing\", true, Some(true)"));
    assert!(both, "a cancel and a reservation in capture");
}

#[test]
fn hosted_provisioning_is_closed_under_every_command() {
    let without = [RUN, &["promote"]].concat();
    let states = explore(World::created(Placement::OpenaiHosted, &["a"]), &without);
    assert!(states.iter().any(|state| state.contains("Released")));
}

#[test]
fn hosted_execution_is_closed_under_every_command() {
    let without = [PROVISION, &["register", "connected", "lost"]].concat();
    let states = explore(World::ready(Placement::OpenaiHosted, &["a"]), &without);
    let archived = states
        .iter()
        .any(|state| state.contains("Expired") && state.contains("capturing"));
    assert!(archived, "an archive while outputs are captured");
}
