//! Records the transcripts from the real program:
//!
//! `CODEX_PROGRAM=…/bin/codex BERTH_PROGRAM=target/debug/berth cargo test -p berth-plugin-harness-codex --test record -- --ignored`
//!
//! `BERTH_PROGRAM` serves the scripted model. Each scenario is one conversation with one process of Codex; what the model
//! says is written into the messages.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use harness_codex::Codex;
use kit::harness::{Fills, Rig, Scrub};
use sdk::common::ContentPart;
use sdk::harness_events::{DeltaKind, EventBody, ItemBody};
use sdk::harness_io::{
    AddMessage, CancelTurn, Command, MessageIn, Output, ReceiptResult, StartTurn,
};
use sdk::harness_session::{
    Configuration, History, Model, ModelOptions, PermissionPolicy, ToolControls, Workspace,
};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

/// The scripted model; it ends with its standard input.
struct ModelServer {
    url: String,
    _child: Child,
}

impl ModelServer {
    fn start() -> Self {
        let mut child = std::process::Command::new(std::env::var("BERTH_PROGRAM").unwrap())
            .arg("scripted-model")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.trim().rsplit(' ').next().unwrap();
        Self {
            url: url.trim_end_matches("/v1").to_owned(),
            _child: child,
        }
    }
}

/// One scenario's folders.
struct Stage {
    folder: tempfile::TempDir,
    model: ModelServer,
}

impl Stage {
    fn new() -> Self {
        // Codex refuses to make its helper programs below the system's temporary folder.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/record");
        std::fs::create_dir_all(&root).unwrap();
        let folder = tempfile::tempdir_in(root.canonicalize().unwrap()).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self {
            folder,
            model: ModelServer::start(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn configuration(&self, history: History) -> Configuration {
        Configuration {
            harness: "codex".into(),
            executor: "5e1f0c1e-0000-4000-8000-000000000001".into(),
            version: "0.171.0".into(),
            home: self.path("home"),
            workspace: Workspace::Here(self.path("work")),
            history,
            model: Some(Model {
                id: "scripted-1".into(),
                protocol: "responses".into(),
                context_window: Some(200_000),
                max_output_tokens: None,
            }),
            options: ModelOptions {
                verbosity: None,
                effort: None,
                summary: None,
                service_tier: None,
            },
            parameters: "{}".into(),
            settings: Vec::new(),
            instructions: Some("Be brief.".into()),
            platform_prompt: None,
            output_schema: None,
            functions: Vec::new(),
            controls: ToolControls {
                web_search: None,
                programmatic_calling: None,
                tool_search: false,
            },
            mcp: Vec::new(),
            skills: Vec::new(),
            subagents: None,
            permissions: PermissionPolicy::Allow,
            host_features: Vec::new(),
            more: Vec::new(),
        }
    }

    /// A prepared session.
    fn open(&self, configuration: Configuration) -> Rig {
        let programs = BTreeMap::from([(
            "codex".into(),
            PathBuf::from(std::env::var("CODEX_PROGRAM").unwrap()),
        )]);
        let fills = Fills {
            relay_url: self.model.url.clone(),
            relay_token: "token".into(),
        };
        let mut rig = Rig::open(&Codex, configuration, programs, fills).unwrap();
        rig.command(Command::Prepare("prepare".into())).unwrap();
        rig.until(LIMIT, |output| matches!(output, Output::Prepared(_)))
            .unwrap();
        rig
    }

    fn fresh(&self) -> Rig {
        self.open(self.configuration(History::Fresh))
    }

    fn keep(&self, rig: Rig, scenario: &str) {
        let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        let name = |host: &str| format!(r#"\"serverName\":\"{host}\""#);
        let scrub = Scrub::default()
            .text(name(host.trim()), name("machine"))
            .text(self.model.url.as_str(), "http://relay.invalid")
            .text(self.path("home"), "/home/agent/codex")
            .text(self.path("work"), "/home/agent/work")
            .number("startedAtMs")
            .number("completedAtMs")
            .number("emittedAtMs")
            .number("createdAt")
            .number("updatedAt")
            .number("recencyAt")
            .number("startedAt")
            .number("completedAt");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
        rig.finish()
            .unwrap()
            .write(&folder.join(format!("{scenario}.jsonl")), &scrub)
            .unwrap();
    }
}

fn message(id: &str, text: &str) -> MessageIn {
    MessageIn {
        id: id.into(),
        content: vec![ContentPart::Text(text.into())],
    }
}

/// A message that says what the model is to answer.
fn scripted(id: &str, replies: &serde_json::Value) -> MessageIn {
    message(id, &format!("scripted: {replies}"))
}

fn start(rig: &mut Rig, run: &str, messages: Vec<MessageIn>) {
    rig.command(Command::StartTurn(StartTurn {
        run: run.into(),
        messages,
    }))
    .unwrap();
}

fn settle(rig: &mut Rig) {
    rig.until(LIMIT, |output| matches!(output, Output::Settled(_)))
        .unwrap();
}

fn turn(rig: &mut Rig, run: &str, id: &str, replies: &serde_json::Value) {
    start(rig, run, vec![scripted(id, replies)]);
    settle(rig);
}

fn close(rig: &mut Rig) {
    rig.command(Command::Close("close".into())).unwrap();
    received(rig, "close");
}

fn received(rig: &mut Rig, id: &str) {
    rig.until(
        LIMIT,
        |output| matches!(output, Output::Receipt(receipt) if receipt.id == id),
    )
    .unwrap();
}

fn delta(rig: &mut Rig, kind: DeltaKind) {
    rig.until(LIMIT, |output| match output {
        Output::Event(event) => {
            matches!(&event.body, EventBody::Delta(delta) if delta.kind == kind)
        }
        _ => false,
    })
    .unwrap();
}

#[test]
#[ignore = "needs Codex"]
fn text() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    let messages = vec![
        message("in_1", "First of two."),
        scripted(
            "in_2",
            &json!([{"steps": [{"think": "The user wants a greeting."}, {"say": "Hello from the model."}]}]),
        ),
    ];
    start(&mut rig, "run_1", messages);
    settle(&mut rig);
    turn(
        &mut rig,
        "run_2",
        "in_3",
        &json!([{"steps": [{"say": "And again."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "text");
}

#[test]
#[ignore = "needs Codex"]
fn none() {
    let stage = Stage::new();
    let mut configuration = stage.configuration(History::Fresh);
    configuration.workspace = Workspace::Absent;
    configuration.parameters = r#"{"model_reasoning_effort":"low"}"#.into();
    configuration.options.verbosity = Some("high".into());
    let mut rig = stage.open(configuration);
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"call": {"name": "exec_command", "arguments": {"cmd": "echo out"}}}]},
            {"steps": [{"say": "There is no shell: {{output}}"}]},
        ]),
    );
    close(&mut rig);
    stage.keep(rig, "none");
}

#[test]
#[ignore = "needs Codex"]
fn command() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"shell": "for i in 1 2 3; do echo line $i; sleep 0.4; done; exit 3"}]},
            {"steps": [{"patch": "*** Begin Patch\n*** Add File: note.txt\n+one\n+two\n*** End Patch\n"}]},
            {"steps": [{"patch": "*** Begin Patch\n*** Update File: note.txt\n@@\n one\n-two\n+three\n*** End Patch\n"}]},
            {"steps": [{"say": "Done."}]},
        ]),
    );
    close(&mut rig);
    stage.keep(rig, "command");
}

#[test]
#[ignore = "needs Codex"]
fn background_command() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"call": {"name": "exec_command",
                "arguments": {"cmd": "echo begun; sleep 600", "yield_time_ms": 300}}}]},
            {"steps": [{"say": "It runs on."}]},
        ]),
    );
    turn(
        &mut rig,
        "run_2",
        "in_2",
        &json!([{"steps": [{"say": "Still here."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "background_command");
}

#[test]
#[ignore = "needs Codex"]
fn steer() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    start(
        &mut rig,
        "run_1",
        vec![scripted(
            "in_1",
            &json!([
                {"steps": [{"say": {"text": "word ", "every_ms": 30, "times": 20}}]},
            ]),
        )],
    );
    // One before the Turn runs, one in the middle of the answer.
    let add = |id: &str, say: &str| {
        let message = scripted(id, &json!([{"steps": [{"say": say}]}]));
        Command::AddMessage(AddMessage {
            run: "run_1".into(),
            message,
        })
    };
    delta(&mut rig, DeltaKind::Text);
    rig.command(add("in_2", "Steered.")).unwrap();
    received(&mut rig, "in_2");
    settle(&mut rig);
    rig.command(add("in_3", "Too late.")).unwrap();
    close(&mut rig);
    stage.keep(rig, "steer");
}

#[test]
#[ignore = "needs Codex"]
fn cancel_command() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    start(
        &mut rig,
        "run_1",
        vec![scripted(
            "in_1",
            &json!([
                {"steps": [{"say": "I start."}, {"shell": "echo begun; sleep 1; echo more; sleep 600"}]},
            ]),
        )],
    );
    delta(&mut rig, DeltaKind::Output);
    rig.command(Command::CancelTurn(CancelTurn {
        id: "cancel_1".into(),
        run: "run_1".into(),
    }))
    .unwrap();
    received(&mut rig, "cancel_1");
    turn(
        &mut rig,
        "run_2",
        "in_2",
        &json!([{"steps": [{"say": "Ready again."}]}]),
    );
    rig.command(Command::CancelTurn(CancelTurn {
        id: "cancel_2".into(),
        run: "run_2".into(),
    }))
    .unwrap();
    close(&mut rig);
    stage.keep(rig, "cancel_command");
}

#[test]
#[ignore = "needs Codex"]
fn cancel_at_once() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    start(
        &mut rig,
        "run_1",
        vec![scripted("in_1", &json!([{"steps": ["hang"]}]))],
    );
    rig.command(Command::CancelTurn(CancelTurn {
        id: "cancel_1".into(),
        run: "run_1".into(),
    }))
    .unwrap();
    received(&mut rig, "cancel_1");
    close(&mut rig);
    stage.keep(rig, "cancel_at_once");
}

#[test]
#[ignore = "needs Codex"]
fn resume_and_recover() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([{"steps": [{"say": "Remember me."}]}]),
    );
    start(
        &mut rig,
        "run_2",
        vec![scripted(
            "in_2",
            &json!([{"steps": [{"say": "Half a"}, "hang"]}]),
        )],
    );
    delta(&mut rig, DeltaKind::Text);
    rig.kill(0).unwrap();
    settle(&mut rig);
    let thread = thread(&rig);
    stage.keep(rig, "killed");

    let mut rig = stage.open(stage.configuration(History::Resume(thread)));
    turn(
        &mut rig,
        "run_3",
        "in_3",
        &json!([{"steps": [{"say": "Resumed."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "resume");

    let mut rig = stage.open(stage.configuration(History::Recover));
    turn(
        &mut rig,
        "run_4",
        "in_4",
        &json!([{"steps": [{"say": "Recovered."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "recover");

    let missing = History::Resume("01a22cc0-b147-7d11-8560-ca3efa6ddb99".into());
    let mut rig = stage.open(stage.configuration(missing));
    close(&mut rig);
    stage.keep(rig, "resume_missing");
}

fn thread(rig: &Rig) -> String {
    rig.outputs()
        .find_map(|output| match output {
            Output::Prepared(Ok(session)) => Some(session.id.clone()),
            _ => None,
        })
        .unwrap()
}

#[test]
#[ignore = "needs Codex"]
fn model_unauthorized() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(&mut rig, "run_1", "in_1", &json!([{"status": 401}]));
    turn(
        &mut rig,
        "run_2",
        "in_2",
        &json!([{"steps": [{"say": "The process is still usable."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "model_unauthorized");
}

#[test]
#[ignore = "needs Codex"]
fn model_stream_cut() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    let cut = json!({"steps": [{"say": "Half of"}, "cut"]});
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([{"first": [cut], "steps": [{"say": "The whole."}]}]),
    );
    turn(&mut rig, "run_2", "in_2", &json!([cut]));
    close(&mut rig);
    stage.keep(rig, "model_stream_cut");
}

#[test]
#[ignore = "needs Codex"]
fn model_refusals() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(&mut rig, "run_1", "in_1", &json!([{"status": 429}]));
    turn(&mut rig, "run_2", "in_2", &json!([{"status": 500}]));
    turn(
        &mut rig,
        "run_3",
        "in_3",
        &json!([
            {"steps": [{"fail": {"code": "context_length_exceeded", "message": "too long"}}]},
        ]),
    );
    close(&mut rig);
    stage.keep(rig, "model_refusals");
}

#[test]
#[ignore = "needs Codex"]
fn workspace_configuration_is_not_trusted() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    let evil = format!(
        "[mcp_servers.evil]\ncommand = \"touch\"\nargs = [\"{}\"]\n",
        stage.path("touched")
    );
    std::fs::create_dir(stage.folder.path().join("work/.codex")).unwrap();
    std::fs::write(stage.folder.path().join("work/.codex/config.toml"), evil).unwrap();
    close(&mut rig);
    rig.finish().unwrap();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([{"steps": [{"say": "Fine."}]}]),
    );
    close(&mut rig);
    rig.finish().unwrap();
    assert!(!stage.folder.path().join("touched").exists());
}

#[test]
#[ignore = "needs Codex"]
fn commands_do_not_see_the_relay_token() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"shell": "env"}]},
            {"steps": [{"say": "Seen."}]},
        ]),
    );
    let output = rig
        .outputs()
        .find_map(|output| match output {
            Output::Event(event) => match &event.body {
                EventBody::ItemEnded(end) => match &end.item.body {
                    ItemBody::Command(command) => command.output.clone(),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
        .unwrap();
    assert!(
        output.contains("PATH=") && !output.contains("BERTH_RELAY_TOKEN"),
        "{output}"
    );
    let accepted = rig.outputs().any(|output| {
        matches!(output, Output::Receipt(r) if r.id == "in_1" && r.outcome == ReceiptResult::Done)
    });
    assert!(accepted);
    close(&mut rig);
    rig.finish().unwrap();
}

#[test]
#[ignore = "needs Codex"]
fn the_program_still_describes_itself_as_in_the_fixture() {
    let folder = tempfile::tempdir().unwrap();
    let status = std::process::Command::new(std::env::var("CODEX_PROGRAM").unwrap())
        .args([
            "app-server",
            "generate-json-schema",
            "--experimental",
            "--out",
        ])
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let read = |path: PathBuf| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/codex-0.171.0");
    for name in ["ServerRequest.json", "ServerNotification.json"] {
        assert!(
            read(folder.path().join(name)) == read(fixture.join(name)),
            "{name} differs"
        );
    }
}
