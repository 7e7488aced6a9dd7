//! The wire as it is frozen: golden frames of every type, strictness at any depth, and texts that only look like frames.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use berth_protocol::wire::{
    CoreFrame, Fault, Message, RequestType, RuntimeFrame, Undecodable, Violation,
};
use serde_json::Value;
use std::collections::BTreeSet;

const CORE: &str = include_str!("golden/core.jsonl");
const RUNTIME: &str = include_str!("golden/runtime.jsonl");

/// Decodes and encodes again.
type Codec = fn(&str) -> Result<String, Undecodable>;

fn core(text: &str) -> Result<String, Undecodable> {
    CoreFrame::decode(text).map(|frame| frame.encode().expect("a decoded frame can be written"))
}

fn runtime(text: &str) -> Result<String, Undecodable> {
    RuntimeFrame::decode(text).map(|frame| frame.encode().expect("a decoded frame can be written"))
}

fn golden() -> impl Iterator<Item = (&'static str, Codec)> {
    let core = CORE.lines().map(|line| (line, core as Codec));
    core.chain(RUNTIME.lines().map(|line| (line, runtime as Codec)))
}

fn types(lines: &str) -> BTreeSet<String> {
    lines
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

#[test]
fn golden_frames_are_written_as_they_were_read() {
    // RP-19.3
    for (line, codec) in golden() {
        assert_eq!(codec(line).as_deref(), Ok(line));
    }
}

#[test]
fn every_type_has_a_golden_frame() {
    let mut expected: BTreeSet<_> = RequestType::ALL
        .iter()
        .map(|kind| kind.as_str().to_owned())
        .collect();
    expected.extend(
        [
            "welcome",
            "heartbeat_ack",
            "goodbye",
            "protocol_error",
            "run_ack",
            "credit",
            "transfer",
        ]
        .map(String::from),
    );
    assert_eq!(types(CORE), expected);
    let expected = [
        "hello",
        "heartbeat",
        "goodbye",
        "protocol_error",
        "receipt",
        "prepare_status",
        "run_events",
        "export_entry",
        "export_entry_end",
    ];
    assert_eq!(types(RUNTIME), expected.map(String::from).into());
}

#[test]
fn directions_are_not_interchangeable() {
    for line in CORE
        .lines()
        .filter(|line| !line.contains("\"goodbye\"") && !line.contains("\"protocol_error\""))
    {
        assert!(runtime(line).is_err(), "{line}");
    }
    for line in RUNTIME
        .lines()
        .filter(|line| !line.contains("\"goodbye\"") && !line.contains("\"protocol_error\""))
    {
        assert!(core(line).is_err(), "{line}");
    }
}

/// Calls `change` once for every place inside a value, with a copy of the whole in which that place may be changed.
fn everywhere(
    whole: &Value,
    change: &mut dyn FnMut(&mut Value) -> bool,
    check: &mut dyn FnMut(Value),
) {
    fn places(value: &Value, at: String, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members
                .iter()
                .for_each(|(key, inner)| places(inner, format!("{at}/{key}"), found)),
            Value::Array(list) => list
                .iter()
                .enumerate()
                .for_each(|(index, inner)| places(inner, format!("{at}/{index}"), found)),
            _ => {}
        }
        found.push(at);
    }
    let mut found = Vec::new();
    places(whole, String::new(), &mut found);
    for place in found {
        let mut copy = whole.clone();
        if change(copy.pointer_mut(&place).unwrap()) {
            check(copy);
        }
    }
}

#[test]
fn an_unknown_member_is_refused_at_any_depth() {
    // RP-4.2. A failure's code may be unknown (RP-11.5), its members may not.
    for (line, codec) in golden() {
        let whole: Value = serde_json::from_str(line).unwrap();
        everywhere(
            &whole,
            &mut |place| {
                place
                    .as_object_mut()
                    .is_some_and(|object| object.insert("surprise".into(), 1.into()).is_none())
            },
            &mut |changed| assert!(codec(&changed.to_string()).is_err(), "{changed}"),
        );
    }
}

#[test]
fn a_null_is_refused_at_any_depth() {
    // RP-4.2: absent members are left out.
    for (line, codec) in golden() {
        let whole: Value = serde_json::from_str(line).unwrap();
        everywhere(
            &whole,
            &mut |place| std::mem::take(place) != Value::Null,
            &mut |changed| {
                assert!(
                    matches!(codec(&changed.to_string()), Err(Undecodable::Violation(_))),
                    "{changed}"
                )
            },
        );
    }
}

#[test]
fn a_wrong_type_is_refused_at_any_depth() {
    // RP-4.2
    for (line, codec) in golden() {
        let whole: Value = serde_json::from_str(line).unwrap();
        everywhere(
            &whole,
            &mut |place| {
                let wrong = if place.is_boolean() {
                    Value::from("x")
                } else {
                    Value::from(false)
                };
                *place = wrong;
                true
            },
            &mut |changed| assert!(codec(&changed.to_string()).is_err(), "{changed}"),
        );
    }
}

#[test]
fn a_repeated_member_is_refused_at_any_depth() {
    // RP-4.2: repeat the first member of each object in the text itself.
    for (line, codec) in golden() {
        for (at, _) in line.match_indices("{\"") {
            let key_end = line[at + 2..].find('"').unwrap() + at + 3;
            let twice = format!(
                "{}{}:1,{}",
                &line[..=at],
                &line[at + 1..key_end],
                &line[at + 1..]
            );
            assert!(
                matches!(codec(&twice), Err(Undecodable::Violation(_))),
                "{twice}"
            );
        }
    }
}

#[test]
fn texts_that_are_no_frames_end_the_connection() {
    // RP-4.4
    for text in ["", "[]", "7", "\"x\"", "{", "{}{}", "\u{feff}{}"] {
        assert!(
            matches!(CoreFrame::decode(text), Err(Undecodable::Violation(_))),
            "{text}"
        );
        assert!(
            matches!(RuntimeFrame::decode(text), Err(Undecodable::Violation(_))),
            "{text}"
        );
    }
    let long = format!("{{\"type\":\"{}\"}}", "x".repeat(4 << 20));
    assert_eq!(
        CoreFrame::decode(&long),
        Err(Undecodable::Violation(Violation::TooLong))
    );
}

fn fault(text: &str) -> Box<Fault> {
    match CoreFrame::decode(text) {
        Err(Undecodable::Fault(fault)) => fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

fn line(kind: &str) -> &'static str {
    CORE.lines()
        .find(|line| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
        .unwrap()
}

#[test]
fn a_request_with_a_bad_body_is_rejected_by_receipt() {
    // RP-4.4
    let answer = fault(&line("run_cancel").replace("requested", "boredom"))
        .answer()
        .encode()
        .unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["type"], "receipt");
    assert_eq!(
        answer["body"]["answer"],
        serde_json::json!({"is":"rejected","data":{"family":"refusal","code":"invalid_body"}})
    );
    assert_eq!(
        answer["binding"],
        serde_json::from_str::<Value>(line("run_cancel")).unwrap()["binding"]
    );
}

#[test]
fn an_unknown_type_is_answered_by_protocol_error() {
    // RP-4.5
    let answer =
        fault(r#"{"type":"dance","id":"0192f3a4-b5c6-7d8e-9f00-112233445566","body":{}}"#).answer();
    let text = r#"{"type":"protocol_error","body":{"re":"0192f3a4-b5c6-7d8e-9f00-112233445566","of":"dance","code":"unknown_type"}}"#;
    assert_eq!(answer.encode().as_deref(), Ok(text));
}

#[test]
fn long_ids_and_types_are_not_echoed() {
    // RP-4.7
    let long = "i".repeat(129);
    let answer = fault(&format!(r#"{{"type":"{long}","id":"{long}","body":{{}}}}"#))
        .answer()
        .encode()
        .unwrap();
    assert_eq!(
        answer,
        r#"{"type":"protocol_error","body":{"code":"bad_id"}}"#
    );
}

#[test]
fn no_error_shows_a_value() {
    // RP-3.3, RP-9.12: the place of the fault is named, never what stood there.
    let broken = line("execution_prepare").replace("\"sk-golden\"", "\"sk-golden\\r\"");
    let fault = fault(&broken);
    assert_eq!(fault.place, "model.api_key");
    assert!(!format!("{fault:?} {:?}", fault.answer()).contains("sk-golden"));
    let frame = CoreFrame::decode(line("execution_prepare")).unwrap();
    assert!(
        !format!(
            "{frame:?} {:?}",
            Message::Text(line("execution_prepare").into())
        )
        .contains("sk-golden")
    );
}

#[test]
fn identities_must_agree() {
    let text = line("run_input").replacen("8a8b8c8d", "8a8b8c8e", 1);
    assert_eq!(fault(&text).place, "message.id");
    let text = line("function_result").replacen("9a9b9c9d", "9a9b9c9e", 1);
    assert_eq!(fault(&text).place, "delivery_id");
}

#[test]
fn a_proof_answers_only_its_own_request() {
    let text = RUNTIME
        .lines()
        .find(|line| line.contains("\"bound\"}"))
        .unwrap()
        .replace("\"of\":\"bind\"", "\"of\":\"release\"");
    assert!(runtime(&text).is_err());
}

#[test]
fn event_batches_are_bounded_and_end_with_done() {
    // RP-4 table, RP-11.4
    let event =
        r#"{"origin":{"kind":"root"},"body":{"kind":"notice","data":{"code":"c","detail":""}}}"#;
    let done = r#"{"origin":{"kind":"root"},"body":{"kind":"done","data":{"status":"completed"}}}"#;
    let batch = |events: &[&str], seq: u64| {
        format!(
            r#"{{"type":"run_events","binding":{{"session":"3f2c8a51-9d0e-4b6f-8a17-0c5de92b7a44","id":"0d9c8b7a-6f5e-4d3c-8b1a-090807060504","epoch":1}},"body":{{"run_id":"5a5b5c5d-1111-4222-8333-444455556666","seq":{seq},"events":[{}]}}}}"#,
            events.join(",")
        )
    };
    assert!(runtime(&batch(&[event; 64], 1)).is_ok());
    assert!(runtime(&batch(&[event, done], 1)).is_ok());
    for (events, seq) in [
        (vec![], 1),
        (vec![event; 65], 1),
        (vec![done, event], 1),
        (vec![event], 0),
    ] {
        assert!(runtime(&batch(&events, seq)).is_err());
    }
}

mod properties {
    use super::*;
    use berth_protocol::wire::{Chunk, Operation};
    use proptest::prelude::*;

    proptest! {
        /// RP-19.3: no text makes the decoder panic, and whatever it accepts it writes in one canonical way.
        #[test]
        fn damaged_frames(index in 0usize..200, cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 0..4)) {
            let all: Vec<_> = golden().collect();
            let (line, codec) = all[index % all.len()];
            let mut bytes = line.as_bytes().to_vec();
            for (place, byte, action) in cuts {
                let at = place.index(bytes.len().max(1));
                match action {
                    0 => { if let Some(slot) = bytes.get_mut(at) { *slot = byte } }
                    1 => bytes.insert(at.min(bytes.len()), byte),
                    _ => { if at < bytes.len() { bytes.remove(at); } }
                }
            }
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok(written) = codec(&text)
            {
                prop_assert_eq!(codec(&written), Ok(written.clone()));
            }
        }

        #[test]
        fn any_text(text in "\\PC{0,200}") {
            let _ = CoreFrame::decode(&text);
            let _ = RuntimeFrame::decode(&text);
        }

        #[test]
        fn any_string_survives_the_wire(text in any::<String>()) {
            let frame = line("run_input").replace("\" héllo\\n\"", &serde_json::to_string(&text).unwrap());
            let Ok(CoreFrame::Request(request)) = CoreFrame::decode(&frame) else { panic!("{frame}") };
            let Operation::RunInput(input) = &request.operation else { panic!() };
            prop_assert_eq!(&input.message.content, &vec![domain::run::MessagePart::Text(text)]);
            prop_assert_eq!(CoreFrame::decode(&CoreFrame::Request(request.clone()).encode().unwrap()), Ok(CoreFrame::Request(request)));
        }

        #[test]
        fn any_chunk(message in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(chunk) = Chunk::decode(&message) {
                prop_assert_eq!(chunk.encode(), message);
            }
        }
    }
}
