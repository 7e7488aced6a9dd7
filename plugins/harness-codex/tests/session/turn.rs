//! Turns that do not go well.

use harness_codex::Codex;
use kit::harness::Bench;
use sdk::HarnessAdapter;
use sdk::common::{ContentPart, Extra};
use sdk::harness_events::{ItemBody, ItemStatus, TurnStatus};
use sdk::harness_io::*;
use serde_json::json;

use crate::frames::*;
use crate::support::configuration;

#[test]
fn a_broken_model_stream_drops_what_was_half_said_and_keeps_commands() {
    let mut bench = running();
    let error =
        json!({"error": {"message": "Reconnecting... 1/2"}, "willRetry": true, "turnId": "u"});
    let outputs = bench
        .step(vec![
            note("item/started", json!({"turnId": "u", "item": {"type": "agentMessage", "id": "m", "text": ""}})),
            note("item/agentMessage/delta", json!({"turnId": "u", "itemId": "m", "delta": "Half"})),
            note("item/started", json!({"turnId": "u", "item": {"type": "commandExecution", "id": "c", "command": "ls"}})),
            note("error", error),
        ])
        .unwrap();
    let ends = ends(&outputs);
    let [(ItemBody::Message(message), ItemStatus::Incomplete)] = ends.as_slice() else {
        panic!("{ends:?}")
    };
    assert_eq!(message.text, "Half");
    assert_eq!(notices(&outputs), ["retrying"]);
}

#[test]
fn a_command_that_does_not_go_retires_the_process() {
    let mut bench = running();
    let command =
        json!({"turnId": "u", "item": {"type": "commandExecution", "id": "c", "command": "ls"}});
    bench.step(vec![note("item/started", command)]).unwrap();
    let outputs = bench
        .step(vec![note(
            "turn/completed",
            json!({"turn": {"id": "u", "status": "completed"}}),
        )])
        .unwrap();
    assert_eq!(
        written(&outputs)[0]["method"],
        "thread/backgroundTerminals/clean"
    );
    let outputs = bench
        .step(vec![line(&json!({"id": 6, "result": {}}))])
        .unwrap();
    assert!(outputs.is_empty());
    let outputs = bench.step(vec![Input::Timer(1)]).unwrap();
    assert_eq!(ends(&outputs)[0].1, ItemStatus::Incomplete);
    let Some(Output::Settled(settlement)) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        settlement.afterwards,
        Afterwards::Retire("work_left_open".into())
    );
}

#[test]
fn a_picture_is_rejected_and_never_dropped() {
    let mut bench = ready(&configuration());
    let image = sdk::common::Image {
        media_type: "image/png".into(),
        data: vec![1],
    };
    let parts = vec![ContentPart::Text("look".into()), ContentPart::Image(image)];
    let message = MessageIn {
        id: "in".into(),
        content: parts,
    };
    let start = StartTurn {
        run: "r".into(),
        messages: vec![message],
    };
    let outputs = bench
        .step(vec![Input::Command(Command::StartTurn(start))])
        .unwrap();
    let rejected = |id: &str| {
        Output::Receipt(Receipt {
            id: id.into(),
            outcome: ReceiptResult::Rejected("unsupported_content".into()),
        })
    };
    let receipts: Vec<_> = outputs
        .into_iter()
        .filter(|output| matches!(output, Output::Receipt(_)))
        .collect();
    assert_eq!(receipts, [rejected("r"), rejected("in")]);
}

#[test]
fn a_refused_start_submitted_nothing() {
    let mut bench = ready(&configuration());
    start(&mut bench, "r", "in");
    let error = json!({"id": 5, "error": {"code": -32600, "message": "no"}});
    let outputs = bench.step(vec![line(&error)]).unwrap();
    let receipts = outputs.iter().filter(|output| {
        matches!(
            output,
            Output::Receipt(Receipt {
                outcome: ReceiptResult::Rejected(_),
                ..
            })
        )
    });
    assert_eq!(receipts.count(), 2);
    assert_eq!(bench.referee().active_run(), None);
}

#[test]
fn a_later_command_is_rejected_by_its_id() {
    let mut bench = ready(&configuration());
    let extra = Extra {
        kind: "later".into(),
        json: r#"{"id":"x"}"#.into(),
    };
    let mut session = Codex.open(configuration()).unwrap();
    let outputs = session
        .step(vec![Input::Command(Command::Other(extra))])
        .unwrap();
    let [Output::Receipt(receipt)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        receipt.outcome,
        ReceiptResult::Rejected("unsupported".into())
    );
    let second = bench.step(vec![Input::Command(Command::Prepare("again".into()))]);
    assert!(second.is_err());
}

fn cancel(bench: &mut Bench, id: &str) -> Vec<Output> {
    let cancel = CancelTurn {
        id: id.into(),
        run: "r".into(),
    };
    bench
        .step(vec![Input::Command(Command::CancelTurn(cancel))])
        .unwrap()
}

fn completed(status: &str) -> Input {
    note(
        "turn/completed",
        json!({"turn": {"id": "u", "status": status}}),
    )
}

/// The settlement and the receipts after it.
fn last_words(outputs: &[Output]) -> (Settlement, Vec<(&str, &ReceiptResult)>) {
    let at = outputs
        .iter()
        .position(|output| matches!(output, Output::Settled(_)))
        .unwrap();
    let Output::Settled(settlement) = &outputs[at] else {
        unreachable!()
    };
    let receipts = outputs[at..].iter().filter_map(|output| match output {
        Output::Receipt(receipt) => Some((receipt.id.as_str(), &receipt.outcome)),
        _ => None,
    });
    (settlement.clone(), receipts.collect())
}

/// F01: two interrupts a moment apart are one interrupt, and both are answered.
#[test]
fn two_cancels_are_one_interrupt() {
    let mut bench = running();
    assert_eq!(
        written(&cancel(&mut bench, "k1"))[0]["method"],
        "turn/interrupt"
    );
    assert!(cancel(&mut bench, "k2").is_empty());
    let cleaned = bench
        .step(vec![
            line(&json!({"id": 6, "result": {}})),
            completed("interrupted"),
            line(&json!({"id": 7, "result": {}})),
        ])
        .unwrap();
    let (settlement, receipts) = last_words(&cleaned);
    assert_eq!(settlement.status, TurnStatus::Cancelled);
    assert_eq!(
        receipts,
        [("k1", &ReceiptResult::Done), ("k2", &ReceiptResult::Done)]
    );
}

/// F01: an interrupt that meets a Turn which has just ended changes nothing.
#[test]
fn a_cancel_that_came_too_late_leaves_the_outcome() {
    let mut bench = running();
    cancel(&mut bench, "k");
    let error =
        json!({"id": 6, "error": {"code": -32600, "message": "no active turn to interrupt"}});
    let outputs = bench
        .step(vec![line(&error), completed("completed")])
        .unwrap();
    let (settlement, receipts) = last_words(&outputs);
    assert_eq!(settlement.status, TurnStatus::Completed);
    assert_eq!(settlement.afterwards, Afterwards::Reusable);
    assert_eq!(
        receipts,
        [("k", &ReceiptResult::Rejected("not_running".into()))]
    );
}

/// F01, RP-16.6: a process that was killed because it kept silent is a confirmed cancel only if its end is certain.
#[test]
fn a_killed_process_confirms_a_cancel_only_if_its_end_is_certain() {
    for (clean, status, outcome) in [
        (true, TurnStatus::Cancelled, ReceiptResult::Done),
        (
            false,
            TurnStatus::Unknown,
            ReceiptResult::Unknown("process_ended".into()),
        ),
    ] {
        let mut bench = running();
        cancel(&mut bench, "k");
        let end = ProcessEnd {
            process: 0,
            exit_code: None,
            signal: Some(9),
            clean,
        };
        let outputs = bench.step(vec![Input::Ended(end)]).unwrap();
        let (settlement, receipts) = last_words(&outputs);
        assert_eq!(settlement.status, status);
        assert_eq!(
            settlement.afterwards,
            Afterwards::Retire("process_ended".into())
        );
        assert_eq!(receipts, [("k", &outcome)]);
    }
}
