//! Every row of the Environment, connection and initialization machines (state-machines 1.6–1.8).

use super::{ConnectionState, EnvironmentStatus, FailureReason, Initialization, Observe};
use crate::session::{Placement, SessionStatus, project};
use crate::testing::World;

fn environment(world: &World) -> super::Environment {
    world.model.environment.clone().unwrap()
}

/// A self-hosted machine that is connected and bound.
fn connected() -> World {
    let mut world = World::created(Placement::SelfHosted, &[]);
    world.bind();
    world.connect();
    world
}

#[test]
fn c1_a_new_socket_takes_over() {
    let mut world = connected();
    let old = environment(&world).observation;
    let (_, events) = world.during(World::register);
    assert_eq!(events, ["environment.disconnected"], "V3 in the same unit");
    let new = environment(&world).observation;
    assert_eq!((new.generation, new.revision), (old.generation + 1, 0));
    assert_eq!(new.state, ConnectionState::Registered);
    assert_ne!(new.connection_id, old.connection_id);
    let before = world.model.clone();
    assert!(
        !world.observe(Observe::Lost {
            generation: old.generation,
            revision: u64::MAX
        }),
        "C4"
    );
    assert_eq!(world.model, before);
}

#[test]
fn c2_only_a_registered_socket_becomes_connected() {
    let mut world = World::created(Placement::SelfHosted, &[]);
    assert!(!world.connected(), "never registered");
    world.register();
    let (_, events) = world.during(World::connected);
    assert_eq!(events, ["environment.connected"]);
    assert!(!world.connected(), "connected already");
}

#[test]
fn c4_an_older_revision_is_inert() {
    let mut world = World::created(Placement::SelfHosted, &[]);
    world.register();
    assert!(!world.observe(Observe::Connected {
        generation: 1,
        revision: 0
    }));
    assert!(world.observe(Observe::Connected {
        generation: 1,
        revision: 7
    }));
    assert!(!world.observe(Observe::Lost {
        generation: 1,
        revision: 7
    }));
    assert!(world.observe(Observe::Lost {
        generation: 1,
        revision: 8
    }));
}

#[test]
fn c5_a_new_owner_closes_what_the_former_one_saw() {
    let mut world = connected();
    let (stored, events) = world.during(|world| world.observe(Observe::OwnerLost));
    assert_eq!((stored, events), (true, vec!["environment.disconnected"]));
    assert!(!world.observe(Observe::OwnerLost), "twice = once (I30)");
}

#[test]
fn v7_terminal_environments_take_observations_silently() {
    let mut world = World::created(Placement::SelfHosted, &[]);
    world.fail_environment(FailureReason::HarnessUnavailable);
    let (_, events) = world.during(World::connect);
    assert!(events.is_empty());
    assert_eq!(environment(&world).status, EnvironmentStatus::Failed);
    assert_eq!(
        environment(&world).observation.state,
        ConnectionState::Connected
    );
}

#[test]
fn n1_n3_initialization_begins_once_on_a_connected_socket() {
    let mut world = World::created(Placement::SelfHosted, &[]);
    world.bind();
    assert!(!world.begin_init(), "ENV-352: no socket uses nothing up");
    world.connect();
    assert!(world.begin_init());
    assert!(!world.begin_init(), "I6");
    assert!(matches!(
        environment(&world).initialization,
        Initialization::Running { .. }
    ));
}

#[test]
fn n5_completion_needs_the_same_socket_and_binding() {
    let mut running = connected();
    running.begin_init();
    let (complete, events) = running.clone().during(World::complete_init);
    assert_eq!((complete, events), (true, vec!["environment.ready"]));

    let mut replaced = running.clone();
    replaced.connect();
    assert!(!replaced.complete_init(), "ENV-354: another generation");
    let mut lost = running.clone();
    lost.lost();
    assert!(!lost.complete_init());
    let mut taken = running;
    taken.epoch.0 += 1;
    assert!(!taken.complete_init(), "another owner");
}

#[test]
fn n5_completion_is_for_ever() {
    // ENV-359, I14
    let mut world = World::ready(Placement::SelfHosted, &[]);
    let (failed, events) = world.during(|world| world.fail_environment(FailureReason::Incomplete));
    assert_eq!((failed, events), (false, vec![]));
    world.lost();
    world.connect();
    assert!(!world.begin_init());
}

#[test]
fn v4_failure_is_one_commit_and_final() {
    // S-SEQ-7, ENV-361, ENV-362
    let mut world = connected();
    world.begin_init();
    world.advance(9);
    let reason = FailureReason::Setup {
        index: 2,
        exit_code: 7,
    };
    let (_, events) = world.during(|world| assert!(world.fail_environment(reason)));
    assert_eq!(events, ["environment.failed", "error", "failed"]);
    let shown = project(&world.state());
    assert_eq!(shown.status, SessionStatus::Failed);
    assert_eq!(
        shown.error.as_deref(),
        Some(
            "Failed to provision environment: script \"setup_commands[2]\" failed with exit code 7"
        )
    );
    assert_eq!(shown.last_active_at, world.now);
    world.advance(9);
    assert!(
        !world.fail_environment(FailureReason::Incomplete),
        "first wins"
    );
    assert!(world.delete().is_ok(), "S-ENV-5");
    assert_eq!(environment(&world).status, EnvironmentStatus::Failed, "V6");
}

#[test]
fn n7_deletion_abandons_a_running_initialization() {
    // D22
    let mut world = connected();
    world.begin_init();
    world.delete().unwrap();
    assert_eq!(environment(&world).initialization, Initialization::Failed);
    assert!(!world.complete_init(), "late receipts are inert");
    assert!(!world.fail_environment(FailureReason::Incomplete));
}

#[test]
fn reasons_have_the_fixed_texts() {
    // ENV-370…376
    let script = "Failed to provision environment: script";
    for (reason, text) in [
        (FailureReason::Python { exit_code: 1 }, format!("{script} \"Python package installation\" failed with exit code 1")),
        (FailureReason::Npm { exit_code: 255 }, format!("{script} \"npm package installation\" failed with exit code 255")),
        (FailureReason::File, "Failed to provision environment: initial file installation failed".into()),
        (FailureReason::Skill, "Failed to provision environment: Skill installation failed".into()),
        (FailureReason::Incomplete, "Failed to provision environment: initialization did not complete".into()),
        (
            FailureReason::HarnessUnavailable,
            "Failed to prepare environment: the selected Harness is unavailable. Install the supported Harness version on \
             the Runtime and create a new Session."
                .into(),
        ),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}
