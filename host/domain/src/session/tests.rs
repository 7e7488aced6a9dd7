//! Creation, status, deletion and archive, row by row.

use crate::Refusal;
use crate::environment::EnvironmentStatus;
use crate::event::{Cause, EventPayload};
use crate::session::{Archived, Deleted, Placement, SessionStatus, project};
use crate::testing::World;
use crate::turn::Ending;

fn status(world: &World) -> SessionStatus {
    project(&world.state()).status
}

#[test]
fn created_on_none_begins_its_turn_in_the_same_commit() {
    // 4.4/1, T1, S-SEQ-1, D19
    let world = World::created(Placement::None, &["a", "b"]);
    assert_eq!(
        world.types(0),
        [
            "created",
            "turn.created",
            "turn.item.added",
            "in_progress",
            "turn.item.added"
        ]
    );
    let EventPayload::Session { snapshot, .. } = &world.model.events[0] else {
        panic!("created first")
    };
    assert_eq!(snapshot.status, SessionStatus::InProgress);
}

#[test]
fn created_hosted_is_idle_with_and_without_input() {
    // 4.1/1, 4.2, V1, R1
    for texts in [&["a"][..], &[]] {
        let world = World::created(Placement::OpenaiHosted, texts);
        assert_eq!(world.types(0), ["created", "environment.pending"]);
        assert_eq!(status(&world), SessionStatus::Idle);
        assert_eq!(
            world.state().pending_reservation().is_some(),
            !texts.is_empty()
        );
    }
}

#[test]
fn created_self_hosted_asks_for_its_machine_only_with_input() {
    // 4.11/1, P4, ENV-243, S-SEQ-8, S-SEQ-8a
    let world = World::created(Placement::SelfHosted, &["a"]);
    assert_eq!(
        world.types(0),
        ["created", "requires_action", "environment.pending"]
    );
    let EventPayload::Session { snapshot, .. } = &world.model.events[0] else {
        panic!("created first")
    };
    assert_eq!(snapshot.status, SessionStatus::RequiresAction, "S-CS-1");
    let world = World::created(Placement::SelfHosted, &[]);
    assert_eq!(world.types(0), ["created", "environment.pending"]);
    assert_eq!(status(&world), SessionStatus::Idle);
}

#[test]
fn none_needs_input() {
    // S-SES-9
    let mut world = World::empty();
    let new = world.new_session(Placement::None, Vec::new());
    assert_eq!(
        world.with(|cx| super::create(new, cx)),
        Err(Refusal::InputRequired)
    );
}

#[test]
fn connection_clears_the_action_and_ends_no_stream() {
    // P4, P5, V2, ENV-167, ENV-242
    let mut world = World::created(Placement::SelfHosted, &["a"]);
    world.bind();
    let (_, events) = world.during(World::connect);
    assert_eq!(events, ["environment.connected", "idle"]);
    let Some(EventPayload::Session { cause, .. }) = world.model.events.last() else {
        panic!("a Session event")
    };
    assert_eq!(*cause, Cause::Other);
    let (_, events) = world.during(World::lost);
    assert_eq!(events, ["environment.disconnected", "requires_action"]); // V3
}

#[test]
fn busy_sessions_are_not_deleted() {
    // S-DEL-1, S-DEL-3, 4.10
    let mut reserved = World::created(Placement::OpenaiHosted, &["a"]);
    assert_eq!(
        reserved.delete(),
        Err(Refusal::NotDeletable),
        "idle with a pending reservation"
    );
    let mut queued = World::created(Placement::None, &["a"]);
    assert_eq!(queued.delete(), Err(Refusal::NotDeletable));
    let mut running = World::running(Placement::OpenaiHosted);
    assert_eq!(running.delete(), Err(Refusal::NotDeletable));
    running.cancel().unwrap();
    assert_eq!(
        running.delete(),
        Err(Refusal::NotDeletable),
        "a requested cancel is busy"
    );
}

#[test]
fn deletion_expires_the_environment_silently_and_is_repeatable() {
    // S-DEL-2, S-DEL-4, D22, V5, 1.16
    let mut world = World::ready(Placement::OpenaiHosted, &[]);
    let (deleted, events) = world.during(World::delete);
    assert_eq!((deleted, events), (Ok(Deleted::Now), vec![]));
    let state = world.state();
    assert_eq!(
        state.environment.unwrap().status,
        EnvironmentStatus::Expired
    );
    assert!(state.device.unwrap().revoked_at.is_some());
    assert!(
        state
            .binding
            .unwrap()
            .release
            .unwrap()
            .acknowledged_at
            .is_some(),
        "D37"
    );
    let before = world.model.clone();
    assert_eq!(world.delete(), Ok(Deleted::Before));
    assert_eq!(world.model, before, "S-DEL-4: no write");
    assert_eq!(world.say("late"), Err(Refusal::NotFound));
}

#[test]
fn deletion_of_other_placements_owes_a_release() {
    // 1.16, RP-8.4
    for (placement, remove_home) in [(Placement::None, true), (Placement::SelfHosted, false)] {
        let mut world = if placement == Placement::None {
            let mut world = World::running(placement);
            world.finish(Ending::Completed);
            world
        } else {
            World::ready(placement, &[])
        };
        let epoch = world.state().binding.unwrap().epoch;
        world.delete().unwrap();
        let binding = world.state().binding.unwrap();
        assert_eq!(binding.epoch, epoch + 1);
        let release = binding.release.unwrap();
        assert_eq!(
            (release.remove_home, release.acknowledged_at),
            (remove_home, None)
        );
    }
}

#[test]
fn archive_settles_waiting_input_and_cancels_work() {
    // R7, A12, D42, OPS-043
    let mut waiting = World::created(Placement::OpenaiHosted, &["a"]);
    let (answer, events) = waiting.during(World::archive);
    assert_eq!((answer, events), (Ok(Archived::Now), vec!["idle"]));
    assert_eq!(waiting.archive(), Ok(Archived::Before));

    let mut running = World::running(Placement::OpenaiHosted);
    running.call("1");
    let (_, events) = running.during(World::archive);
    assert_eq!(events, ["in_progress"], "T13");
    assert!(running.state().turn.unwrap().cancel.is_some());

    let mut none = World::created(Placement::None, &["a"]);
    assert_eq!(none.archive(), Err(Refusal::NotHosted));
}
