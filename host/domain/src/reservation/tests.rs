//! Every row of the reservation machine (state-machines 1.4), and its races.

use super::{PromotionRefused, Waiting, answer};
use crate::allocation::Record;
use crate::environment::FailureReason;
use crate::event::{Cause, EventPayload};
use crate::input::Admission;
use crate::reservation::Promotion;
use crate::session::{Placement, SessionStatus, project};
use crate::testing::World;
use crate::turn::Ending;
use crate::{Refusal, time};

fn status(world: &World) -> SessionStatus {
    project(&world.state()).status
}

fn outcome(world: &World) -> Result<Waiting, Refusal> {
    answer(&world.state().reservation.unwrap())
}

/// Past the deadline of a reservation made now.
fn overdue(world: &mut World) {
    world.advance(time::RESERVATION_DEADLINE.as_secs());
}

fn last_cause(world: &World) -> Cause {
    let cause = |event: &EventPayload| match event {
        EventPayload::Session { cause, .. } => Some(*cause),
        _ => None,
    };
    world.model.events.iter().rev().find_map(cause).unwrap()
}

#[test]
fn r2_later_input_is_reserved_by_placement_and_connection() {
    for (placement, connected, events) in [
        (Placement::OpenaiHosted, true, vec![]),
        (Placement::OpenaiHosted, false, vec![]),
        (Placement::SelfHosted, true, vec![]),
        (Placement::SelfHosted, false, vec!["requires_action"]),
    ] {
        let mut world = World::ready(placement, &[]);
        if !connected {
            world.lost();
        }
        let (admission, seen) = world.during(|world| world.say("hi"));
        assert!(matches!(admission, Ok(Admission::Waits { .. })));
        assert_eq!(seen, events, "{placement:?} {connected}");
        assert_eq!(outcome(&world), Ok(Waiting::Pending));
    }
}

#[test]
fn r2_from_failed_the_session_is_usable_again() {
    // S-ST-1
    let mut world = World::running(Placement::OpenaiHosted);
    world.interrupt();
    let (_, events) = world.during(|world| world.say("hi").unwrap());
    assert_eq!(events, ["idle"]);
}

#[test]
fn r3_promotion_is_one_commit() {
    // T2, 4.1/8, ENV-214
    let mut world = World::ready(Placement::OpenaiHosted, &["a"]);
    let (promotion, events) = world.during(World::promote);
    let Promotion::Claimed { turn_id } = promotion else {
        panic!("{promotion:?}")
    };
    assert_eq!(
        events,
        [
            "turn.created",
            "turn.item.added",
            "in_progress",
            "turn.in_progress"
        ]
    );
    assert_eq!(outcome(&world), Ok(Waiting::Admitted { turn_id }));
    let before = world.model.clone();
    assert_eq!(
        world.promote(),
        Promotion::Replay { turn_id },
        "ENV-217: no right twice"
    );
    assert_eq!(world.model, before);
}

#[test]
fn promotion_rechecks_everything_under_the_lock() {
    // D39, SC-7.2
    let refused = |world: &mut World, expected| {
        let before = world.model.clone();
        assert_eq!(world.promote(), Promotion::Refused(expected));
        assert_eq!(world.model, before, "I33");
    };
    let ready = World::ready(Placement::OpenaiHosted, &["a"]);

    let mut world = ready.clone();
    assert_eq!(
        world.promote_as(|promote| promote.generation -= 1),
        Promotion::Refused(PromotionRefused::ConnectionChanged)
    );
    assert_eq!(
        world.promote_as(|promote| promote.claim.binding_epoch += 1),
        Promotion::Refused(PromotionRefused::BindingChanged)
    );
    let mut world = ready.clone();
    world.lost();
    refused(&mut world, PromotionRefused::ConnectionChanged);

    let mut world = ready.clone();
    overdue(&mut world);
    refused(&mut world, PromotionRefused::DeadlinePassed);

    let mut world = ready.clone();
    world.archive().unwrap();
    refused(&mut world, PromotionRefused::Settled);

    let mut world = World::created(Placement::SelfHosted, &["a"]);
    world.bind();
    world.connect();
    refused(&mut world, PromotionRefused::NotInitialized);

    let mut world = World::running(Placement::OpenaiHosted);
    world.settle();
    world.say("next").unwrap();
    refused(&mut world, PromotionRefused::TurnActive);
    world.finish(Ending::Completed);
    assert!(matches!(world.promote(), Promotion::Claimed { .. }));
}

#[test]
fn r4_expiry_by_kind() {
    // ENV-172, ENV-223, 4.8
    let mut initial = World::created(Placement::OpenaiHosted, &["a"]);
    assert!(!initial.expire(), "not due");
    overdue(&mut initial);
    let (expired, events) = initial.during(World::expire);
    assert_eq!((expired, events), (true, vec!["failed"]));
    assert!(matches!(
        last_cause(&initial),
        Cause::ReservationSettled { .. }
    ));
    assert_eq!(outcome(&initial), Err(Refusal::InputExpired));
    assert!(!initial.expire(), "R10");

    for placement in [Placement::OpenaiHosted, Placement::SelfHosted] {
        let mut later = World::ready(placement, &[]);
        later.lost();
        later.say("a").unwrap();
        overdue(&mut later);
        let (_, events) = later.during(World::expire);
        assert_eq!(events, ["idle"], "D3");
        assert_eq!(status(&later), SessionStatus::Idle);
    }
}

#[test]
fn r4_expiry_while_capturing_says_nothing() {
    let mut world = World::running(Placement::OpenaiHosted);
    world.settle();
    world.say("next").unwrap();
    overdue(&mut world);
    let (expired, events) = world.during(World::expire);
    assert_eq!((expired, events), (true, vec![]));
    let (_, events) = world.during(|world| world.finish(Ending::Completed));
    assert_eq!(events, ["turn.completed", "idle"]);
}

#[test]
fn expire_and_promote_have_one_winner_in_both_orders() {
    // I28, ENV-221
    let ready = World::ready(Placement::OpenaiHosted, &["a"]);
    let mut promoted = ready.clone();
    promoted.promote();
    overdue(&mut promoted);
    assert!(!promoted.expire());
    assert!(matches!(outcome(&promoted), Ok(Waiting::Admitted { .. })));

    let mut expired = ready;
    overdue(&mut expired);
    assert!(expired.expire());
    assert_eq!(
        expired.promote(),
        Promotion::Refused(PromotionRefused::Settled)
    );
    assert!(expired.model.turns.is_empty());
}

#[test]
fn r5_a_definite_preparation_failure_frees_the_input_gate() {
    // ENV-226…228, D9
    let mut world = World::ready(Placement::OpenaiHosted, &["a"]);
    let (_, events) = world.during(|world| assert!(world.fail_reservation()));
    assert_eq!(events, ["failed"]);
    assert_eq!(outcome(&world), Err(Refusal::EnvironmentUnavailable));
    assert!(matches!(world.say("again"), Ok(Admission::Waits { .. })));
}

#[test]
fn r6_the_environment_takes_its_waiting_input_with_it() {
    let mut world = World::created(Placement::OpenaiHosted, &["a"]);
    let (_, events) =
        world.during(|world| assert!(world.fail_environment(FailureReason::Incomplete)));
    assert_eq!(events, ["environment.failed", "error", "failed"]);
    assert_eq!(last_cause(&world), Cause::InitFailed);
    assert_eq!(outcome(&world), Err(Refusal::EnvironmentUnavailable));
}

#[test]
fn r7_archive_cancels_waiting_input() {
    let mut world = World::created(Placement::OpenaiHosted, &["a"]);
    world.archive().unwrap();
    assert_eq!(outcome(&world), Err(Refusal::InputCancelled));
    assert_eq!(status(&world), SessionStatus::Idle, "D2");
}

#[test]
fn r8_the_end_of_the_allocation_fails_waiting_input() {
    // D8
    let mut world = World::ready(Placement::OpenaiHosted, &["a"]);
    let (released, events) = world.during(World::release_allocation);
    assert_eq!((released, events), (true, vec!["failed"]));
    assert_eq!(outcome(&world), Err(Refusal::EnvironmentUnavailable));
}

#[test]
fn r9_what_is_not_definite_keeps_waiting_under_the_same_deadline() {
    let mut world = World::ready(Placement::OpenaiHosted, &["a"]);
    let deadline = world.state().reservation.unwrap().deadline;
    world.lost();
    world.advance(60);
    world.connect();
    world.record(Record::NotRunning(crate::allocation::Observed::Stopped));
    assert_eq!(outcome(&world), Ok(Waiting::Pending));
    assert_eq!(world.state().reservation.unwrap().deadline, deadline);
}
