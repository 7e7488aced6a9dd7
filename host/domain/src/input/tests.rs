//! The gates of admission in their order, keys, and the races with deletion (state-machines 1.3).

use super::{Admission, Admit, Batch, ContentRules, ReceiptTarget, admit};
use crate::environment::FailureReason;
use crate::item::{InputPart, UserMessage};
use crate::session::{Deleted, Placement};
use crate::session_state::OpenFileWrite;
use crate::testing::{World, message};
use crate::{Digest, Refusal, time};

fn messages() -> Batch {
    Batch::Messages(vec![message("hi")])
}

fn admit_with(world: &mut World, change: impl FnOnce(&mut Admit)) -> Result<Admission, Refusal> {
    let mut command = Admit {
        batch: messages(),
        key: None,
        digest: Digest::of(b"batch"),
        execution: true,
        content: ContentRules {
            whitespace_only: false,
            message_images: false,
            result_images: false,
        },
    };
    change(&mut command);
    let state = world.model.load(command.key.as_deref());
    let decided = world.with(|cx| admit(&state, command, cx))?;
    Ok(world.commit(decided))
}

#[test]
fn gates_answer_in_order() {
    // A world in which every gate would refuse, opened one by one.
    let mut world = World::ready(Placement::OpenaiHosted, &["first"]);
    world.model.file_write = Some(OpenFileWrite::Unsettled);
    let blank = Batch::Messages(vec![message(" \u{feff}\n")]);
    assert_eq!(
        admit_with(&mut world, |admit| admit.execution = false),
        Err(Refusal::ExecutionUnavailable),
        "G4"
    );
    let refused = admit_with(&mut world, |admit| admit.batch = blank.clone()).unwrap_err();
    assert_eq!(refused, Refusal::FileWrite { unsettled: true }, "G5");
    assert!(refused.retry_is_useless());
    assert_eq!(
        admit_with(&mut world, |admit| admit.batch = Batch::Cancel),
        Err(Refusal::InputPending),
        "G5 is for messages"
    );
    world.model.file_write = None;
    assert_eq!(
        admit_with(&mut world, |admit| admit.batch = blank.clone()),
        Err(Refusal::InputPending),
        "G6"
    );
    world.fail_reservation();
    assert_eq!(
        admit_with(&mut world, |admit| admit.batch = blank.clone()),
        Err(Refusal::WhitespaceOnly),
        "G7"
    );
    let image = InputPart::InputImage {
        image_url: "data:image/png;base64,".into(),
    };
    let image = Batch::Messages(vec![UserMessage {
        content: vec![image],
    }]);
    let refused = admit_with(&mut world, |admit| admit.batch = image).unwrap_err();
    assert_eq!(refused.wire_id(), "E400-23", "G7");
    assert!(admit_with(&mut world, |_| {}).is_ok());
}

#[test]
fn the_environment_gate_stops_messages_only() {
    // G8, D10, ENV-194…196
    for (placement, refusal) in [
        (Placement::OpenaiHosted, Refusal::HostedEnvironmentFailed),
        (Placement::SelfHosted, Refusal::EnvironmentUnavailable),
    ] {
        let mut world = World::created(placement, &[]);
        world.fail_environment(FailureReason::Skill);
        assert_eq!(world.say("hi"), Err(refusal));
        assert_eq!(
            world.cancel(),
            Ok(Admission::Stored {
                target: ReceiptTarget::None
            })
        );
    }
    let mut archived = World::ready(Placement::OpenaiHosted, &[]);
    archived.archive().unwrap();
    assert_eq!(archived.say("hi"), Err(Refusal::EnvironmentUnavailable));
}

#[test]
fn a_pending_reservation_refuses_every_new_batch() {
    // G6, S-EV-9, D36
    let mut world = World::running(Placement::OpenaiHosted);
    world.call("1");
    world.answer("1", "one").unwrap();
    world.applied("1");
    world.settle();
    world.say("next").unwrap();
    assert_eq!(world.say("more"), Err(Refusal::InputPending));
    assert_eq!(
        world.cancel(),
        Err(Refusal::InputPending),
        "a cancel in capture too"
    );
    assert_eq!(
        world.answer("1", "one"),
        Err(Refusal::InputPending),
        "an identical result too"
    );
}

#[test]
fn an_idle_cancel_changes_nothing_but_its_receipt() {
    // K1, S-CAN-2
    let mut world = World::ready(Placement::SelfHosted, &[]);
    let (answer, events) = world.during(World::cancel);
    assert_eq!(
        answer,
        Ok(Admission::Stored {
            target: ReceiptTarget::None
        })
    );
    assert!(events.is_empty());
    assert!(world.model.turns.is_empty());
}

#[test]
fn a_key_answers_what_it_answered() {
    // W-IDEM-3, W-IDEM-9, W-IDEM-10, I16
    let mut world = World::created(Placement::None, &["a"]);
    let first = world.admit(messages(), Some("k")).unwrap();
    let before = world.model.clone();
    assert_eq!(world.admit(messages(), Some("k")), Ok(first));
    assert_eq!(world.model, before, "the second call makes no change");
    let other = Batch::Messages(vec![message("other")]);
    assert_eq!(world.admit(other, Some("k")), Err(Refusal::KeyConflict));
    // A cancel's retry keeps its target and never cancels a later Turn (S-CAN-3).
    world.admit(Batch::Cancel, Some("c")).unwrap();
    world.say("next").unwrap();
    let before = world.model.clone();
    assert!(matches!(
        world.admit(Batch::Cancel, Some("c")),
        Ok(Admission::Stored {
            target: ReceiptTarget::Turn(_)
        })
    ));
    assert_eq!(world.model, before);
}

#[test]
fn the_key_of_a_reservation_answers_its_outcome_for_ever() {
    // ENV-222, R10, ENV-187
    let mut world = World::ready(Placement::OpenaiHosted, &[]);
    let waits = world.admit(messages(), Some("k")).unwrap();
    assert!(matches!(waits, Admission::Waits { .. }));
    assert_eq!(
        world.admit(messages(), Some("k")),
        Ok(waits),
        "it waits again"
    );
    world.advance(time::RESERVATION_DEADLINE.as_secs());
    world.expire();
    assert_eq!(
        world.admit(messages(), Some("k")),
        Err(Refusal::InputExpired)
    );
    // … also while a later reservation is pending (S-EV-9).
    world.admit(messages(), Some("k2")).unwrap();
    assert_eq!(
        world.admit(messages(), Some("k")),
        Err(Refusal::InputExpired)
    );
    world.promote();
    assert!(matches!(
        world.admit(messages(), Some("k2")),
        Ok(Admission::Stored { .. })
    ));
}

#[test]
fn delete_and_admit_have_one_winner_in_both_orders() {
    // S-DEL-7, I28
    for placement in [
        Placement::None,
        Placement::OpenaiHosted,
        Placement::SelfHosted,
    ] {
        let idle = if placement == Placement::None {
            let mut world = World::running(placement);
            world.finish(crate::turn::Ending::Completed);
            world
        } else {
            World::ready(placement, &[])
        };
        let mut admitted = idle.clone();
        assert!(admitted.say("first").is_ok());
        let before = admitted.model.clone();
        assert_eq!(admitted.delete(), Err(Refusal::NotDeletable), "(202, 409)");
        assert_eq!(admitted.model, before);
        let mut deleted = idle;
        assert_eq!(deleted.delete(), Ok(Deleted::Now));
        assert_eq!(deleted.say("late"), Err(Refusal::NotFound), "(404, 200)");
    }
}

#[test]
fn retries_are_useless_where_the_table_says_so() {
    // 1.3
    let useless = [
        Refusal::TurnState { final_: true },
        Refusal::DifferentResult,
        Refusal::HostedEnvironmentFailed,
        Refusal::KeyConflict,
        Refusal::EnvironmentUnavailable,
        Refusal::InputExpired,
        Refusal::InputCancelled,
        Refusal::FileWrite { unsettled: true },
    ];
    assert!(useless.iter().all(Refusal::retry_is_useless));
    let transient = [
        Refusal::InputPending,
        Refusal::NotDeletable,
        Refusal::TurnState { final_: false },
        Refusal::FileWrite { unsettled: false },
    ];
    assert!(!transient.iter().any(Refusal::retry_is_useless));
}
