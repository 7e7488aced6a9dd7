//! Every row of the Turn machine (state-machines 1.2) and of the function calls (1.5).

use crate::artifact::{Captured, CapturedFile};
use crate::call::CallState;
use crate::input::{Admission, Delivery, ReceiptTarget};
use crate::item::{ItemBody, ItemStatus};
use crate::run::{self, EventBody};
use crate::session::{Placement, RequiredAction, SessionStatus, project};
use crate::testing::World;
use crate::turn::{
    CancelledBy, Claimed, Ending, Outcome, RunPhase, Settled, TurnFailure, TurnState, TurnStatus,
};
use crate::{Digest, Refusal};

const WORKSPACES: [Placement; 2] = [Placement::OpenaiHosted, Placement::SelfHosted];

fn status(world: &World) -> TurnStatus {
    world.model.newest_turn().unwrap().status()
}

fn failed(cause: TurnFailure) -> Settled {
    Settled::Ended(Outcome::Failed { cause })
}

#[test]
fn t1_a_message_while_idle_on_none_queues_a_turn() {
    let mut world = World::running(Placement::None);
    world.finish(Ending::Completed);
    let (answer, events) = world.during(|world| world.say("again"));
    assert!(matches!(
        answer,
        Ok(Admission::Stored {
            target: ReceiptTarget::Turn(_)
        })
    ));
    assert_eq!(events, ["turn.created", "turn.item.added", "in_progress"]);
    assert_eq!(status(&world), TurnStatus::Queued);
}

#[test]
fn t3_claim_takes_every_message_that_is_there() {
    // T3, T6, D6
    let mut world = World::created(Placement::None, &["a"]);
    let (_, events) = world.during(|world| world.say("b"));
    assert_eq!(events, ["turn.item.added"], "T6");
    world.bind();
    let (claimed, events) = world.during(World::claim);
    assert_eq!((claimed, events), (Claimed::Now, vec!["turn.in_progress"]));
    assert!(
        world
            .state()
            .inputs
            .iter()
            .all(|input| input.delivery == Delivery::Started)
    );
    let before = world.model.clone();
    assert_eq!(world.claim(), Claimed::Refused, "a second claim is inert");
    assert_eq!(world.model, before);
}

#[test]
fn claim_needs_the_binding_as_it_is() {
    // SC-7.2
    let mut world = World::created(Placement::None, &["a"]);
    assert_eq!(world.claim(), Claimed::Refused, "unbound");
}

#[test]
fn t4_cancel_ends_a_queued_turn_at_once() {
    let mut world = World::created(Placement::None, &["a"]);
    let (answer, events) = world.during(World::cancel);
    assert!(matches!(
        answer,
        Ok(Admission::Stored {
            target: ReceiptTarget::Turn(_)
        })
    ));
    assert_eq!(events, ["turn.cancelled", "idle"]);
    assert_eq!(status(&world), TurnStatus::Cancelled);
}

#[test]
fn t5_a_definite_preparation_failure_fails_a_queued_turn() {
    // D7
    let mut world = World::created(Placement::None, &["a"]);
    let (answer, events) = world.during(World::fail_queued);
    assert_eq!((answer, events), (true, vec!["turn.failed", "failed"]));
    assert!(!world.fail_queued(), "terminal");
}

#[test]
fn t7_messages_join_a_working_turn_until_a_cancel() {
    // T7, D5, ENV-180
    for placement in [Placement::None, Placement::OpenaiHosted] {
        let mut world = World::running(placement);
        let (answer, events) = world.during(|world| world.say("more"));
        assert!(matches!(
            answer,
            Ok(Admission::Stored {
                target: ReceiptTarget::Turn(_)
            })
        ));
        assert_eq!(events, ["turn.item.added"]);
        assert_eq!(
            world.state().inputs.last().unwrap().delivery,
            Delivery::Stored
        );
        world.cancel().unwrap();
        let refused = world.say("late").unwrap_err();
        assert_eq!(refused, Refusal::TurnState { final_: false });
        assert!(!refused.retry_is_useless(), "transient");
    }
}

#[test]
fn t9_to_t11_calls_wait_and_results_resume() {
    // 4.12, S-SEQ-5, D17, D18
    let mut world = World::running(Placement::None);
    let (answer, events) = world.during(|world| world.call("1"));
    assert!(answer.synced);
    assert_eq!(events, ["turn.item.added", "requires_action"]);
    let (_, events) = world.during(|world| world.call("2"));
    assert_eq!(events, ["turn.item.added", "requires_action"]);
    assert_eq!(project(&world.state()).required_actions.len(), 2);

    let (_, events) = world.during(|world| world.answer("1", "one").unwrap());
    assert!(events.is_empty(), "an answer is no application (S-FN-5)");
    assert_eq!(project(&world.state()).required_actions.len(), 2);

    let (_, events) = world.during(|world| assert!(world.applied("1")));
    assert_eq!(
        events,
        ["turn.item.done", "turn.item.added", "requires_action"],
        "T10"
    );
    let actions = project(&world.state()).required_actions;
    assert!(
        matches!(&actions[..], [RequiredAction::FunctionCall { call_id, .. }] if call_id.0 == "2")
    );

    world.answer("2", "two").unwrap();
    let (_, events) = world.during(|world| assert!(world.applied("2")));
    assert_eq!(
        events,
        [
            "turn.item.done",
            "turn.item.added",
            "turn.in_progress",
            "in_progress"
        ],
        "T11"
    );
    assert!(!world.applied("2"), "applied once");
    let output = world.state().items.last().unwrap().clone();
    assert!(matches!(output.body, ItemBody::FunctionCallOutput { .. }));
    assert_eq!(output.output_index, None);
}

#[test]
fn results_answer_by_the_state_of_their_call() {
    // The table of 1.5
    let mut world = World::running(Placement::None);
    assert!(matches!(
        world.answer("1", "early"),
        Err(Refusal::UnknownCall(_))
    ));
    world.call("1");
    let elsewhere = crate::testing::result(None, "1", "x");
    assert_eq!(
        world.admit(crate::input::Batch::Results(vec![elsewhere]), None),
        Err(Refusal::OtherTurn)
    );
    world.answer("1", "one").unwrap();
    world.answer("1", "one").unwrap();
    assert_eq!(world.answer("1", "other"), Err(Refusal::DifferentResult));
    world.applied("1");
    world.answer("1", "one").unwrap();
    assert_eq!(world.answer("1", "other"), Err(Refusal::DifferentResult));
    world.call("2");
    world.cancel().unwrap();
    assert_eq!(
        world.answer("2", "late"),
        Err(Refusal::TurnState { final_: true })
    );
    world.finish(Ending::Cancelled);
    assert_eq!(
        world.answer("2", "later"),
        Err(Refusal::TurnState { final_: true }),
        "closed"
    );
}

#[test]
fn one_bad_result_refuses_the_batch() {
    // S-EV-1
    let mut world = World::running(Placement::None);
    world.call("1");
    let turn_id = world.model.newest_turn().map(|turn| turn.id);
    let batch = vec![
        crate::testing::result(turn_id, "1", "good"),
        crate::testing::result(turn_id, "9", "bad"),
    ];
    assert!(matches!(
        world.admit(crate::input::Batch::Results(batch), None),
        Err(Refusal::UnknownCall(_))
    ));
    assert!(
        world
            .state()
            .calls
            .iter()
            .all(|call| call.state == CallState::Pending)
    );
}

#[test]
fn t12_t13_a_cancel_is_stored_and_hides_the_calls() {
    // S-CAN-3, S-CAN-4
    let mut world = World::running(Placement::None);
    let (_, events) = world.during(|world| world.cancel().unwrap());
    assert!(events.is_empty(), "T12");
    let cancel = world.state().turn.unwrap().cancel;
    assert_eq!(cancel.unwrap().by, CancelledBy::Client);
    world.advance(5);
    world.cancel().unwrap();
    assert_eq!(world.state().turn.unwrap().cancel, cancel, "K4");

    let mut world = World::running(Placement::None);
    world.call("1");
    let (_, events) = world.during(|world| world.cancel().unwrap());
    assert_eq!(events, ["in_progress"], "T13");
    assert!(project(&world.state()).required_actions.is_empty());
}

#[test]
fn a_result_applied_after_the_cancel_publishes_its_items_only() {
    // 1.5
    let mut world = World::running(Placement::None);
    world.call("1");
    world.answer("1", "one").unwrap();
    world.cancel().unwrap();
    let (_, events) = world.during(|world| assert!(world.applied("1")));
    assert_eq!(events, ["turn.item.done", "turn.item.added"]);
}

#[test]
fn t14_a_run_that_ends_well_completes_on_none() {
    let mut world = World::running(Placement::None);
    let (settled, events) = world.during(|world| world.finish(Ending::Completed));
    assert_eq!(settled, Settled::Ended(Outcome::Completed));
    assert_eq!(events, ["turn.completed", "idle"]);
    assert_eq!(world.finish(Ending::Completed), Settled::Inert, "terminal");
}

#[test]
fn t15_to_t17_outputs_are_captured_before_the_end() {
    for placement in WORKSPACES {
        let mut world = World::running(placement);
        let (settled, events) = world.during(World::settle);
        assert_eq!((settled, events), (Settled::Capture, vec![]), "T15");
        assert_eq!(world.settle(), Settled::Inert);
        assert_eq!(
            project(&world.state()).status,
            SessionStatus::InProgress,
            "P2"
        );

        let mut failing = world.clone();
        let (settled, events) = failing
            .during(|world| world.finish(Ending::Failed(TurnFailure::EventStreamIncomplete)));
        assert_eq!(settled, failed(TurnFailure::ArtifactCaptureFailed), "T17");
        assert_eq!(events, ["turn.failed", "failed"]);

        let (settled, events) = world.during(|world| world.finish(Ending::Completed));
        assert_eq!(settled, Settled::Ended(Outcome::Completed), "T16");
        assert_eq!(events, ["turn.completed", "idle"]);
    }
}

#[test]
fn t16_artifacts_are_published_when_they_are_new_or_differ() {
    // ART-007…009, I24
    let file = |bytes: &[u8]| CapturedFile {
        path: "/workspace/outputs/a".into(),
        digest: Digest::of(bytes),
        size_bytes: 1,
    };
    let mut world = World::running(Placement::OpenaiHosted);
    world.settle();
    world.finish_with(
        Ending::Completed,
        Captured {
            files: vec![file(b"1")],
            newest: vec![],
        },
    );
    assert_eq!(world.model.artifacts.len(), 1);
    for (bytes, expected) in [(b"1", 1), (b"2", 2)] {
        world.say("again").unwrap();
        world.promote();
        world.settle();
        let newest = world
            .model
            .artifacts
            .values()
            .max_by_key(|row| row.id)
            .cloned()
            .into_iter()
            .collect();
        world.finish_with(
            Ending::Completed,
            Captured {
                files: vec![file(bytes)],
                newest,
            },
        );
        assert_eq!(world.model.artifacts.len(), expected);
    }
}

#[test]
fn t18_a_cancel_while_capturing_publishes_nothing() {
    let mut world = World::running(Placement::OpenaiHosted);
    world.settle();
    let (_, events) = world.during(|world| world.cancel().unwrap());
    assert!(events.is_empty());
    let file = CapturedFile {
        path: "/a".into(),
        digest: Digest::of(b"a"),
        size_bytes: 1,
    };
    let captured = Captured {
        files: vec![file],
        newest: vec![],
    };
    assert_eq!(
        world.finish_with(Ending::Completed, captured),
        Settled::Ended(Outcome::Cancelled)
    );
    assert!(world.model.artifacts.is_empty());
}

#[test]
fn t19_t20_a_cancel_and_the_end_of_the_run() {
    // The race cancel × complete: cancel committed first (S-TURN-2, D14, I28).
    for (placement, ending, outcome) in [
        (Placement::None, Ending::Cancelled, Outcome::Cancelled),
        (Placement::None, Ending::Completed, Outcome::Completed),
        (
            Placement::OpenaiHosted,
            Ending::Cancelled,
            Outcome::Cancelled,
        ),
        (
            Placement::OpenaiHosted,
            Ending::Completed,
            Outcome::Cancelled,
        ),
    ] {
        let mut world = World::running(placement);
        world.cancel().unwrap();
        assert_eq!(world.finish(ending), Settled::Ended(outcome));
        // … and completed first: the cancel finds nothing to do (K1).
        let mut world = World::running(placement);
        world.settle();
        world.finish(Ending::Completed);
        assert_eq!(
            world.cancel(),
            Ok(Admission::Stored {
                target: ReceiptTarget::None
            })
        );
        assert_eq!(status(&world), TurnStatus::Completed);
    }
}

#[test]
fn t22_a_failed_run_keeps_partial_content_and_usage() {
    // S-CAN-5, S-CAN-6, RP-13.4
    let mut world = World::running(Placement::None);
    let message = run::ItemBody::Message(run::Message {
        text: String::new(),
        phase: None,
    });
    world.append(EventBody::ItemStarted(run::Item {
        key: "m".into(),
        body: message,
    }));
    for text in ["par", "tial"] {
        let delta = run::Delta {
            key: "m".into(),
            kind: run::DeltaKind::Text,
            index: 0,
            text: text.into(),
        };
        world.append(EventBody::Delta(delta));
    }
    let usage = run::Usage {
        input: 1,
        cached: Some(0),
        output: 2,
        reasoning: Some(0),
        total: Some(3),
    };
    world.append(EventBody::Usage(usage));
    let cause = TurnFailure::EventStreamIncomplete;
    let (settled, events) = world.during(|world| world.finish(Ending::Failed(cause)));
    assert_eq!(settled, failed(cause));
    assert_eq!(
        events,
        [
            "turn.output_text.done",
            "turn.content_part.done",
            "turn.item.done",
            "turn.failed",
            "failed"
        ]
    );
    let item = world
        .state()
        .items
        .into_iter()
        .find(|item| item.key.as_deref() == Some("m"))
        .unwrap();
    assert_eq!(item.status, ItemStatus::Incomplete);
    assert_eq!(
        item.body,
        ItemBody::AssistantMessage {
            text: Some("partial".into()),
            phase: None
        }
    );
    assert_eq!(project(&world.state()).usage.unwrap().total_tokens, 3);
}

#[test]
fn an_unapplied_input_forbids_completion() {
    // SC-7.6, RP-12.6, I25
    for (delivery, cause) in [
        (None, TurnFailure::InputNotApplied),
        (Some(Delivery::Rejected), TurnFailure::InputNotApplied),
        (Some(Delivery::Written), TurnFailure::InputOutcomeUnknown),
        (Some(Delivery::Unknown), TurnFailure::InputOutcomeUnknown),
    ] {
        let mut world = World::running(Placement::None);
        world.say("more").unwrap();
        let id = world.state().inputs.last().unwrap().id;
        if let Some(delivery) = delivery {
            assert!(world.confirm(id, delivery));
        }
        assert_eq!(world.finish(Ending::Completed), failed(cause));
    }
    let mut world = World::running(Placement::None);
    world.say("more").unwrap();
    world.accept_inputs();
    let id = world.state().inputs.last().unwrap().id;
    assert!(!world.confirm(id, Delivery::Rejected), "a receipt is final");
    assert_eq!(
        world.finish(Ending::Completed),
        Settled::Ended(Outcome::Completed)
    );
}

#[test]
fn open_calls_at_the_end_of_a_run() {
    // D43
    let mut world = World::running(Placement::None);
    world.call("1");
    let (settled, events) = world.during(|world| world.finish(Ending::Completed));
    assert_eq!(settled, Settled::Ended(Outcome::Completed));
    assert_eq!(events, ["turn.item.done", "turn.completed", "idle"]);
    assert_eq!(world.state().calls[0].state, CallState::Closed);

    let mut world = World::running(Placement::None);
    world.call("1");
    world.answer("1", "one").unwrap();
    assert_eq!(
        world.finish(Ending::Completed),
        failed(TurnFailure::FunctionResultUnconfirmed)
    );
    assert!(matches!(world.state().calls[0].state, CallState::Kept(_)));
    world.answer("1", "one").unwrap();
}

#[test]
fn a_run_cancelled_by_nobody_failed() {
    let mut world = World::running(Placement::None);
    assert_eq!(
        world.finish(Ending::Cancelled),
        failed(TurnFailure::EngineFailed { class: None })
    );
}

#[test]
fn t23_recovery_interrupts_every_claimed_turn_once() {
    // SC-10.1, SC-10.2, I30
    let mut queued = World::created(Placement::None, &["a"]);
    assert!(!queued.interrupt(), "T24: queued stays queued");
    for cancelled in [false, true] {
        let mut world = World::running(Placement::OpenaiHosted);
        world.call("1");
        if cancelled {
            world.cancel().unwrap();
        }
        let (interrupted, events) = world.during(World::interrupt);
        assert!(interrupted);
        assert_eq!(events, ["turn.item.done", "turn.failed", "failed"], "D15");
        assert!(!world.interrupt());
    }
    let mut capturing = World::running(Placement::OpenaiHosted);
    capturing.settle();
    assert!(capturing.interrupt());
}

#[test]
fn another_run_is_inert() {
    // RP-11.8, I20
    let world = World::running(Placement::None);
    let stranger = crate::RunId::NEVER;
    let mut other = world.clone();
    let state = other.state();
    let finish = other
        .with(|cx| super::finish(&state, stranger, Ending::Completed, Captured::default(), cx));
    assert_eq!(finish.unwrap().answer, Settled::Inert);
    let confirm = super::ConfirmInput {
        run_id: stranger,
        input_id: state.inputs[0].id,
        delivery: Delivery::Rejected,
    };
    assert!(
        super::input_settled(&state, confirm)
            .unwrap()
            .changes
            .is_empty()
    );
}

#[test]
fn the_claim_survives_the_end() {
    let mut world = World::running(Placement::OpenaiHosted);
    let claim = *world.state().turn.unwrap().claim().unwrap();
    assert!(matches!(
        world.state().turn.unwrap().state,
        TurnState::Active {
            phase: RunPhase::Running,
            ..
        }
    ));
    world.finish(Ending::Failed(TurnFailure::DeliveryUnknown));
    assert_eq!(world.state().turn.unwrap().claim(), Some(&claim));
}
