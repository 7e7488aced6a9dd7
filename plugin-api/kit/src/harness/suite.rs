//! What every adapter must get right whatever its program does, without knowing what the program says: programs that do not
//! start, end at once, say nothing, or say what no adapter knows. Conversations with sense are an author's own tests.

use std::collections::BTreeSet;

use contract::HarnessAdapter;
use contract::common::{ContentPart, Extra, Pair};
use contract::harness_declaration::Declaration;
use contract::harness_io::{
    BadLine, CancelTurn, Command, Input, LaunchFailure, Line, LineDefect, Looked, MessageIn,
    Output, ProcessEnd, StartTurn,
};
use contract::harness_launch::LookAnswer;
use contract::harness_session::Configuration;
use contract::manifest::Manifest;

use super::{Bench, configuration, declaration};
use crate::{Error, Result, broken};

/// More answers than any adapter needs without a program that speaks.
const STEPS: usize = 200;
/// What no program says.
const NONSENSE: [&str; 8] = [
    "",
    "not what you know",
    "{}",
    "[1,2,3]",
    "{\"jsonrpc\":\"2.0\",\"id\":\"of nobody\",\"result\":{}}",
    "{\"method\":\"nobody/knows/this\",\"params\":{\"a\":[null,true,1e308]}}",
    "{\"type\":\"result\",\"id\":-1,\"error\":{\"code\":-32603,\"message\":\"\\u0000\"}}",
    "{\"unfinished\":",
];

/// What the program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum World {
    /// It cannot be started.
    Missing,
    /// It ends as soon as it runs.
    Ends,
    /// It runs and says nothing, until it is ended; timers run out.
    Silent,
    /// It says nonsense, and is killed.
    Nonsense,
}

/// Judges an adapter: what it declares, and that it answers every id exactly once, settles every Turn exactly once and says
/// nothing afterwards, whatever its program does.
///
/// # Errors
/// The first rule that is broken, with what the program did.
pub fn suite(adapter: &dyn HarnessAdapter, settings: &[Pair], manifest: &Manifest) -> Result {
    declaration::check(adapter, settings, manifest)?;
    let declared = adapter.describe(settings);
    let declared = declared.or_else(|failure| broken("CAP-005", failure.code))?;
    for declaration in &declared {
        let configuration = plain(declaration, settings, manifest);
        for world in [World::Missing, World::Ends, World::Silent, World::Nonsense] {
            survives(adapter, &configuration, world).map_err(|error| Error {
                what: format!("{} (the program: {world:?})", error.what),
                ..error
            })?;
        }
    }
    Ok(())
}

/// A session that asks for nothing special.
fn plain(declaration: &Declaration, settings: &[Pair], manifest: &Manifest) -> Configuration {
    let mut plain = configuration(&declaration.id);
    plain.settings = settings.to_vec();
    let mut installs = manifest.harnesses.iter();
    if let Some(install) = installs.find(|it| it.id == declaration.install) {
        plain.version.clone_from(&install.pin);
    }
    if let Some(model) = &mut plain.model {
        if let Some(protocol) = declaration.models.protocols.first() {
            model.protocol.clone_from(protocol);
        }
        if declaration.models.needs_token_limits {
            model.context_window = Some(100_000);
            model.max_output_tokens = Some(10_000);
        }
    }
    plain
}

/// One session, played by the rules of the host.
struct Play {
    bench: Bench,
    world: World,
    running: BTreeSet<u32>,
    timers: BTreeSet<u32>,
    /// It can take a Turn.
    ready: bool,
    left: usize,
}

fn survives(adapter: &dyn HarnessAdapter, configuration: &Configuration, world: World) -> Result {
    let bench = Bench::open(adapter, configuration);
    let bench = bench.or_else(|failure| {
        broken(
            "RP-10.12",
            format!("a plain session is refused with {}", failure.code),
        )
    })?;
    let mut play = Play {
        bench,
        world,
        running: BTreeSet::new(),
        timers: BTreeSet::new(),
        ready: false,
        left: STEPS,
    };
    play.say(vec![Input::Command(Command::Prepare("prepare".into()))])?;
    play.act()?;
    if play.ready && !play.running.is_empty() {
        let message = MessageIn {
            id: "message".into(),
            content: vec![ContentPart::Text("hello".into())],
        };
        let start = StartTurn {
            run: "run".into(),
            messages: vec![message],
        };
        play.say(vec![Input::Command(Command::StartTurn(start))])?;
        play.act()?;
        if play.bench.referee().active_run() == Some("run") {
            let cancel = CancelTurn {
                id: "cancel".into(),
                run: "run".into(),
            };
            play.say(vec![Input::Command(Command::CancelTurn(cancel))])?;
            play.act()?;
        }
    }
    if !play.running.is_empty() {
        play.say(vec![Input::Command(Command::Close("close".into()))])?;
    }
    while let Some(process) = play.running.pop_first() {
        play.say(vec![ended(process, world == World::Silent)])?;
    }
    play.bench.finish()
}

fn ended(process: u32, clean: bool) -> Input {
    Input::Ended(ProcessEnd {
        process,
        exit_code: clean.then_some(1),
        signal: (!clean).then_some(9),
        clean,
    })
}

impl Play {
    /// What the program does now.
    fn act(&mut self) -> Result {
        match self.world {
            World::Missing | World::Ends => Ok(()),
            World::Silent => {
                for timer in std::mem::take(&mut self.timers) {
                    self.say(vec![Input::Timer(timer)])?;
                }
                Ok(())
            }
            World::Nonsense => {
                for text in NONSENSE {
                    let Some(process) = self.running.first().copied() else {
                        return Ok(());
                    };
                    let text = text.to_owned();
                    self.say(vec![Input::Line(Line { process, text })])?;
                }
                let Some(process) = self.running.first().copied() else {
                    return Ok(());
                };
                let defect = LineDefect::TooLong;
                self.say(vec![
                    Input::BadLine(BadLine { process, defect }),
                    Input::Other(Extra {
                        kind: "later".into(),
                        json: "{}".into(),
                    }),
                    Input::Line(Line {
                        process,
                        text: "x".repeat(100_000),
                    }),
                ])
            }
        }
    }

    /// Hands inputs over and does what is asked for, until nothing is.
    fn say(&mut self, mut inputs: Vec<Input>) -> Result {
        while !inputs.is_empty() {
            let Some(left) = self.left.checked_sub(1) else {
                return broken("contract", "it asks for something without an end");
            };
            self.left = left;
            let outputs = self.bench.step(std::mem::take(&mut inputs))?;
            for output in outputs {
                self.perform(output, &mut inputs);
            }
            if inputs.is_empty() && self.world == World::Ends {
                let ends = std::mem::take(&mut self.running);
                inputs.extend(ends.into_iter().map(|process| ended(process, true)));
            }
        }
        Ok(())
    }

    fn perform(&mut self, output: Output, inputs: &mut Vec<Input>) {
        match output {
            Output::Launch(plan) if self.world == World::Missing => {
                inputs.push(Input::LaunchFailed(LaunchFailure {
                    process: plan.process,
                    code: "program_missing".into(),
                }));
            }
            Output::Launch(plan) => {
                inputs.push(Input::Launched(plan.process));
                self.running.insert(plan.process);
            }
            Output::Stop(process) => {
                if self.running.remove(&process) {
                    inputs.push(ended(process, false));
                }
            }
            Output::Look(look) => inputs.push(Input::Looked(Looked {
                look: look.look,
                answer: LookAnswer::Missing,
            })),
            Output::SetTimer(timer) => {
                self.timers.insert(timer.timer);
            }
            Output::ClearTimer(timer) => {
                self.timers.remove(&timer);
            }
            Output::Prepared(answer) => self.ready = answer.is_ok(),
            Output::Write(_)
            | Output::CloseInput(_)
            | Output::PutHome(_)
            | Output::Event(_)
            | Output::Receipt(_)
            | Output::Settled(_)
            | Output::AnswerTool(_)
            | Output::Retire(_)
            | Output::Other(_) => {}
        }
    }
}
