//! Real Codex under our Executor, supervisor and relay, without any Core: a Turn with a command, a steered message, a cancel,
//! and a second process that continues the history. The model is the scripted one; everything else is the real thing.
//!
//! `BERTH_TEST_HARNESSES` names the folder of installed harnesses (default `target/test-tools/harnesses`, where
//! `cargo xtask test` puts Codex). Where it is missing the test says so and passes, in CI it fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use domain::{
    ExecutorId, FrameId, InputId, RunId,
    run::{
        EventBody, ExecutionConfiguration, History, InputMessage, ItemBody, ItemStatus,
        MessagePart, Placement, TurnStatus,
    },
};
use machine::process::Spawner;
use plugin_host::translate::harness::{Surroundings, configuration};
use protocol::wire::{Answer, Proof};
use runtime::{
    execute::{Executor, Order, Report, Reported, Setup},
    harness::{Catalogue, Ready},
    place::{Machine, OwnPlace, Place},
    relay::{ModelProtocol, Relay, Route},
};
use tokio::{sync::mpsc, time::timeout};

// A linked plugin that nobody names is not linked.
use harness_codex as _;

const BERTH: &str = env!("CARGO_BIN_EXE_berth");
const KEY: &str = "sk-the-real-key-canary";

/// The scripted model; it ends when its standard input closes.
struct Model {
    url: String,
    child: Child,
}

impl Model {
    fn start() -> Self {
        let mut child = Command::new(BERTH)
            .arg("scripted-model")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line
            .trim()
            .strip_prefix("scripted model on ")
            .unwrap()
            .to_owned();
        Self { url, child }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn harnesses() -> Option<PathBuf> {
    let default =
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/harnesses");
    let folder = std::env::var_os("BERTH_TEST_HARNESSES").map_or_else(default, PathBuf::from);
    let found = folder.join("codex").is_dir();
    assert!(
        found || std::env::var_os("CI").is_none(),
        "Codex is missing in {}",
        folder.display()
    );
    if !found {
        eprintln!(
            "skipped: no Codex in {}; `cargo xtask test` installs it",
            folder.display()
        );
    }
    found.then(|| folder.canonicalize().unwrap())
}

/// One machine with one Session.
struct Bench {
    folder: tempfile::TempDir,
    model: Model,
    machine: Machine,
    codex: Ready,
    reports: mpsc::UnboundedReceiver<Reported>,
    reporter: mpsc::UnboundedSender<Reported>,
    native: Option<String>,
}

impl Bench {
    async fn start() -> Option<Self> {
        let harnesses = harnesses()?;
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_test_writer()
            .try_init();
        let model = Model::start();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        std::fs::write(
            folder.path().join("state/credential"),
            "device-credential-canary",
        )
        .unwrap();
        let spawner = Spawner::new(BERTH);
        let linked = plugin_host::Plugins::built_in()
            .unwrap()
            .harnesses()
            .unwrap();
        let catalogue = Catalogue::discover(&linked, &harnesses, Placement::Hosted, &spawner).await;
        let ready = catalogue.ready(&"codex".parse().unwrap());
        let codex = ready
            .unwrap_or_else(|| panic!("Codex cannot be used: {:?}", catalogue.offers()))
            .clone();
        let relay = Arc::new(Relay::start().await.unwrap());
        let homes = folder.path().join("homes");
        let machine = Machine {
            spawner: spawner.hiding([folder.path().join("state")]),
            relay,
            homes,
            diagnostics: folder.path().join("state/diagnostics"),
        };
        let (reporter, reports) = mpsc::unbounded_channel();
        Some(Self {
            folder,
            model,
            machine,
            codex,
            reports,
            reporter,
            native: None,
        })
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    fn open(&self, history: History) -> Executor {
        let frozen: ExecutionConfiguration = serde_json::from_value(serde_json::json!({
            "harness": "codex",
            "declaration_hash": self.codex.harness.declaration.hash(),
            "workspace": {"kind": "bound"},
            "history": history,
            "model": {"id": "scripted", "protocol": "responses", "base_url": self.model.url, "api_key": KEY},
            "options": {}, "parameters": "{}", "functions": [], "controls": {"tool_search": false}, "mcp": [],
            "permissions": "allow",
        }))
        .unwrap();
        let place =
            OwnPlace::open(self.machine.clone(), "session", Some(self.workspace())).unwrap();
        let model = frozen.model.as_ref().unwrap();
        let upstream = net::ModelUrl::parse(&model.base_url, net::LoopbackHttp::Allowed).unwrap();
        let key = model.api_key.clone();
        let relay = place
            .relay(Route {
                protocol: ModelProtocol::Responses,
                upstream,
                loopback: net::LoopbackHttp::Allowed,
                key,
            })
            .unwrap();
        let id = ExecutorId::new(uuid::Uuid::new_v4());
        let around = Surroundings {
            executor: id,
            version: self.codex.version.clone(),
            home: place.home().to_str().unwrap().to_owned(),
            workspace: self.workspace().to_str().map(str::to_owned),
            settings: Vec::new(),
            host_features: Vec::new(),
        };
        let session = self
            .codex
            .harness
            .adapter
            .open(configuration(&frozen, around))
            .unwrap();
        let declaration = &self.codex.harness.declaration;
        let setup = Setup {
            id,
            session,
            plugin: self.codex.harness.plugin.clone(),
            place: Arc::new(place),
            relay: Some(relay),
            programs: self.codex.programs.clone(),
            env: Vec::new(),
            cancellation: declaration.cancellation,
            silence_limit_s: declaration.silence_limit_s,
            turn_limit_s: declaration.turn_limit_s,
        };
        Executor::spawn(setup, self.reporter.clone())
    }

    async fn next(&mut self) -> Report {
        let reported = timeout(Duration::from_secs(30), self.reports.recv())
            .await
            .expect("a report within 30 s");
        reported.unwrap().report
    }

    async fn prepared(&mut self, executor: &Executor) {
        match self.next().await {
            Report::Prepared(Ok(())) => {}
            other => panic!("{other:?} of {:?}", executor.id()),
        }
    }

    /// Collects until the report that `last` picks.
    async fn until(&mut self, seen: &mut Vec<Report>, last: impl Fn(&Report) -> bool) {
        loop {
            let report = self.next().await;
            if let Report::Events(batch) = &report {
                for event in &batch.events {
                    if let EventBody::NativeSession(native) = &event.body {
                        self.native = Some(native.id.clone()).filter(|_| native.durable);
                    }
                }
            }
            let found = last(&report);
            seen.push(report);
            if found {
                return;
            }
        }
    }

    async fn run_to_end(&mut self, executor: &Executor, text: &str) -> Vec<Report> {
        executor.order(Order::Start {
            run: run_id(),
            input: vec![message(text)],
        });
        let mut seen = Vec::new();
        self.until(&mut seen, is_done).await;
        seen
    }
}

fn run_id() -> RunId {
    RunId::new(uuid::Uuid::now_v7())
}

fn message(text: &str) -> InputMessage {
    InputMessage {
        id: InputId::new(uuid::Uuid::new_v4()),
        content: vec![MessagePart::Text(text.to_owned())],
    }
}

fn ask() -> FrameId {
    FrameId::new(uuid::Uuid::now_v7())
}

fn events(seen: &[Report]) -> impl Iterator<Item = &EventBody> {
    seen.iter()
        .filter_map(|report| match report {
            Report::Events(batch) => Some(batch.events.iter().map(|event| &event.body)),
            _ => None,
        })
        .flatten()
}

fn is_done(report: &Report) -> bool {
    matches!(report, Report::Events(batch) if batch.events.iter().any(domain::run::RunEvent::is_last))
}

fn outcome(seen: &[Report]) -> TurnStatus {
    let done = events(seen).filter_map(|body| match body {
        EventBody::Done(done) => Some(done.status),
        _ => None,
    });
    let all: Vec<_> = done.collect();
    assert_eq!(all.len(), 1, "exactly one end: {seen:#?}");
    all[0]
}

fn messages(seen: &[Report]) -> String {
    let text = |body: &EventBody| match body {
        EventBody::ItemEnded(end) => match &end.item.body {
            ItemBody::Message(message) => Some(message.text.clone()),
            _ => None,
        },
        _ => None,
    };
    events(seen).filter_map(text).collect::<Vec<_>>().join("|")
}

/// The line that a command writes there.
async fn written(path: &Path) -> String {
    for _ in 0..100 {
        match std::fs::read_to_string(path) {
            Ok(line) if line.ends_with('\n') => return line.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("nothing was written to {}", path.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_a_steer_a_cancel_and_a_resume() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    let executor = bench.open(History::Fresh);
    bench.prepared(&executor).await;

    // A Turn with a command in the workspace. What the command sees holds neither key nor credential.
    let script = r#"scripted: [{"steps": [{"shell": "echo made > made.txt; pwd; env; cat ../state/credential; cat $CODEX_HOME/* 2>/dev/null; ls -d ../state"}]}, {"steps": [{"say": "All done."}]}]"#;
    let seen = bench.run_to_end(&executor, script).await;
    assert_eq!(outcome(&seen), TurnStatus::Completed, "{seen:#?}");
    assert_eq!(messages(&seen), "All done.");
    let command = events(&seen).find_map(|body| match body {
        EventBody::ItemEnded(end) => match &end.item.body {
            ItemBody::Command(command) => Some((command.clone(), end.status)),
            _ => None,
        },
        _ => None,
    });
    let (command, _) = command.expect("a command item");
    let output = command.output.unwrap_or_default();
    assert!(
        output.contains(bench.workspace().to_str().unwrap()),
        "{output}"
    );
    assert!(
        !output.contains("canary"),
        "a secret is visible to the agent: {output}"
    );
    assert!(bench.workspace().join("made.txt").is_file());
    assert!(
        events(&seen).any(|body| matches!(body, EventBody::Usage(_))),
        "{seen:#?}"
    );
    assert!(bench.native.is_some(), "a durable native session");

    // A message into the running Turn.
    let run = run_id();
    let script = r#"scripted: [{"steps": [{"shell": "sleep 2; echo slept"}]}, {"steps": [{"say": "First."}]}]"#;
    executor.order(Order::Start {
        run,
        input: vec![message(script)],
    });
    let mut seen = Vec::new();
    let is_command = |report: &Report| {
        matches!(report, Report::Events(batch) if batch.events.iter().any(|event| matches!(&event.body,
            EventBody::ItemStarted(item) if matches!(item.body, ItemBody::Command(_)))))
    };
    bench.until(&mut seen, is_command).await;
    let steer = ask();
    executor.order(Order::Input(
        steer,
        run,
        message("scripted: [{\"steps\": [{\"say\": \"Steered.\"}]}]"),
    ));
    bench.until(&mut seen, is_done).await;
    assert_eq!(outcome(&seen), TurnStatus::Completed, "{seen:#?}");
    assert!(messages(&seen).contains("Steered."), "{seen:#?}");
    let answers: Vec<_> = seen
        .iter()
        .filter_map(|report| match report {
            Report::Answer(to, answer) if *to == steer => Some(answer.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(answers.len(), 2, "written, then accepted: {answers:?}");
    assert_eq!(answers[1], Answer::Ok(Proof::Accepted));

    // A cancel while a command runs; the process is kept and works on.
    let run = run_id();
    let script = r#"scripted: [{"steps": [{"shell": "echo $$ > pid; sleep 600"}]}, {"steps": [{"say": "Never."}]}]"#;
    executor.order(Order::Start {
        run,
        input: vec![message(script)],
    });
    let mut seen = Vec::new();
    bench.until(&mut seen, is_command).await;
    let number = written(&bench.workspace().join("pid")).await;
    let cancel = ask();
    executor.order(Order::Cancel(cancel, run));
    bench.until(&mut seen, is_done).await;
    assert_eq!(outcome(&seen), TurnStatus::Cancelled, "{seen:#?}");
    let proof = seen.iter().find_map(|report| match report {
        Report::Answer(to, answer) if *to == cancel => Some(answer.clone()),
        _ => None,
    });
    assert!(
        matches!(&proof, Some(Answer::Ok(Proof::Cancelled(proof))) if proof.settled && proof.outcome == TurnStatus::Cancelled),
        "{proof:?}"
    );
    assert!(
        events(&seen).any(
            |body| matches!(body, EventBody::ItemEnded(end) if end.status != ItemStatus::Completed)
        ),
        "{seen:#?}"
    );
    let command = Path::new("/proc").join(number);
    // Codex kills the command before it answers; when it then reaps it is its own affair.
    for _ in 0..100 {
        if !command.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!command.exists(), "the cancelled command still runs");
    let seen = bench.run_to_end(&executor, "after the cancel").await;
    assert_eq!(messages(&seen), "You said: after the cancel");

    // A command that left Codex's own process group ends with the cancelled Turn, before its end is told (S-CAN-7).
    let run = run_id();
    let script = r#"scripted: [{"steps": [{"shell": "setsid sh -c 'echo $$ > stray; sleep 600' & sleep 600"}]}, {"steps": [{"say": "Never."}]}]"#;
    executor.order(Order::Start {
        run,
        input: vec![message(script)],
    });
    let mut seen = Vec::new();
    bench.until(&mut seen, is_command).await;
    let stray = written(&bench.workspace().join("stray")).await;
    executor.order(Order::Cancel(ask(), run));
    bench.until(&mut seen, is_done).await;
    assert_eq!(outcome(&seen), TurnStatus::Cancelled, "{seen:#?}");
    assert!(
        !Path::new("/proc").join(&stray).exists(),
        "what the cancelled Turn started works on"
    );

    // The Executor is closed; another one continues the same history.
    let native = bench.native.clone().unwrap();
    executor.order(Order::Close);
    let mut seen = Vec::new();
    bench
        .until(&mut seen, |report| matches!(report, Report::Closed { .. }))
        .await;
    assert!(
        matches!(seen.last(), Some(Report::Closed { clean: true })),
        "{seen:?}"
    );
    // So it does whatever the agent left where Codex looks first: each would keep it from its start, or waiting for ever.
    let left = "rm -rf config.toml installation_id; mkfifo auth.json environments.toml pipe; \
                mkdir -p config.toml/x; ln -s pipe installation_id";
    let left = std::process::Command::new("/bin/sh")
        .args(["-c", left])
        .current_dir(bench.folder.path().join("homes/session/harness"))
        .status();
    assert!(left.unwrap().success());
    let again = bench.open(History::Resume(native.clone()));
    bench.prepared(&again).await;
    let seen = bench.run_to_end(&again, "and on").await;
    assert_eq!(messages(&seen), "You said: and on");
    assert_eq!(
        bench.native.as_ref(),
        Some(&native),
        "the same native session"
    );
    again.order(Order::Close);
    bench
        .until(&mut Vec::new(), |report| {
            matches!(report, Report::Closed { .. })
        })
        .await;

    // A history that is not there fails without any native work (F09).
    let missing = bench.open(History::Resume(uuid::Uuid::now_v7().to_string()));
    match bench.next().await {
        Report::Prepared(Err(domain::run::PrepareCode::HistoryMissing)) => {}
        other => panic!("{other:?} of {:?}", missing.id()),
    }
}
