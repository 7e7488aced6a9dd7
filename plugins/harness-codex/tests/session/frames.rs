//! Frames in and out of a session.

use harness_codex::Codex;
use kit::harness::Bench;
use sdk::common::{ContentPart, Effect};
use sdk::harness_events::{EventBody, ItemBody, ItemStatus};
use sdk::harness_io::*;
use sdk::harness_launch::Piece;
use sdk::harness_session::Configuration;
use serde_json::{Value, json};

use crate::support::configuration;

pub fn line(frame: &Value) -> Input {
    Input::Line(Line {
        process: 0,
        text: frame.to_string(),
    })
}

/// What a step wrote, as frames.
pub fn written(outputs: &[Output]) -> Vec<Value> {
    let pieces = outputs.iter().flat_map(|output| match output {
        Output::Write(write) => write.content.clone(),
        _ => Vec::new(),
    });
    let frame = |piece| match piece {
        Piece::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    };
    pieces.map(frame).collect()
}

pub fn bodies(outputs: &[Output]) -> impl Iterator<Item = &EventBody> {
    outputs.iter().filter_map(|output| match output {
        Output::Event(event) => Some(&event.body),
        _ => None,
    })
}

pub fn notices(outputs: &[Output]) -> Vec<&str> {
    let codes = bodies(outputs).filter_map(|body| match body {
        EventBody::Notice(notice) => Some(notice.code.as_str()),
        _ => None,
    });
    codes.collect()
}

/// A session that has launched its process.
pub fn launched(configuration: &Configuration) -> Bench {
    let mut bench = Bench::open(&Codex, configuration).unwrap();
    bench
        .step(vec![Input::Command(Command::Prepare("p".into()))])
        .unwrap();
    bench.step(vec![Input::Launched(0)]).unwrap();
    bench
}

/// Answers the requests in their order; the outputs after the last one.
pub fn answered(bench: &mut Bench, results: &[Value]) -> Vec<Output> {
    let mut last = Vec::new();
    for (index, result) in results.iter().enumerate() {
        let mut frame = result.clone();
        frame["id"] = json!(index + 1);
        last = bench.step(vec![line(&frame)]).unwrap();
    }
    last
}

pub fn config() -> Value {
    json!({"result": {
        "config": {"mcp_servers": {}, "model_provider": "berth", "approval_policy": "never", "web_search": "disabled",
            "sandbox_mode": "danger-full-access", "features": {"code_mode": false, "code_mode_only": false}},
        "origins": {"model_providers.berth.base_url": {"name": {"type": "user"}}},
    }})
}

pub fn thread(id: &str) -> Value {
    json!({"result": {"thread": {"id": id, "environments": []}, "model": "scripted-1", "modelProvider": "berth",
        "cwd": "/home/agent/work"}})
}

pub fn ready(configuration: &Configuration) -> Bench {
    let mut bench = launched(configuration);
    let done = json!({"result": {}});
    let last = answered(&mut bench, &[done.clone(), config(), thread("t"), done]);
    assert!(
        matches!(last.as_slice(), [Output::Prepared(Ok(_))]),
        "{last:?}"
    );
    bench
}

pub fn refusal(outputs: &[Output]) -> (&str, Effect) {
    match outputs {
        [Output::Prepared(Err(failure))] => (&failure.code, failure.effect),
        other => panic!("{other:?}"),
    }
}

pub fn start(bench: &mut Bench, run: &str, id: &str) -> Vec<Output> {
    let message = MessageIn {
        id: id.into(),
        content: vec![ContentPart::Text("hi".into())],
    };
    let start = StartTurn {
        run: run.into(),
        messages: vec![message],
    };
    bench
        .step(vec![Input::Command(Command::StartTurn(start))])
        .unwrap()
}

pub fn note(method: &str, params: Value) -> Input {
    let mut params = params;
    params["threadId"] = json!("t");
    line(&json!({"method": method, "params": params}))
}

/// A run whose native Turn `u` runs.
pub fn running() -> Bench {
    let mut bench = ready(&configuration());
    start(&mut bench, "r", "in");
    let user = json!({"turnId": "u", "item": {"type": "userMessage", "id": "x", "clientId": "in"}});
    let steps = vec![
        line(&json!({"id": 5, "result": {"turn": {"id": "u"}}})),
        note("turn/started", json!({"turn": {"id": "u"}})),
        note("item/completed", user),
    ];
    bench.step(steps).unwrap();
    bench
}

pub fn ends(outputs: &[Output]) -> Vec<(&ItemBody, ItemStatus)> {
    let ends = bodies(outputs).filter_map(|body| match body {
        EventBody::ItemEnded(end) => Some((&end.item.body, end.status)),
        _ => None,
    });
    ends.collect()
}
