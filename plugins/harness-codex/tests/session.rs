//! Single conversations: what is refused, what is answered, what is kept.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use harness_codex::Codex;
use kit::harness::Bench;
use sdk::HarnessAdapter;
use sdk::common::{ContentPart, Effect, Extra};
use sdk::harness_declaration::ProbeReport;
use sdk::harness_events::{EventBody, ItemBody, ItemStatus};
use sdk::harness_io::*;
use sdk::harness_launch::{Directory, HomeContent, Piece};
use sdk::harness_session::{Configuration, Function, History, PermissionPolicy, Workspace};
use serde_json::{Value, json};

use support::configuration;

fn line(frame: &Value) -> Input {
    Input::Line(Line {
        process: 0,
        text: frame.to_string(),
    })
}

/// What a step wrote, as frames.
fn written(outputs: &[Output]) -> Vec<Value> {
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

fn bodies(outputs: &[Output]) -> impl Iterator<Item = &EventBody> {
    outputs.iter().filter_map(|output| match output {
        Output::Event(event) => Some(&event.body),
        _ => None,
    })
}

fn notices(outputs: &[Output]) -> Vec<&str> {
    let codes = bodies(outputs).filter_map(|body| match body {
        EventBody::Notice(notice) => Some(notice.code.as_str()),
        _ => None,
    });
    codes.collect()
}

/// A session that has launched its process.
fn launched(configuration: &Configuration) -> Bench {
    let mut bench = Bench::open(&Codex, configuration).unwrap();
    bench
        .step(vec![Input::Command(Command::Prepare("p".into()))])
        .unwrap();
    bench.step(vec![Input::Launched(0)]).unwrap();
    bench
}

/// Answers the requests in their order; the outputs after the last one.
fn answered(bench: &mut Bench, results: &[Value]) -> Vec<Output> {
    let mut last = Vec::new();
    for (index, result) in results.iter().enumerate() {
        let mut frame = result.clone();
        frame["id"] = json!(index + 1);
        last = bench.step(vec![line(&frame)]).unwrap();
    }
    last
}

fn config() -> Value {
    json!({"result": {"config": {"mcp_servers": {}, "model_provider": "berth", "approval_policy": "never",
        "web_search": "disabled"}}})
}

fn thread(id: &str) -> Value {
    json!({"result": {"thread": {"id": id, "environments": []}, "model": "scripted-1", "modelProvider": "berth",
        "cwd": "/home/agent/work"}})
}

fn ready(configuration: &Configuration) -> Bench {
    let mut bench = launched(configuration);
    let last = answered(&mut bench, &[json!({"result": {}}), config(), thread("t")]);
    assert!(
        matches!(last.as_slice(), [Output::Prepared(Ok(_))]),
        "{last:?}"
    );
    bench
}

fn refusal(outputs: &[Output]) -> (&str, Effect) {
    match outputs {
        [Output::Prepared(Err(failure))] => (&failure.code, failure.effect),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_configuration_that_needs_more_is_refused_before_a_process_exists() {
    type Change = fn(&mut Configuration);
    let function = Function {
        name: "f".into(),
        description: String::new(),
        parameters: "{}".into(),
        deferred: false,
    };
    let with_function = move |c: &mut Configuration| c.functions = vec![function.clone()];
    let mut changed = configuration();
    with_function(&mut changed);
    assert_eq!(
        Codex.open(changed).err().unwrap().code,
        "unsupported_configuration"
    );
    let cases: [(Change, &str); 12] = [
        (|c| c.harness = "other".into(), "invalid_configuration"),
        (|c| c.home = "relative".into(), "invalid_configuration"),
        (
            |c| c.workspace = Workspace::Here("relative".into()),
            "invalid_configuration",
        ),
        (|c| c.parameters = "[]".into(), "invalid_configuration"),
        (
            |c| c.parameters = r#"{"effort":"low"}"#.into(),
            "invalid_configuration",
        ),
        (
            |c| c.parameters = r#"{"model_reasoning_effort":"huge"}"#.into(),
            "invalid_configuration",
        ),
        (
            |c| c.workspace = Workspace::Remote,
            "unsupported_configuration",
        ),
        (|c| c.model = None, "unsupported_configuration"),
        (
            |c| c.output_schema = Some("{}".into()),
            "unsupported_configuration",
        ),
        (|c| c.subagents = Some(1), "unsupported_configuration"),
        (
            |c| c.controls.web_search = Some("live".into()),
            "unsupported_configuration",
        ),
        (
            |c| c.options.verbosity = Some("medium".into()),
            "unsupported_configuration",
        ),
    ];
    for (change, code) in cases {
        let mut changed = configuration();
        change(&mut changed);
        let failure = Codex.open(changed).err().unwrap();
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            (code, Effect::None),
            "{}",
            failure.detail
        );
    }
}

#[test]
fn explicit_off_switches_are_taken() {
    let mut configuration = configuration();
    configuration.controls.web_search = Some("disabled".into());
    configuration.controls.programmatic_calling = Some(false);
    assert!(Codex.open(configuration).is_ok());
}

#[test]
fn the_probe_reads_only_what_it_understands() {
    let report = |exit_code, stdout: &str| ProbeReport {
        args: vec!["--version".into()],
        exit_code,
        stdout: stdout.into(),
    };
    let verdict = |report| Codex.interpret_probe("codex", &[report]);
    assert_eq!(
        verdict(report(Some(0), "codex-cli 0.171.0\n"))
            .version
            .as_deref(),
        Some("0.171.0")
    );
    for bad in [
        report(Some(1), "codex-cli 0.171.0\n"),
        report(None, "codex-cli 0.171.0\n"),
        report(Some(0), "something 0.171.0\n"),
        report(Some(0), "codex-cli \n"),
        report(Some(0), "codex-cli 0.171.0 and more\n"),
    ] {
        assert_eq!(verdict(bad).problem.as_deref(), Some("program_unusable"));
    }
}

#[test]
fn the_launch_gives_the_process_its_home_and_nothing_secret() {
    let mut bench = Bench::open(&Codex, &configuration()).unwrap();
    let outputs = bench
        .step(vec![Input::Command(Command::Prepare("p".into()))])
        .unwrap();
    let [Output::Launch(plan)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(plan.args, ["app-server", "--strict-config"]);
    assert_eq!(plan.directory, Directory::Workspace);
    let HomeContent::File(pieces) = &plan.home[0].content else {
        panic!("no file")
    };
    let [Piece::Text(before), Piece::Fill(_), Piece::Text(after)] = pieces.as_slice() else {
        panic!("{pieces:?}")
    };
    assert!(before.contains("[projects.\"/home/agent/work\"]\ntrust_level = \"untrusted\""));
    assert_eq!(after, "/v1\"\n");
    assert!(plan.home.iter().all(|entry| entry.mode == 0o600));
}

/// CDX-005: fails closed if Codex would have somewhere to run commands.
#[test]
fn without_an_environment_nothing_may_offer_one() {
    let mut configuration = configuration();
    configuration.workspace = Workspace::Absent;
    let mut bench = launched(&configuration);
    let outputs = answered(
        &mut bench,
        &[
            json!({"result": {}}),
            json!({"result": {"status": "unknown"}}),
            json!({"result": {"status": "ready"}}),
        ],
    );
    assert_eq!(refusal(&outputs), ("program_failed", Effect::None));
}

/// CDX-011: a server that nobody declared is never started.
#[test]
fn an_undeclared_mcp_server_is_refused() {
    let mut bench = launched(&configuration());
    let mut config = config();
    config["result"]["config"]["mcp_servers"] = json!({"evil": {"command": "touch"}});
    let outputs = answered(&mut bench, &[json!({"result": {}}), config]);
    assert_eq!(refusal(&outputs), ("program_failed", Effect::None));
}

/// CDX-003: a thread that another provider would serve is not used.
#[test]
fn a_thread_with_another_model_provider_is_refused() {
    let mut bench = launched(&configuration());
    let mut thread = thread("t");
    thread["result"]["modelProvider"] = json!("openai");
    let outputs = answered(&mut bench, &[json!({"result": {}}), config(), thread]);
    assert_eq!(refusal(&outputs), ("program_failed", Effect::None));
}

/// HIS-001 to HIS-003.
#[test]
fn history_is_never_guessed() {
    let mut configuration = configuration();
    configuration.history = History::Recover;
    let row = |id: &str, cwd: &str| json!({"id": id, "cwd": cwd, "parentThreadId": null, "source": "vscode"});
    let list = |rows: Vec<Value>| json!({"result": {"data": rows, "nextCursor": null}});
    let cases = [
        (list(vec![]), "history_missing"),
        (list(vec![row("a", "/elsewhere")]), "history_missing"),
        (
            list(vec![
                row("a", "/home/agent/work"),
                row("b", "/home/agent/work"),
            ]),
            "history_ambiguous",
        ),
    ];
    for (answer, code) in cases {
        let mut bench = launched(&configuration);
        let outputs = answered(&mut bench, &[json!({"result": {}}), config(), answer]);
        assert_eq!(refusal(&outputs), (code, Effect::None));
    }
    configuration.history = History::Resume("t".into());
    for (message, code) in [
        ("no rollout found for thread id t", "history_missing"),
        ("thread t already has an active writer", "history_in_use"),
        ("something else", "program_failed"),
    ] {
        let mut bench = launched(&configuration);
        let error = json!({"error": {"code": -32600, "message": message}});
        let outputs = answered(&mut bench, &[json!({"result": {}}), config(), error]);
        assert_eq!(refusal(&outputs), (code, Effect::None));
    }
    let mut bench = launched(&configuration);
    let outputs = answered(
        &mut bench,
        &[json!({"result": {}}), config(), thread("another")],
    );
    assert_eq!(refusal(&outputs), ("program_failed", Effect::None));
}

/// F02, TRN-013.
#[test]
fn every_question_is_answered_by_the_policy() {
    let cases = [
        (
            "item/commandExecution/requestApproval",
            json!({"decision": "accept"}),
            json!({"decision": "decline"}),
        ),
        (
            "item/fileChange/requestApproval",
            json!({"decision": "accept"}),
            json!({"decision": "decline"}),
        ),
        (
            "item/permissions/requestApproval",
            json!({"permissions": {"network": {"enabled": true}}, "scope": "turn"}),
            json!({"permissions": {}}),
        ),
        (
            "execCommandApproval",
            json!({"decision": "approved"}),
            json!({"decision": {"denied": {"rejection": "not permitted"}}}),
        ),
        (
            "item/tool/requestUserInput",
            json!({"answers": {}}),
            json!({"answers": {}}),
        ),
        (
            "mcpServer/elicitation/request",
            json!({"action": "decline"}),
            json!({"action": "decline"}),
        ),
        (
            "item/tool/call",
            json!({"success": false, "contentItems": []}),
            json!({"success": false, "contentItems": []}),
        ),
    ];
    for policy in [PermissionPolicy::Allow, PermissionPolicy::Deny] {
        let mut configuration = configuration();
        configuration.permissions = policy;
        let mut bench = ready(&configuration);
        for (method, allowed, denied) in &cases {
            let question = json!({"id": "q", "method": method,
                "params": {"threadId": "t", "permissions": {"network": {"enabled": true}}}});
            let outputs = bench.step(vec![line(&question)]).unwrap();
            let answer = if policy == PermissionPolicy::Allow {
                allowed
            } else {
                denied
            };
            assert_eq!(
                written(&outputs),
                [json!({"id": "q", "result": answer})],
                "{method}"
            );
            assert_eq!(notices(&outputs).len(), 1);
        }
        let unknown = json!({"id": 7, "method": "item/somethingNew", "params": {}});
        let outputs = bench.step(vec![line(&unknown)]).unwrap();
        let error = json!({"code": -32601, "message": "method not found"});
        assert_eq!(written(&outputs), [json!({"id": 7, "error": error})]);
        assert_eq!(notices(&outputs), ["unknown_frame"]);
    }
}

fn start(bench: &mut Bench, run: &str, id: &str) -> Vec<Output> {
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

fn note(method: &str, params: Value) -> Input {
    let mut params = params;
    params["threadId"] = json!("t");
    line(&json!({"method": method, "params": params}))
}

/// A run whose native Turn `u` runs.
fn running() -> Bench {
    let mut bench = ready(&configuration());
    start(&mut bench, "r", "in");
    let user = json!({"turnId": "u", "item": {"type": "userMessage", "id": "x", "clientId": "in"}});
    let steps = vec![
        line(&json!({"id": 4, "result": {"turn": {"id": "u"}}})),
        note("turn/started", json!({"turn": {"id": "u"}})),
        note("item/completed", user),
    ];
    bench.step(steps).unwrap();
    bench
}

fn ends(outputs: &[Output]) -> Vec<(&ItemBody, ItemStatus)> {
    let ends = bodies(outputs).filter_map(|body| match body {
        EventBody::ItemEnded(end) => Some((&end.item.body, end.status)),
        _ => None,
    });
    ends.collect()
}

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
        .step(vec![line(&json!({"id": 5, "result": {}}))])
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
    let error = json!({"id": 4, "error": {"code": -32600, "message": "no"}});
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
