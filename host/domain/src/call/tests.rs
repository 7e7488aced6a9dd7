//! Every row of the function calls (state-machines 1.5, S-FN).

use crate::Refusal;
use crate::call::CallState;
use crate::input::Batch;
use crate::item::ItemBody;
use crate::session::{Placement, RequiredAction, project};
use crate::testing::{World, result};
use crate::turn::{Ending, Outcome, Settled, TurnFailure};

#[test]
fn t9_to_t11_calls_wait_and_results_resume() {
    // 4.12, S-SEQ-5, D17, D18
    let mut world = World::running(Placement::None);
    let (_, events) = world.during(|world| world.call("1"));
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
    let elsewhere = result(None, "1", "x");
    assert_eq!(
        world.admit(Batch::Results(vec![elsewhere]), None),
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
    let batch = vec![result(turn_id, "1", "good"), result(turn_id, "9", "bad")];
    assert!(matches!(
        world.admit(Batch::Results(batch), None),
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
    let cause = TurnFailure::FunctionResultUnconfirmed;
    assert_eq!(
        world.finish(Ending::Completed),
        Settled::Ended(Outcome::Failed { cause })
    );
    assert!(matches!(world.state().calls[0].state, CallState::Kept(_)));
    world.answer("1", "one").unwrap();
}
