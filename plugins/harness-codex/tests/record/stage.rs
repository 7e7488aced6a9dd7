//! One scenario's folders, its scripted model, and the steps that scenarios are made of.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use harness_codex::Codex;
use kit::harness::{Fills, Rig, Scrub};
use sdk::common::ContentPart;
use sdk::harness_events::{DeltaKind, EventBody};
use sdk::harness_io::{Command, MessageIn, Output, StartTurn};
use sdk::harness_session::{Configuration, History, Workspace};

use crate::support::configuration;

pub const LIMIT: Duration = Duration::from_secs(60);

/// The native program: `CODEX_PROGRAM`, or the pinned one among the installed harnesses.
pub fn codex() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("CODEX_PROGRAM") {
        return Some(given.into());
    }
    let installed = PathBuf::from(std::env::var_os("BERTH_TEST_HARNESSES")?);
    let packages = installed.join("codex/0.171.0/node_modules/@openai");
    let inside = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    inside(packages)
        .flat_map(|package| inside(package.path().join("vendor")))
        .map(|target| target.path().join("bin/codex"))
        .find(|program| program.is_file())
}

/// The program that serves the scripted model.
pub fn berth() -> Option<PathBuf> {
    ["BERTH_PROGRAM", "BERTH_TEST_BIN"]
        .iter()
        .find_map(std::env::var_os)
        .map(PathBuf::from)
        .filter(|program| program.is_file())
}

/// The scripted model; it ends with its standard input.
pub struct ModelServer {
    url: String,
    _child: Child,
}

impl ModelServer {
    pub fn start() -> Self {
        let mut child = std::process::Command::new(berth().unwrap())
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
pub struct Stage {
    pub folder: tempfile::TempDir,
    model: ModelServer,
}

impl Stage {
    pub fn new() -> Self {
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

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn configuration(&self, history: History) -> Configuration {
        let mut configuration = configuration();
        configuration.home = self.path("home");
        configuration.workspace = Workspace::Here(self.path("work"));
        configuration.history = history;
        configuration.instructions = Some("Be brief.".into());
        if let Some(model) = &mut configuration.model {
            model.context_window = Some(200_000);
        }
        configuration
    }

    /// A prepared session.
    pub fn open(&self, configuration: Configuration) -> Rig {
        let programs = BTreeMap::from([("codex".into(), codex().unwrap())]);
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

    pub fn fresh(&self) -> Rig {
        self.open(self.configuration(History::Fresh))
    }

    pub fn keep(&self, rig: Rig, scenario: &str) {
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

pub fn message(id: &str, text: &str) -> MessageIn {
    MessageIn {
        id: id.into(),
        content: vec![ContentPart::Text(text.into())],
    }
}

/// A message that says what the model is to answer.
pub fn scripted(id: &str, replies: &serde_json::Value) -> MessageIn {
    message(id, &format!("scripted: {replies}"))
}

pub fn start(rig: &mut Rig, run: &str, messages: Vec<MessageIn>) {
    rig.command(Command::StartTurn(StartTurn {
        run: run.into(),
        messages,
    }))
    .unwrap();
}

pub fn settle(rig: &mut Rig) {
    rig.until(LIMIT, |output| matches!(output, Output::Settled(_)))
        .unwrap();
}

pub fn turn(rig: &mut Rig, run: &str, id: &str, replies: &serde_json::Value) {
    start(rig, run, vec![scripted(id, replies)]);
    settle(rig);
}

pub fn close(rig: &mut Rig) {
    rig.command(Command::Close("close".into())).unwrap();
    received(rig, "close");
}

pub fn received(rig: &mut Rig, id: &str) {
    rig.until(
        LIMIT,
        |output| matches!(output, Output::Receipt(receipt) if receipt.id == id),
    )
    .unwrap();
}

pub fn delta(rig: &mut Rig, kind: DeltaKind) {
    rig.until(LIMIT, |output| match output {
        Output::Event(event) => {
            matches!(&event.body, EventBody::Delta(delta) if delta.kind == kind)
        }
        _ => false,
    })
    .unwrap();
}
