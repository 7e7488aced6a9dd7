//! Every row of the Turn machine (state-machines 1.2).

use crate::artifact::{Captured, CapturedFile};
use crate::input::{Admission, Delivery, ReceiptTarget};
use crate::item::{ItemBody, ItemStatus};
use crate::run::{self, EventBody};
use crate::session::{Placement, SessionStatus, project};
use crate::testing::World;
use crate::turn::{
    Cancel, Claimed, Ending, Outcome, RunPhase, Settled, TurnFailure, TurnState, TurnStatus,
};
use crate::{Changes, Digest, Hint, Refusal, Write, time};

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
fn t12_t13_a_cancel_is_stored_and_hides_the_calls() {
    // S-CAN-3, S-CAN-4
    let mut world = World::running(Placement::None);
    let (_, events) = world.during(|world| world.cancel().unwrap());
    assert!(events.is_empty(), "T12");
    let cancel = world.state().turn.unwrap().cancel;
    let requested_at = world.now;
    assert_eq!(cancel, Some(Cancel { requested_at }));
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
        let before = world.model.clone();
        assert_eq!(world.settle(), Settled::Capture, "asked again");
        assert_eq!(world.model, before);
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
fn t21_what_never_began_natively_leaves_no_history() {
    // RP-10.18: only what is certain counts; every other failure may have a native trace.
    for (ending, never_began) in [
        (Ending::NeverBegan, true),
        (Ending::Failed(TurnFailure::PreparationStartFailed), true),
        (Ending::Failed(TurnFailure::DeviceDisconnected), true),
        (Ending::Failed(TurnFailure::DeliveryUnknown), false),
        (Ending::Cancelled, false),
    ] {
        let mut world = World::running(Placement::None);
        world.cancel().unwrap();
        world.finish(ending);
        assert_eq!(
            world.model.newest_turn().unwrap().never_began,
            never_began,
            "{ending:?}"
        );
    }
    let mut unasked = World::running(Placement::None);
    assert_eq!(
        unasked.finish(Ending::NeverBegan),
        failed(TurnFailure::PreparationStartFailed)
    );
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
fn t23_a_deleted_session_is_reconciled_without_events() {
    // SC-10.3, ENV-218, I27
    let mut world = World::running(Placement::OpenaiHosted);
    world.call("1");
    let mut state = world.state();
    state.session.deleted_at = Some(world.now);
    let decided = world.with(|cx| super::interrupt(&state, cx)).unwrap();
    assert!(decided.answer && decided.changes.events.is_empty());
    let ended = |write: &Write| matches!(write, Write::PutTurn(turn) if !turn.is_live());
    assert!(decided.changes.writes.iter().any(ended));
}

#[test]
fn an_archived_turn_keeps_its_socket_until_it_ends() {
    // D42
    let mut world = World::running(Placement::OpenaiHosted);
    let closes = |changes: &Changes| {
        changes
            .hints
            .iter()
            .any(|hint| matches!(hint, Hint::CloseConnection { .. }))
    };
    let state = world.state();
    let archived = world
        .with(|cx| crate::session::archive(&state, cx))
        .unwrap();
    assert!(!closes(&archived.changes));
    let wait = |world: &World| crate::session::receipt_wait(&world.state(), world.now);
    assert_eq!(wait(&world), None, "nothing is kept before");
    world.commit(archived);
    assert_eq!(wait(&world), Some(time::ARCHIVE_CANCEL));
    // A client asks again, in vain: the time counts from the first request.
    world.advance(19);
    let _ = world.cancel();
    assert_eq!(wait(&world), Some(std::time::Duration::from_secs(1)));
    let mut late = world.clone();
    late.advance(1);
    assert_eq!(wait(&late), None, "SC-10.5");
    let (state, run_id) = (world.state(), world.run_id());
    let finished = world
        .with(|cx| super::finish(&state, run_id, Ending::Cancelled, Captured::default(), cx))
        .unwrap();
    assert!(closes(&finished.changes));
    world.commit(finished);
    assert_eq!(wait(&world), None, "the receipt is there");
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
