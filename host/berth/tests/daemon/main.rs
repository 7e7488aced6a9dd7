//! The whole daemon as a process: bootstrap file, link, Sessions, supervisor and a scripted harness, against a Core in small.
//!
//! `BERTH_TEST_SCRIPTED` names the scripted harness (default: beside this program's build); where it is missing the tests say
//! so and pass, in CI they fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod core;
mod engine;
mod faults;
mod lifecycle;

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use domain::{
    EnvironmentId, RunId, Secret,
    run::{Binding, EventBody, ExecutionConfiguration, History, ItemBody, RunEvent, TurnStatus},
};
use protocol::{
    bootstrap::BootstrapFile,
    wire::{Answer, Bind, InitStep, Limits, Operation, Proof, RuntimePrepare, Variable},
};
use uuid::Uuid;

// Linked in for its registration.
use harness_codex as _;

use self::core::{CREDENTIAL, Connection, Core};

const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// Where the adapter's manifest looks for the program.
const PROGRAM: &str =
    "codex/0.171.0/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex";

fn scripted() -> Option<PathBuf> {
    let default = || Path::new(BERTH).with_file_name("berth-scripted");
    let program = std::env::var_os("BERTH_TEST_SCRIPTED").map_or_else(default, PathBuf::from);
    let found = program.is_file();
    assert!(
        found || std::env::var_os("CI").is_none(),
        "{} is missing",
        program.display()
    );
    if !found {
        eprintln!(
            "skipped: no scripted harness at {}; `cargo build -p berth-scripted` makes it",
            program.display()
        );
    }
    found.then_some(program)
}

/// What kind of daemon it is.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    /// An engine host with so many Runs at a time; else a daemon of one Environment.
    engine_runs: Option<u32>,
    /// Options of `ulimit` that it is started under.
    ulimit: Option<&'static str>,
}

/// One machine with one daemon and its Core.
struct Bench {
    kind: Kind,
    folder: tempfile::TempDir,
    core: Core,
    daemon: Child,
    binding: Binding,
}

impl Bench {
    async fn start() -> Option<Self> {
        Self::with(Limits::default(), "{}").await
    }

    /// Bound, with an initialized Environment.
    async fn at_work() -> Option<(Self, Connection)> {
        let mut bench = Self::start().await?;
        let connection = bench.ready().await;
        Some((bench, connection))
    }

    /// With Core's limits and the harness's plan.
    async fn with(limits: Limits, plan: &str) -> Option<Self> {
        Self::of_kind(Kind::default(), limits, plan).await
    }

    async fn of_kind(kind: Kind, limits: Limits, plan: &str) -> Option<Self> {
        let scripted = scripted()?;
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["state", "workspace"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let program = path("harnesses").join(PROGRAM);
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::copy(scripted, &program).unwrap();
        std::fs::write(program.with_file_name("timeline.json"), plan).unwrap();
        let core = Core::start(limits).await;
        let dedicated = kind.engine_runs.is_none();
        let environment = dedicated.then(|| EnvironmentId::new(Uuid::new_v4()));
        let served = environment.map(|environment| (environment, path("workspace")));
        let credential = Secret::from(CREDENTIAL.to_owned());
        let file = BootstrapFile::new(
            core.url.clone(),
            core.installation,
            core.device,
            credential,
            served,
        );
        std::fs::write(path("state/bootstrap.json"), file.write().unwrap().expose()).unwrap();
        let daemon = launch(folder.path(), kind);
        let binding = core::binding(environment);
        Some(Self {
            kind,
            folder,
            core,
            daemon,
            binding,
        })
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// The next connection, bound.
    async fn connect(&mut self) -> Connection {
        let mut connection = self.core.connection().await;
        self.bind(&mut connection).await;
        connection
    }

    /// Binds the present binding.
    async fn bind(&self, connection: &mut Connection) {
        let workspace = self.binding.environment.map(|_| "/workspace".to_owned());
        let bind = Bind {
            harness: "codex".parse().unwrap(),
            workspace_directory: workspace,
        };
        let answer = connection.answer(self.binding, Operation::Bind(bind)).await;
        assert_eq!(answer, Answer::Ok(Proof::Bound));
    }

    /// The next connection, bound and with a completely initialized Environment.
    async fn ready(&mut self) -> Connection {
        let mut connection = self.connect().await;
        self.initialize(&mut connection).await;
        connection
    }

    async fn initialize(&self, connection: &mut Connection) {
        let env = vec![Variable {
            name: "FROM_SESSION".to_owned(),
            value: "session value".to_owned(),
        }];
        for step in [
            InitStep::Configure { env },
            InitStep::Finalize {
                sources: Vec::new(),
            },
        ] {
            let prepare = RuntimePrepare {
                budget_ms: 120_000,
                step,
            };
            let answer = connection
                .answer(self.binding, Operation::RuntimePrepare(prepare))
                .await;
            assert_eq!(answer, Answer::Ok(Proof::Installed));
        }
    }

    fn configuration(&self, connection: &Connection, history: History) -> ExecutionConfiguration {
        let hash = &connection.hello.harnesses[0].declaration_hash;
        let workspace = self.binding.environment.map_or("absent", |_| "bound");
        serde_json::from_value(serde_json::json!({
            "harness": "codex", "declaration_hash": hash, "workspace": {"kind": workspace}, "history": history,
            "model": {"id": "m", "protocol": "responses", "base_url": "https://model.test/v1", "api_key": "sk-key-canary"},
            "options": {}, "parameters": "{}", "functions": [], "controls": {"tool_search": false}, "mcp": [],
            "permissions": "allow",
        }))
        .unwrap()
    }

    /// Prepares and starts a Run.
    async fn begin(&self, connection: &mut Connection, history: History, text: &str) -> RunId {
        let configuration = self.configuration(connection, history);
        connection.start(self.binding, configuration, text).await
    }

    /// Runs a Turn to its end.
    async fn turn(
        &self,
        connection: &mut Connection,
        history: History,
        text: &str,
    ) -> Vec<RunEvent> {
        self.begin(connection, history, text).await;
        connection.done().await
    }

    /// Runs the first Turn of a Session; the native session that it made.
    async fn first_turn(&self, connection: &mut Connection) -> String {
        let text = r#"timeline: [{"say": "One."}]"#;
        let events = self.turn(connection, History::Fresh, text).await;
        assert_eq!(outcome(&events), TurnStatus::Completed, "{events:#?}");
        native(&events)
    }

    /// Goes on with a native session: what it answers, with the number of its Turns for `{{history}}`.
    async fn next_turn(&self, connection: &mut Connection, native: &str, says: &str) -> String {
        let text = format!(r#"timeline: [{{"say": "{says}"}}]"#);
        let history = History::Resume(native.to_owned());
        let events = self.turn(connection, history, &text).await;
        assert_eq!(outcome(&events), TurnStatus::Completed, "{events:#?}");
        answer_text(&events)
    }

    /// Processes whose program is in the harness folder.
    fn harness_processes(&self) -> usize {
        let folder = self.folder.path().join("harnesses");
        let entries = std::fs::read_dir("/proc").unwrap();
        let programs =
            entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path().join("exe")).ok());
        programs
            .filter(|program| program.starts_with(&folder))
            .count()
    }

    fn restart(&mut self) {
        self.kill();
        self.daemon = launch(self.folder.path(), self.kind);
    }

    fn kill(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.kill();
    }
}

fn launch(folder: &Path, kind: Kind) -> Child {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("daemon.log"))
        .unwrap();
    let ulimit = kind
        .ulimit
        .map_or_else(String::new, |options| format!("ulimit {options}; "));
    let mut daemon = Command::new("/bin/bash");
    daemon
        .args(["-c", &format!("{ulimit}exec \"$0\" \"$@\""), BERTH])
        .args(["daemon", "--log-level", "debug", "--harness-dir"])
        .arg(folder.join("harnesses"))
        .arg("--bootstrap")
        .arg(folder.join("state/bootstrap.json"));
    if let Some(runs) = kind.engine_runs {
        daemon.args(["--engine-runs", &runs.to_string()]);
    }
    daemon
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn outcome(events: &[RunEvent]) -> TurnStatus {
    match events.last().map(|event| &event.body) {
        Some(EventBody::Done(done)) => done.status,
        other => panic!("{other:?}"),
    }
}

fn answer_text(events: &[RunEvent]) -> String {
    let text = |event: &RunEvent| match &event.body {
        EventBody::ItemEnded(end) => match &end.item.body {
            ItemBody::Message(message) => Some(message.text.clone()),
            _ => None,
        },
        _ => None,
    };
    events.iter().filter_map(text).collect::<Vec<_>>().join("|")
}

fn native(events: &[RunEvent]) -> String {
    let id = |event: &RunEvent| match &event.body {
        EventBody::NativeSession(native) if native.durable => Some(native.id.clone()),
        _ => None,
    };
    events
        .iter()
        .find_map(id)
        .expect("a durable native session")
}

/// Waits until `holds`, at most five seconds.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..200 {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("{what}");
}
