//! The required sequences of sessions.md 7.3, and the sloppiness that is forgiven.

use crate::event::EventPayload;
use crate::item::{ItemBody, ItemStatus, SearchAction};
use crate::projection::Append;
use crate::run::{self, Delta, DeltaKind, EventBody, Item, ItemEnd, RunEvent};
use crate::session::{Placement, project};
use crate::testing::World;
use crate::turn::Ending;

fn started(key: &str, body: run::ItemBody) -> EventBody {
    EventBody::ItemStarted(Item {
        key: key.into(),
        body,
    })
}

fn ended(key: &str, body: run::ItemBody, status: run::ItemStatus) -> EventBody {
    EventBody::ItemEnded(ItemEnd {
        item: Item {
            key: key.into(),
            body,
        },
        status,
    })
}

fn completed(key: &str, body: run::ItemBody) -> EventBody {
    ended(key, body, run::ItemStatus::Completed)
}

fn delta(key: &str, kind: DeltaKind, index: u32, text: &str) -> EventBody {
    EventBody::Delta(Delta {
        key: key.into(),
        kind,
        index,
        text: text.into(),
    })
}

fn message(text: &str) -> run::ItemBody {
    run::ItemBody::Message(run::Message {
        text: text.into(),
        phase: Some(run::Phase::FinalAnswer),
    })
}

fn reasoning(summary: &[&str]) -> run::ItemBody {
    run::ItemBody::Reasoning(run::Reasoning {
        summary: summary.iter().map(|&part| part.into()).collect(),
    })
}

fn command(output: Option<&str>, exit_code: Option<i32>) -> run::ItemBody {
    run::ItemBody::Command(run::CommandRun {
        command: "ls".into(),
        cwd: Some("/workspace".into()),
        output: output.map(str::to_owned),
        exit_code,
        duration_ms: None,
    })
}

/// The short event types of these run events, and the Item of the last `item.done`.
fn project_events(bodies: Vec<EventBody>) -> (Vec<&'static str>, Option<crate::item::Item>) {
    let mut world = World::running(Placement::None);
    let from = world.model.events.len();
    let (_, types) = world.during(|world| world.append_all(bodies));
    let done = world.model.events[from..]
        .iter()
        .rev()
        .find_map(|event| match event {
            EventPayload::ItemDone { item } => Some(item.clone()),
            _ => None,
        });
    (types, done)
}

#[test]
fn a_message_streams_as_s_seq_2_says() {
    let (types, done) = project_events(vec![
        started("m", message("")),
        delta("m", DeltaKind::Text, 0, "he"),
        delta("m", DeltaKind::Text, 0, "llo"),
        completed("m", message("hello!")),
    ]);
    assert_eq!(
        types,
        [
            "turn.item.added",
            "turn.content_part.added",
            "turn.output_text.delta",
            "turn.output_text.delta",
            "turn.output_text.done",
            "turn.content_part.done",
            "turn.item.done"
        ]
    );
    let done = done.unwrap();
    assert_eq!(done.output_index, Some(0));
    let ItemBody::AssistantMessage { text, phase } = done.body else {
        panic!("a message")
    };
    assert_eq!(
        text.as_deref(),
        Some("hello!"),
        "the done text replaces the deltas"
    );
    assert_eq!(phase, Some(run::Phase::FinalAnswer));
}

#[test]
fn a_message_first_seen_complete_has_one_delta_with_all_of_it() {
    // S-SEQ-3
    let (types, _) = project_events(vec![completed("m", message("whole"))]);
    assert_eq!(
        types,
        [
            "turn.item.added",
            "turn.content_part.added",
            "turn.output_text.delta",
            "turn.output_text.done",
            "turn.content_part.done",
            "turn.item.done"
        ]
    );
}

#[test]
fn items_begin_empty_whatever_the_harness_knows() {
    // S-SEQ-2: `content: []`
    let mut world = World::running(Placement::None);
    world.append(started("m", message("already here")));
    let Some(EventPayload::ItemAdded { item }) = world.model.events.last() else {
        panic!("an addition")
    };
    assert_eq!(
        item.body,
        ItemBody::AssistantMessage {
            text: None,
            phase: Some(run::Phase::FinalAnswer)
        }
    );
    assert_eq!(item.status, ItemStatus::InProgress);
}

#[test]
fn reasoning_parts_open_in_order_and_end_with_the_item() {
    let (types, done) = project_events(vec![
        started("r", reasoning(&[])),
        delta("r", DeltaKind::Summary, 0, "a"),
        delta("r", DeltaKind::Summary, 1, "b"),
        completed("r", reasoning(&["a", "b", "c"])),
    ]);
    let part = "turn.reasoning_summary_part";
    let text = "turn.reasoning_summary_text";
    assert_eq!(
        types,
        [
            "turn.item.added".to_owned(),
            format!("{part}.added"),
            format!("{text}.delta"),
            format!("{part}.added"),
            format!("{text}.delta"),
            format!("{text}.done"),
            format!("{part}.done"),
            format!("{text}.done"),
            format!("{part}.done"),
            format!("{part}.added"),
            format!("{text}.delta"),
            format!("{text}.done"),
            format!("{part}.done"),
            "turn.item.done".to_owned(),
        ]
    );
    let ItemBody::Reasoning { summary } = done.unwrap().body else {
        panic!("reasoning")
    };
    assert_eq!(summary, ["a", "b", "c"]);
}

#[test]
fn a_command_ends_with_the_authoritative_output() {
    // S-SEQ-9, S-ITEM-6
    let (types, done) = project_events(vec![
        started("c", command(None, None)),
        delta("c", DeltaKind::Output, 0, "best effort"),
        ended("c", command(Some("all"), Some(1)), run::ItemStatus::Failed),
    ]);
    assert_eq!(
        types,
        [
            "turn.item.added",
            "agent.output.command_execution_output.delta",
            "turn.item.done"
        ]
    );
    let done = done.unwrap();
    assert_eq!(done.status, ItemStatus::Failed);
    let ItemBody::CommandExecution {
        output, exit_code, ..
    } = done.body
    else {
        panic!("a command")
    };
    assert_eq!((output.as_deref(), exit_code), (Some("all"), Some(1)));
}

#[test]
fn a_command_cut_off_keeps_what_was_streamed() {
    // S-CAN-5
    let mut world = World::running(Placement::None);
    world.append(started("c", command(None, None)));
    world.append(delta("c", DeltaKind::Output, 0, "some"));
    world.cancel().unwrap();
    world.finish(Ending::Cancelled);
    let item = world
        .state()
        .items
        .into_iter()
        .find(|item| item.key.as_deref() == Some("c"))
        .unwrap();
    assert_eq!(item.status, ItemStatus::Incomplete);
    let ItemBody::CommandExecution { output, .. } = item.body else {
        panic!("a command")
    };
    assert_eq!(output.as_deref(), Some("some"));
}

#[test]
fn a_file_change_is_an_apply_patch_call_without_a_result() {
    // S-ITEM-5
    let change = run::FileChange {
        path: "a.txt".into(),
        moved_to: None,
        kind: run::ChangeKind::Add,
        diff: Some("hi".into()),
    };
    let body = run::ItemBody::FileChanges(vec![change]);
    let (types, done) = project_events(vec![started("f", body.clone()), completed("f", body)]);
    assert_eq!(types, ["turn.item.added", "turn.item.done"]);
    let ItemBody::FunctionCall {
        call_id,
        name,
        arguments,
    } = done.unwrap().body
    else {
        panic!("a call")
    };
    assert_eq!((call_id.0.as_str(), name.as_str()), ("f", "apply_patch"));
    assert_eq!(
        arguments,
        r#"{"changes":[{"path":"a.txt","kind":"add","diff":"hi"}]}"#
    );
}

#[test]
fn searches_and_mcp_calls_keep_native_facts() {
    // S-MCP-8
    let search =
        run::ItemBody::WebSearch(run::WebAction::Search(vec!["main".into(), "more".into()]));
    let (_, done) = project_events(vec![ended("w", search, run::ItemStatus::Failed)]);
    let done = done.unwrap();
    assert_eq!(
        done.status,
        ItemStatus::Incomplete,
        "a search knows no failed"
    );
    let action = Some(SearchAction::Search {
        query: Some("main".into()),
        queries: Some(vec!["main".into(), "more".into()]),
    });
    assert_eq!(done.body, ItemBody::WebSearchCall { action });

    let call = run::McpCall {
        label: "docs".into(),
        name: "find".into(),
        arguments: "{}".into(),
        output: None,
        error: Some("no".into()),
    };
    let (_, done) = project_events(vec![ended(
        "t",
        run::ItemBody::McpCall(call),
        run::ItemStatus::Failed,
    )]);
    let done = done.unwrap();
    assert_eq!(done.status, ItemStatus::Failed);
    assert!(matches!(done.body, ItemBody::McpCall { server_label, .. } if server_label == "docs"));
}

#[test]
fn native_tools_and_child_turns_publish_nothing() {
    // S-SEQ-10
    let tool = run::ItemBody::NativeTool(run::NativeTool {
        name: "todo".into(),
        input: None,
        output: None,
    });
    assert!(
        project_events(vec![started("n", tool.clone()), completed("n", tool)])
            .0
            .is_empty()
    );

    let mut world = World::running(Placement::None);
    let origin = run::Origin::Child {
        agent: "a".into(),
        turn: "t".into(),
    };
    let event = RunEvent {
        origin,
        body: completed("m", message("child")),
    };
    let append = Append {
        run_id: world.run_id(),
        first_seq: 1,
        events: vec![event],
    };
    let state = world.state();
    let decided = world.with(|cx| super::apply(&state, append, cx)).unwrap();
    assert!(decided.changes.events.is_empty(), "I32");
}

#[test]
fn repeats_and_contradictions_say_nothing() {
    // S-SEQ-5, I13
    let (types, _) = project_events(vec![
        started("c", command(None, None)),
        started("c", command(None, None)),
        completed("c", message("another kind")),
        delta("c", DeltaKind::Text, 0, "wrong kind"),
        delta("x", DeltaKind::Text, 0, "unknown Item"),
        completed("c", command(Some("out"), None)),
        completed("c", command(Some("late"), None)),
        delta("c", DeltaKind::Output, 0, "late"),
    ]);
    assert_eq!(types, ["turn.item.added", "turn.item.done"]);
}

#[test]
fn sequence_numbers_skip_repeats_and_refuse_gaps() {
    // RP-11.2
    let mut world = World::running(Placement::None);
    let events: Vec<_> = ["a", "b", "c"]
        .map(|key| RunEvent::root(completed(key, message(key))))
        .into();
    let append = |world: &mut World, first_seq, events| {
        let append = Append {
            run_id: world.run_id(),
            first_seq,
            events,
        };
        let state = world.state();
        let decided = world.with(|cx| super::apply(&state, append, cx)).unwrap();
        world.commit(decided)
    };
    let answer = append(&mut world, 1, events.clone());
    assert_eq!((answer.through, answer.gap), (3, None));
    let items = world.model.items.len();
    let answer = append(&mut world, 2, events.clone());
    assert_eq!(
        answer.through, 4,
        "two repeats, one new event with a known key"
    );
    assert_eq!(world.model.items.len(), items);
    let before = world.model.clone();
    let answer = append(&mut world, 9, events);
    assert_eq!((answer.through, answer.gap), (4, Some(5)));
    assert_eq!(world.model, before);
}

#[test]
fn an_end_that_is_told_again_is_answered_again() {
    // The answer to the first may be lost between the database and us.
    let mut world = World::running(Placement::None);
    let failure = run::RunFailure::new(None, None, "no more");
    let events = vec![
        RunEvent::root(completed("a", message("a"))),
        RunEvent::root(EventBody::Error(failure.clone())),
        RunEvent::root(EventBody::Done(run::Done {
            status: run::TurnStatus::Failed,
        })),
    ];
    let append = Append {
        run_id: world.run_id(),
        first_seq: 1,
        events,
    };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let (state, append) = (world.state(), append.clone());
        let before = world.model.clone();
        let decided = world.with(|cx| super::apply(&state, append, cx)).unwrap();
        answers.push(world.commit(decided));
        assert_eq!(answers.len() == 2, world.model == before);
    }
    assert_eq!(answers[0].done, Some(run::TurnStatus::Failed));
    assert_eq!(answers[0].failure, Some(failure));
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_changed_function_call_stops_the_journal() {
    // RP-14.1
    let mut world = World::running(Placement::None);
    world.call("1");
    assert!(
        !world.call("1").invalid_call,
        "the same call again is a repeat"
    );
    let changed = run::FunctionCall {
        call: "1".into(),
        name: "lookup".into(),
        arguments: "{\"a\":1}".into(),
    };
    let answer = world.append(started("call-1", run::ItemBody::FunctionCall(changed)));
    assert!(answer.invalid_call);
}

#[test]
fn usage_replaces_usage_and_incomplete_snapshots_say_nothing() {
    // S-USE-1, RP-11.3
    let usage = |total, cached| {
        EventBody::Usage(run::Usage {
            input: total,
            cached,
            output: 0,
            reasoning: Some(0),
            total: Some(total),
        })
    };
    let mut world = World::running(Placement::None);
    world.append_all(vec![usage(5, Some(1)), usage(7, Some(2)), usage(9, None)]);
    assert_eq!(
        project(&world.state()).usage,
        None,
        "S-USE-2: null while a Turn is active"
    );
    world.finish(Ending::Completed);
    assert_eq!(project(&world.state()).usage.unwrap().total_tokens, 7);
}

#[test]
fn the_last_events_are_answered_to_the_pump() {
    let mut world = World::running(Placement::None);
    let failure = run::RunFailure::new(Some(run::FailureCode::ServerError), None, "log only");
    let native = run::NativeSession {
        id: "n-1".into(),
        durable: true,
    };
    let answer = world.append_all(vec![
        EventBody::NativeSession(native.clone()),
        EventBody::Error(failure.clone()),
        EventBody::Done(run::Done {
            status: run::TurnStatus::Failed,
        }),
    ]);
    assert_eq!(
        (answer.failure, answer.done),
        (Some(failure), Some(run::TurnStatus::Failed))
    );
    assert_eq!(world.state().turn.unwrap().native_session, Some(native));
}

#[test]
fn events_after_the_end_of_the_run_are_inert() {
    // RP-11.8
    let mut world = World::running(Placement::OpenaiHosted);
    world.settle();
    let before = world.model.clone();
    let answer = world.append(completed("m", message("late")));
    assert_eq!(answer.through, 1, "acknowledged all the same");
    assert_eq!(world.model, before);
}
