//! Every row of the allocation machine (state-machines 1.9).

use super::{AllocationPhase, Capacity, Observed, Record, Reserved, begin_resume, begin_suspend};
use crate::OperationId;
use crate::environment::EnvironmentStatus;
use crate::session::Placement;
use crate::testing::World;

fn phase(world: &World) -> AllocationPhase {
    world.model.allocation.as_ref().unwrap().phase
}

fn running(native_id: &str) -> Record {
    Record::Running {
        native_id: native_id.into(),
        lease_expires_at: None,
    }
}

fn creating() -> World {
    let mut world = World::created(Placement::OpenaiHosted, &[]);
    world.bind();
    assert!(world.begin_create());
    world
}

fn suspend(world: &mut World) -> bool {
    let operation = OperationId::new(world.uuid());
    let decided = begin_suspend(&world.state(), world.allocation_revision(), operation).unwrap();
    world.commit(decided)
}

fn resume(world: &mut World) -> bool {
    let operation = OperationId::new(world.uuid());
    let capacity = Capacity {
        used: 0,
        limit: Some(1),
    };
    let decided = begin_resume(
        &world.state(),
        world.allocation_revision(),
        capacity,
        operation,
    )
    .unwrap();
    world.commit(decided)
}

#[test]
fn a1_a2_one_allocation_ever_and_only_with_capacity() {
    let mut world = World::created(Placement::OpenaiHosted, &[]);
    assert_eq!(world.reserve(0), Reserved::NoCapacity, "A2");
    assert!(world.allocate(1));
    assert_eq!(phase(&world), AllocationPhase::Reserved);
    let state = world.state();
    assert_eq!(
        state.binding.unwrap().device_id,
        state.device.unwrap().id,
        "SP-4.1: one commit"
    );
    assert_eq!(world.reserve(9), Reserved::NotWanted, "I22");
    assert_eq!(
        world.reserve(0),
        Reserved::NotWanted,
        "that there is no room is not the reason"
    );
    let mut own = World::created(Placement::SelfHosted, &[]);
    assert_eq!(own.reserve(9), Reserved::NotWanted, "I22: hosted only");
}

#[test]
fn a3_create_is_granted_once() {
    let mut world = creating();
    assert_eq!(phase(&world), AllocationPhase::Creating);
    assert!(!world.begin_create(), "SP-4.3");
}

#[test]
fn a4_a6_creation_ends_running() {
    let mut world = creating();
    assert!(
        world.record(Record::Created {
            native_id: "m".into()
        }),
        "A6: bootstrap again"
    );
    assert_eq!(phase(&world), AllocationPhase::Creating);
    assert!(world.record(running("m")));
    assert_eq!(phase(&world), AllocationPhase::Running);
    let allocation = world.model.allocation.clone().unwrap();
    assert!(allocation.create_settled && allocation.bootstrap_complete);
}

#[test]
fn a5_a_refused_creation_fails_the_environment_and_releases() {
    // D25, 4.9
    let mut world = creating();
    let (recorded, events) = world.during(|world| world.record(Record::CreateRejected));
    assert!(recorded);
    assert_eq!(events, ["environment.failed", "error", "failed"]);
    assert_eq!(phase(&world), AllocationPhase::Releasing);
    assert!(world.state().device.unwrap().revoked_at.is_some());
    assert!(world.released());
}

#[test]
fn a8_to_a11_suspension_and_resumption() {
    let mut world = World::ready(Placement::OpenaiHosted, &[]);
    assert!(suspend(&mut world));
    assert!(
        world.record(Record::Resumed {
            lease_expires_at: None
        }),
        "A9: given up"
    );
    assert_eq!(phase(&world), AllocationPhase::Running);
    assert!(suspend(&mut world));
    assert!(world.record(Record::Suspended));
    assert!(!resume(&mut world), "A10 needs pending work");
    world.lost();
    world.say("wake").unwrap();
    assert!(resume(&mut world));
    assert!(!resume(&mut world), "one operation");
    assert!(
        world.record(Record::Resumed {
            lease_expires_at: None
        }),
        "A11"
    );
    assert!(!suspend(&mut world), "A8: input is pending");
}

#[test]
fn a12_to_a14_release_waits_for_a_settled_create() {
    // SP-9.1, SP-4.5, SP-9.5
    let mut uncertain = creating();
    uncertain.delete().unwrap();
    assert_eq!(phase(&uncertain), AllocationPhase::Releasing);
    assert!(!uncertain.released(), "A14: the create may still land");
    assert!(uncertain.record(Record::CreateSettled));
    assert!(uncertain.released());
    assert!(!uncertain.released(), "terminal");

    let mut reserved = World::created(Placement::OpenaiHosted, &[]);
    reserved.bind();
    reserved.delete().unwrap();
    assert!(reserved.released(), "nothing was ever sent");
}

#[test]
fn a12_the_end_of_an_allocation_cancels_running_work() {
    let mut world = World::running(Placement::OpenaiHosted);
    assert!(world.release_allocation());
    let state = world.state();
    assert!(state.turn.unwrap().cancel.is_some());
    assert_eq!(
        state.environment.unwrap().status,
        EnvironmentStatus::Expired
    );
    assert!(!world.release_allocation());
}

#[test]
fn a15_a_missing_machine_is_noted_and_never_replaced() {
    // ENV-095
    let mut world = World::ready(Placement::OpenaiHosted, &[]);
    assert!(world.record(Record::NotRunning(Observed::Missing)));
    assert!(
        !world.record(Record::NotRunning(Observed::Missing)),
        "the same again"
    );
    assert_eq!(phase(&world), AllocationPhase::Running);
    assert!(world.record(running("m-1")), "it is back");
    assert_eq!(world.model.allocation.as_ref().unwrap().observation, None);
    assert!(
        world.record(Record::Suspended),
        "A15a: stopped by itself, disks intact"
    );
    assert_eq!(phase(&world), AllocationPhase::Suspended);
}
