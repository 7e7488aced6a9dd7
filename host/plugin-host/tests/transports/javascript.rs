//! An adapter in JavaScript: the same suite, the same limits, and conversations with the scripted harness under the kit's referee.
//! One test, because a debug build compiles the engine inside the component for more than a minute when it is new.
//!
//! `BERTH_TEST_SCRIPTED` names the scripted harness (default: in this build's folder).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kit::harness::{Fills, Rig};
use plugin_host::Plugin;
use plugin_host::contract::HarnessAdapter;
use plugin_host::contract::common::{ContentPart, Effect};
use plugin_host::contract::harness_events::{
    DeltaKind, EventBody, ItemBody, ItemEnd, ItemStatus, TurnStatus,
};
use plugin_host::contract::harness_io::{
    AddMessage, CancelTurn, Command, Input, Line, MessageIn, Output, ReceiptResult, StartTurn,
};
use plugin_host::contract::harness_session::{Configuration, Function, History, Workspace};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn an_adapter_in_javascript_keeps_the_contract() {
    let path = crate::folder().join("scripted-js.wasm");
    assert!(
        path.is_file(),
        "there is no {}; `cargo xtask plugins` builds it",
        path.display()
    );
    let plugin = crate::load(&path);
    let adapter = crate::harness(&plugin);
    assert_eq!(kit::harness::suite(adapter, &[], &plugin.manifest), Ok(()));
    refuses(adapter);
    converses(adapter);
    is_cancelled_and_goes_on(adapter);
    loses_its_program(adapter);
    resumes(adapter);
    assert_eq!(plugin.health.faults(), 0);
    breaks_one_session(&plugin);
}

fn scripted() -> PathBuf {
    let default = || {
        let own = std::env::current_exe().unwrap();
        own.ancestors().nth(2).unwrap().join("berth-scripted")
    };
    let program = std::env::var_os("BERTH_TEST_SCRIPTED").map_or_else(default, PathBuf::from);
    assert!(
        program.is_file(),
        "there is no {}; `cargo build` makes it",
        program.display()
    );
    program
}

fn configuration(folder: &Path, history: History) -> Configuration {
    let path = |name: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    Configuration {
        home: path("home"),
        workspace: Workspace::Here(path("work")),
        history,
        ..kit::harness::configuration("scripted")
    }
}

/// A prepared session and its native id.
fn open(adapter: &dyn HarnessAdapter, folder: &Path, history: History) -> (Rig, String) {
    let programs = BTreeMap::from([("scripted".to_owned(), scripted())]);
    let fills = Fills {
        relay_url: String::new(),
        relay_token: String::new(),
    };
    let mut rig = Rig::open(adapter, configuration(folder, history), programs, fills).unwrap();
    rig.command(Command::Prepare("prepare".into())).unwrap();
    rig.until(LIMIT, |output| matches!(output, Output::Prepared(_)))
        .unwrap();
    let prepared = rig.outputs().find_map(|output| match output {
        Output::Prepared(Ok(session)) => Some(session.id.clone()),
        _ => None,
    });
    let native = prepared.expect("a thread");
    (rig, native)
}

fn message(id: &str, text: String) -> MessageIn {
    MessageIn {
        id: id.to_owned(),
        content: vec![ContentPart::Text(text)],
    }
}

fn start(rig: &mut Rig, run: &str, timeline: &Value) {
    let message = message(&format!("{run}-message"), format!("timeline: {timeline}"));
    let start = StartTurn {
        run: run.to_owned(),
        messages: vec![message],
    };
    rig.command(Command::StartTurn(start)).unwrap();
}

fn settled(rig: &mut Rig, run: &str) -> TurnStatus {
    let of_run = |output: &Output| match output {
        Output::Settled(settlement) if settlement.run == run => Some(settlement.status),
        _ => None,
    };
    if rig.outputs().find_map(of_run).is_none() {
        rig.until(LIMIT, |output| of_run(output).is_some()).unwrap();
    }
    rig.outputs().find_map(of_run).unwrap()
}

fn until_a_delta(rig: &mut Rig) {
    let delta = |output: &Output| matches!(output, Output::Event(event) if matches!(event.body, EventBody::Delta(_)));
    rig.until(LIMIT, delta).unwrap();
}

fn answer(rig: &Rig, id: &str) -> Option<ReceiptResult> {
    rig.outputs().find_map(|output| match output {
        Output::Receipt(receipt) if receipt.id == id => Some(receipt.outcome.clone()),
        _ => None,
    })
}

fn ends(rig: &Rig) -> impl Iterator<Item = &ItemEnd> {
    rig.outputs().filter_map(|output| match output {
        Output::Event(event) => match &event.body {
            EventBody::ItemEnded(end) => Some(end),
            _ => None,
        },
        _ => None,
    })
}

/// Everything that was said in deltas of one kind.
fn told(rig: &Rig, kind: DeltaKind) -> String {
    let pieces = rig.outputs().filter_map(|output| match output {
        Output::Event(event) => match &event.body {
            EventBody::Delta(delta) if delta.kind == kind => Some(delta.text.as_str()),
            _ => None,
        },
        _ => None,
    });
    pieces.collect()
}

fn close(mut rig: Rig) {
    rig.command(Command::Close("close".into())).unwrap();
    let ended = |rig: &Rig| {
        rig.outputs()
            .any(|output| matches!(output, Output::Receipt(receipt) if receipt.id == "close"))
    };
    assert!(ended(&rig));
    rig.finish().unwrap();
}

/// A refusal of its own is thrown as a record, and is no fault.
fn refuses(adapter: &dyn HarnessAdapter) {
    let folder = tempfile::tempdir().unwrap();
    let recover = adapter.open(configuration(folder.path(), History::Recover));
    assert_eq!(recover.err().unwrap().code, "unsupported_preparation");
    let mut with_tools = configuration(folder.path(), History::Fresh);
    with_tools.functions.push(Function {
        name: "f".into(),
        description: String::new(),
        parameters: "{}".into(),
        deferred: false,
    });
    let refused = adapter.open(with_tools).err().unwrap();
    assert_eq!(
        (refused.code.as_str(), refused.effect),
        ("unsupported_configuration", Effect::None)
    );
}

/// Text, a real command, a steered message, and more output than the engine may keep at a time.
fn converses(adapter: &dyn HarnessAdapter) {
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, _) = open(adapter, folder.path(), History::Fresh);
    start(
        &mut rig,
        "one",
        &json!([{"run": "echo $((6*7)) > answer; cat answer"}, {"await_steers": 1}, {"say": "It is 42, naïvely 😀."}]),
    );
    let exists =
        |output: &Output| matches!(output, Output::Receipt(receipt) if receipt.id == "one");
    rig.until(LIMIT, exists).unwrap();
    let steer = AddMessage {
        run: "one".into(),
        message: message("steer", "go on".into()),
    };
    rig.command(Command::AddMessage(steer)).unwrap();
    assert_eq!(settled(&mut rig, "one"), TurnStatus::Completed);
    for id in ["one", "one-message", "steer"] {
        assert_eq!(answer(&rig, id), Some(ReceiptResult::Done), "{id}");
    }
    assert_eq!(told(&rig, DeltaKind::Text), "It is 42, naïvely 😀.");
    let command = ends(&rig).find_map(|end| match &end.item.body {
        ItemBody::Command(command) => Some((command.exit_code, command.output.clone())),
        _ => None,
    });
    assert_eq!(command, Some((Some(0), Some("42\n".to_owned()))));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("work/answer")).unwrap(),
        "42\n"
    );

    start(
        &mut rig,
        "two",
        &json!([{"flood": {"lines": 20_000, "bytes": 200}}, {"say": "Done."}]),
    );
    assert_eq!(settled(&mut rig, "two"), TurnStatus::Completed);
    assert_eq!(told(&rig, DeltaKind::Output).len(), 20_000 * 200);
    close(rig);
}

fn is_cancelled_and_goes_on(adapter: &dyn HarnessAdapter) {
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, _) = open(adapter, folder.path(), History::Fresh);
    start(
        &mut rig,
        "one",
        &json!([{"begin": "I was about to"}, "hang"]),
    );
    until_a_delta(&mut rig);
    let cancel = CancelTurn {
        id: "cancel".into(),
        run: "one".into(),
    };
    rig.command(Command::CancelTurn(cancel)).unwrap();
    assert_eq!(settled(&mut rig, "one"), TurnStatus::Cancelled);
    assert_eq!(answer(&rig, "cancel"), Some(ReceiptResult::Done));
    let cut: Vec<_> = ends(&rig)
        .map(|end| match &end.item.body {
            ItemBody::Message(message) => (end.status, message.text.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(cut, [(ItemStatus::Incomplete, "I was about to")]);
    start(&mut rig, "two", &json!([{"say": "Again."}]));
    assert_eq!(settled(&mut rig, "two"), TurnStatus::Completed);
    close(rig);
}

fn loses_its_program(adapter: &dyn HarnessAdapter) {
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, _) = open(adapter, folder.path(), History::Fresh);
    start(
        &mut rig,
        "one",
        &json!([{"begin": "I was about to"}, "hang"]),
    );
    until_a_delta(&mut rig);
    rig.kill(0).unwrap();
    assert_eq!(settled(&mut rig, "one"), TurnStatus::Unknown);
    rig.finish().unwrap();
}

fn resumes(adapter: &dyn HarnessAdapter) {
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, native) = open(adapter, folder.path(), History::Fresh);
    start(&mut rig, "one", &json!([{"say": "One."}]));
    settled(&mut rig, "one");
    close(rig);
    let history = History::Resume(native.clone());
    let (mut rig, again) = open(adapter, folder.path(), history);
    assert_eq!(again, native);
    start(&mut rig, "two", &json!([{"say": "{{history}} messages."}]));
    settled(&mut rig, "two");
    assert_eq!(told(&rig, DeltaKind::Text), "2 messages.");
    close(rig);
}

/// An error that nobody catches and a line beyond the engine's memory: each ends its own session.
fn breaks_one_session(plugin: &Plugin) {
    let adapter = crate::harness(plugin);
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let mut session = adapter
            .open(configuration(folder.path(), History::Fresh))
            .unwrap();
        let prepare = Input::Command(Command::Prepare("p".into()));
        session.step(vec![prepare, Input::Launched(0)]).unwrap();
        session
    };
    let line = |text: String| vec![Input::Line(Line { process: 0, text })];
    let mut other = open();
    for (text, code) in [
        // The thread that it answers with is not there.
        (json!({"id": 2}).to_string(), "plugin_crashed"),
        (" ".repeat(60 << 20), "plugin_memory"),
    ] {
        let mut session = open();
        session
            .step(line(json!({"id": 1, "result": {}}).to_string()))
            .unwrap();
        let failure = session.step(line(text)).unwrap_err();
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            (code, Effect::Unknown)
        );
        assert_eq!(session.step(Vec::new()).unwrap_err().code, "plugin_ended");
    }
    assert_eq!(plugin.health.faults(), 2);
    let asked = other
        .step(line(json!({"id": 1, "result": {}}).to_string()))
        .unwrap();
    assert!(matches!(
        asked.as_slice(),
        [Output::Write(_), Output::Write(_)]
    ));
}
