//! The kit's rules, in every order that a server, a host and a crash can produce.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;

use harness_codex::{Codex, MANIFEST};
use kit::harness::{Bench, declaration, suite};
use proptest::prelude::*;
use sdk::common::{ContentPart, Failure, Pair};
use sdk::harness_declaration::{Declaration, ProbeReport, ProbeVerdict, Support};
use sdk::harness_io::*;
use sdk::harness_launch::Piece;
use sdk::harness_session::Configuration;
use sdk::manifest::Kind;
use sdk::{HarnessAdapter, HarnessSession};

use support::{SAYINGS, Say, Server, configuration};

#[test]
fn the_manifest_and_the_declaration_hold() {
    let manifest = kit::manifest::check(MANIFEST, Kind::Harness).unwrap();
    suite(&Codex, &[], &manifest).unwrap();
}

/// Codex, but for one thing that its sessions do wrong.
struct Bent(Bend);

/// Changes what a step said; steps are counted from 1.
type Bend = fn(&mut Vec<Output>, usize);

struct BentSession {
    inner: Box<dyn HarnessSession>,
    bend: Bend,
    step: usize,
}

impl HarnessSession for BentSession {
    fn step(&mut self, inputs: Vec<Input>) -> Result<Vec<Output>, Failure> {
        let mut outputs = self.inner.step(inputs)?;
        self.step += 1;
        (self.bend)(&mut outputs, self.step);
        Ok(outputs)
    }
}

impl HarnessAdapter for Bent {
    fn features(&self) -> Vec<String> {
        Codex.features()
    }

    fn describe(&self, settings: &[Pair]) -> Result<Vec<Declaration>, Failure> {
        Codex.describe(settings)
    }

    fn interpret_probe(&self, harness: &str, reports: &[ProbeReport]) -> ProbeVerdict {
        Codex.interpret_probe(harness, reports)
    }

    fn open(&self, configuration: Configuration) -> Result<Box<dyn HarnessSession>, Failure> {
        let inner = Codex.open(configuration)?;
        let (bend, step) = (self.0, 0);
        Ok(Box::new(BentSession { inner, bend, step }))
    }
}

#[test]
fn the_suite_finds_what_an_adapter_does_wrong_whatever_its_program_says() {
    let manifest = kit::manifest::check(MANIFEST, Kind::Harness).unwrap();
    let bends: [(&str, Bend); 6] = [
        ("RP-10.2", |all, _| {
            all.retain(|output| !matches!(output, Output::Prepared(_)));
        }),
        ("RP-10.2", |all, _| {
            let again = all
                .iter()
                .find(|output| matches!(output, Output::Prepared(_)));
            all.extend(again.cloned());
        }),
        ("RP-6.2", |all, _| {
            all.retain(|output| !matches!(output, Output::Receipt(_)));
        }),
        ("RP-12.2", |all, _| {
            all.push(Output::Write(Write {
                process: 77,
                content: Vec::new(),
                carries: Vec::new(),
            }));
        }),
        ("contract", |all, step| {
            if step > 1 {
                let look = u32::try_from(step).unwrap();
                let query = sdk::harness_launch::LookQuery::Head("again".to_owned());
                all.push(Output::Look(Look { look, query }));
            }
        }),
        ("TRN-006", |all, _| {
            all.push(Output::Retire("No code".to_owned()))
        }),
    ];
    for (rule, bend) in bends {
        let error = suite(&Bent(bend), &[], &manifest).unwrap_err();
        assert_eq!(error.rule, rule, "{error}");
        assert!(error.what.contains("the program: "), "{error}");
    }
}

/// Codex, if it offered this in no placement.
struct Without(&'static str);

impl HarnessAdapter for Without {
    fn features(&self) -> Vec<String> {
        Codex.features()
    }

    fn describe(&self, settings: &[Pair]) -> Result<Vec<Declaration>, Failure> {
        let mut declared = Codex.describe(settings)?;
        let abilities = declared.iter_mut().flat_map(|one| &mut one.abilities);
        for ability in abilities.filter(|ability| ability.name == self.0) {
            ability.none = Support::Refused;
            ability.hosted = Support::Refused;
            ability.self_hosted = Support::Refused;
        }
        Ok(declared)
    }

    fn interpret_probe(&self, harness: &str, reports: &[ProbeReport]) -> ProbeVerdict {
        Codex.interpret_probe(harness, reports)
    }

    fn open(&self, configuration: Configuration) -> Result<Box<dyn HarnessSession>, Failure> {
        Codex.open(configuration)
    }
}

// RP-7.3
#[test]
fn a_harness_that_no_session_can_use_is_told_so() {
    let manifest = kit::manifest::check(MANIFEST, Kind::Harness).unwrap();
    let checked = |name| declaration::check(&Without(name), &[], &manifest);
    for name in ["streaming", "tool_observations", "execution_controls"] {
        assert_eq!(checked(name).unwrap_err().rule, "RP-7.3", "{name}");
    }
    assert_eq!(checked("steering"), Ok(()));
}

/// What happens next.
#[derive(Debug, Clone)]
enum Happens {
    /// So many lines reach the session in one step.
    Lines(u8),
    /// A line is lost on the way.
    Lose,
    /// The server says something.
    Say(Say),
    Start(u8),
    Add,
    AddPicture,
    Cancel,
    CancelOther,
    Timer,
    BadLine,
    Close,
    /// The process dies; `true` if everything of it is known to be gone.
    Die(bool),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        8 => (1..5u8).prop_map(Happens::Lines),
        10 => prop::sample::select(SAYINGS).prop_map(Happens::Say),
        3 => (1..4u8).prop_map(Happens::Start),
        2 => Just(Happens::Add),
        1 => Just(Happens::AddPicture),
        2 => Just(Happens::Cancel),
        1 => Just(Happens::CancelOther),
        1 => Just(Happens::Timer),
        1 => Just(Happens::BadLine),
    ]
}

/// As above, and things go wrong for good.
fn breaks() -> impl Strategy<Value = Happens> {
    prop_oneof![
        20 => happens(),
        2 => Just(Happens::Lose),
        1 => Just(Happens::Close),
        1 => any::<bool>().prop_map(Happens::Die),
    ]
}

/// A host in a bottle: session, server, timers.
struct World {
    bench: Bench,
    server: Server,
    alive: bool,
    timers: BTreeSet<u32>,
    ids: u32,
    told: Vec<Input>,
    said: Vec<Output>,
}

impl World {
    /// Asked to prepare.
    fn new() -> Self {
        let mut world = Self {
            bench: Bench::open(&Codex, &configuration()).unwrap(),
            server: Server::default(),
            alive: false,
            timers: BTreeSet::new(),
            ids: 0,
            told: Vec::new(),
            said: Vec::new(),
        };
        world.command(Command::Prepare("prepare".into()));
        world
    }

    fn prepared() -> Self {
        let mut world = Self::new();
        world.quiet();
        assert!(
            world
                .said
                .iter()
                .any(|output| matches!(output, Output::Prepared(Ok(_))))
        );
        world
    }

    fn step(&mut self, inputs: Vec<Input>) {
        if inputs.is_empty() {
            return;
        }
        self.told.extend(inputs.iter().cloned());
        let outputs = self
            .bench
            .step(inputs)
            .unwrap_or_else(|error| panic!("{error}"));
        self.said.extend(outputs.iter().cloned());
        for output in outputs {
            match output {
                Output::Launch(plan) => {
                    self.alive = true;
                    self.step(vec![Input::Launched(plan.process)]);
                }
                Output::Write(write) if self.alive => {
                    for piece in &write.content {
                        let Piece::Text(line) = piece else {
                            panic!("{piece:?}")
                        };
                        self.server.hear(line);
                    }
                }
                Output::CloseInput(_) | Output::Stop(_) => self.die(true),
                Output::SetTimer(timer) => {
                    self.timers.insert(timer.timer);
                }
                Output::ClearTimer(timer) => {
                    self.timers.remove(&timer);
                }
                _ => {}
            }
        }
    }

    fn command(&mut self, command: Command) {
        self.step(vec![Input::Command(command)]);
    }

    fn lines(&mut self, count: usize) {
        let count = count.min(self.server.lines.len());
        let lines = self.server.lines.drain(..count);
        let inputs = lines
            .map(|text| Input::Line(Line { process: 0, text }))
            .collect();
        self.step(inputs);
    }

    /// Everything that is under way arrives.
    fn quiet(&mut self) {
        while !self.server.lines.is_empty() && self.alive {
            self.lines(16);
        }
    }

    fn die(&mut self, clean: bool) {
        if std::mem::replace(&mut self.alive, false) {
            // Its output is drained before its end is told.
            let rest = self.server.lines.len();
            self.lines(rest);
            self.server.lines.clear();
            let end = ProcessEnd {
                process: 0,
                exit_code: None,
                signal: Some(9),
                clean,
            };
            self.step(vec![Input::Ended(end)]);
        }
    }

    fn id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    fn cancels_are_open(&self) -> bool {
        self.bench
            .referee()
            .waiting()
            .iter()
            .any(|id| id.starts_with("cancel"))
    }

    fn message(&mut self) -> MessageIn {
        MessageIn {
            id: self.id("in"),
            content: vec![ContentPart::Text("go on".into())],
        }
    }

    fn start(&mut self, messages: u8) {
        let messages = (0..messages).map(|_| self.message()).collect();
        let run = self.id("run");
        self.command(Command::StartTurn(StartTurn { run, messages }));
    }

    fn run(&mut self) -> String {
        let active = self.bench.referee().active_run().map(str::to_owned);
        active.unwrap_or_else(|| "run-never".into())
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Lines(count) => self.lines(count.into()),
            Happens::Lose => {
                self.server.lines.pop_front();
            }
            Happens::Say(what) if self.alive => self.server.say(what),
            Happens::Say(_) => {}
            Happens::Start(messages) => self.start(messages),
            Happens::Add => {
                let (run, message) = (self.run(), self.message());
                self.command(Command::AddMessage(AddMessage { run, message }));
            }
            Happens::AddPicture => {
                let image = sdk::common::Image {
                    media_type: "image/png".into(),
                    data: vec![1],
                };
                let (run, id) = (self.run(), self.id("in"));
                let message = MessageIn {
                    id,
                    content: vec![ContentPart::Image(image)],
                };
                self.command(Command::AddMessage(AddMessage { run, message }));
            }
            Happens::Cancel => {
                let (run, id) = (self.run(), self.id("cancel"));
                self.command(Command::CancelTurn(CancelTurn { id, run }));
            }
            Happens::CancelOther => {
                let id = self.id("cancel");
                self.command(Command::CancelTurn(CancelTurn {
                    id,
                    run: "run-other".into(),
                }));
            }
            Happens::Timer => {
                if let Some(timer) = self.timers.pop_first() {
                    self.step(vec![Input::Timer(timer)]);
                }
            }
            Happens::BadLine => {
                let bad = BadLine {
                    process: 0,
                    defect: LineDefect::TooLong,
                };
                self.step(vec![Input::BadLine(bad)]);
            }
            Happens::Close => {
                let id = self.id("close");
                self.command(Command::Close(id));
            }
            Happens::Die(clean) => self.die(clean),
        }
    }

    /// The same inputs one at a time say the same: how the host batches lines decides nothing.
    fn batches_decide_nothing(&self) {
        let mut session = Codex.open(configuration()).unwrap();
        let told = self.told.iter().cloned();
        let said: Vec<_> = told
            .flat_map(|input| session.step(vec![input]).unwrap())
            .collect();
        assert_eq!(said, self.said);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With a server that keeps its word, every Turn settles by itself, nothing is left open, every question of the server
    /// has its answer, and the process stays usable.
    #[test]
    fn a_faithful_server_leaves_nothing_open(story in prop::collection::vec(happens(), 1..80)) {
        let mut world = World::prepared();
        for what in story {
            world.happen(what);
        }
        world.quiet();
        // A cancel that came before the Turn ran is not forgotten.
        prop_assert!(!world.cancels_are_open() || !world.server.busy());
        world.server.say(Say::Complete);
        world.quiet();
        prop_assert_eq!(world.bench.referee().active_run(), None);
        prop_assert_eq!(world.bench.referee().waiting(), Vec::<&str>::new());
        prop_assert!(world.server.open_questions.is_empty());
        world.start(1);
        world.quiet();
        prop_assert!(world.server.busy());
        world.server.say(Say::Complete);
        world.quiet();
        prop_assert_eq!(world.bench.referee().active_run(), None);
        world.batches_decide_nothing();
        world.die(true);
        world.bench.finish().unwrap();
    }

    /// Lost lines, closes and crashes at any moment: no rule is broken, and the end of the process closes everything.
    #[test]
    fn the_end_of_the_process_closes_everything(story in prop::collection::vec(breaks(), 1..80), clean: bool) {
        let mut world = World::prepared();
        for what in story {
            world.happen(what);
        }
        world.die(clean);
        world.happen(Happens::Start(2));
        world.happen(Happens::Close);
        world.batches_decide_nothing();
        world.bench.finish().unwrap();
    }

    /// A start that is cut at any line: before the thread exists nothing was made, and no Turn can start.
    #[test]
    fn a_preparation_may_be_cut_anywhere(lines in 0..6usize, lost in any::<bool>(), clean: bool) {
        let mut world = World::new();
        for _ in 0..lines {
            world.lines(1);
        }
        if lost {
            world.server.lines.clear();
        }
        world.start(1);
        world.die(clean);
        world.bench.finish().unwrap();
    }
}
