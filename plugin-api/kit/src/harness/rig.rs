//! A session with its real program: a small host for recording transcripts. Unix only, no isolation, no secrets; the
//! product's own host is another one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use contract::HarnessAdapter;
use contract::common::Encoding;
use contract::harness_io::{Command, Input, Line, Looked, Output, ProcessEnd};
use contract::harness_launch::{
    Directory, Fill, HomeContent, HomeEntry, LaunchPlan, LookAnswer, LookQuery, Piece,
};
use contract::harness_session::{Configuration, Workspace};

use super::bench::Bench;
use super::transcript::{Step, Transcript};

/// Most lines in one step.
const MOST_LINES: usize = 16;
/// Most bytes of a look.
const MOST_BYTES: usize = 256 * 1024;

/// Values that the host fills in.
#[derive(Debug, Clone)]
pub struct Fills {
    /// Base address of the model, without `/v1`.
    pub relay_url: String,
    /// Its token.
    pub relay_token: String,
}

/// Why a rig stopped.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// The system refused.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The adapter refuses the configuration.
    #[error("refused: {0}")]
    Refused(String),
    /// A rule is broken.
    #[error(transparent)]
    Rule(#[from] crate::Error),
    /// What was awaited did not come.
    #[error("timed out; the last outputs were {0}")]
    Timeout(String),
    /// The session asked for something that a rig does not have.
    #[error("{0} is not supported by the rig")]
    Unsupported(&'static str),
}

struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

/// A session, its programs and the record of what happened.
pub struct Rig {
    bench: Bench,
    transcript: Transcript,
    programs: BTreeMap<String, PathBuf>,
    fills: Fills,
    running: BTreeMap<u32, Running>,
    timers: BTreeMap<u32, Instant>,
    sender: Sender<Input>,
    inputs: Receiver<Input>,
}

impl Rig {
    /// Opens a session whose programs are these.
    ///
    /// # Errors
    /// The adapter refuses the configuration.
    pub fn open(
        adapter: &dyn HarnessAdapter,
        configuration: Configuration,
        programs: BTreeMap<String, PathBuf>,
        fills: Fills,
    ) -> Result<Self, RigError> {
        let bench = Bench::open(adapter, &configuration)
            .map_err(|failure| RigError::Refused(failure.detail))?;
        let (sender, inputs) = channel();
        Ok(Self {
            bench,
            transcript: Transcript {
                configuration,
                steps: Vec::new(),
            },
            programs,
            fills,
            running: BTreeMap::new(),
            timers: BTreeMap::new(),
            sender,
            inputs,
        })
    }

    /// Gives a command.
    ///
    /// # Errors
    /// See [`RigError`].
    pub fn command(&mut self, command: Command) -> Result<(), RigError> {
        self.step(vec![Input::Command(command)])
    }

    /// Goes on until an output is the awaited one; outputs before this call do not count.
    ///
    /// # Errors
    /// See [`RigError`].
    pub fn until(
        &mut self,
        limit: Duration,
        awaited: impl Fn(&Output) -> bool,
    ) -> Result<(), RigError> {
        let end = Instant::now() + limit;
        let mut seen = self.transcript.steps.len();
        loop {
            let new = &self.transcript.steps[seen..];
            if new.iter().flat_map(|step| &step.outputs).any(&awaited) {
                return Ok(());
            }
            seen = self.transcript.steps.len();
            if Instant::now() >= end {
                let last = self.transcript.steps.last().map(|step| &step.outputs);
                return Err(RigError::Timeout(format!("{last:?}")));
            }
            self.pump(end)?;
        }
    }

    /// Everything the session said so far.
    pub fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.transcript.steps.iter().flat_map(|step| &step.outputs)
    }

    /// Kills a process the hard way, as a crash of the machine would.
    ///
    /// # Errors
    /// The system refused.
    pub fn kill(&mut self, process: u32) -> Result<(), RigError> {
        if let Some(running) = self.running.get_mut(&process) {
            running.child.kill()?;
        }
        Ok(())
    }

    /// The record, once everything has ended.
    ///
    /// # Errors
    /// Something is still open.
    pub fn finish(self) -> Result<Transcript, RigError> {
        self.bench.finish()?;
        Ok(self.transcript)
    }

    fn pump(&mut self, end: Instant) -> Result<(), RigError> {
        let next = self.timers.values().min().copied().unwrap_or(end).min(end);
        let wait = next.saturating_duration_since(Instant::now());
        let mut inputs: Vec<Input> = self.inputs.recv_timeout(wait).into_iter().collect();
        while inputs.len() < MOST_LINES
            && let Ok(input) = self.inputs.try_recv()
        {
            inputs.push(input);
        }
        let now = Instant::now();
        let fired: Vec<u32> = self
            .timers
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(timer, _)| *timer)
            .collect();
        for timer in fired {
            self.timers.remove(&timer);
            inputs.push(Input::Timer(timer));
        }
        if inputs.is_empty() {
            Ok(())
        } else {
            self.step(inputs)
        }
    }

    fn step(&mut self, mut inputs: Vec<Input>) -> Result<(), RigError> {
        for input in &mut inputs {
            if let Input::Ended(end) = input
                && let Some(mut running) = self.running.remove(&end.process)
            {
                end.exit_code = running.child.wait()?.code();
            }
        }
        let outputs = self.bench.step(inputs.clone())?;
        self.transcript.steps.push(Step {
            inputs,
            outputs: outputs.clone(),
        });
        outputs
            .into_iter()
            .try_for_each(|output| self.perform(output))
    }

    fn perform(&mut self, output: Output) -> Result<(), RigError> {
        match output {
            Output::Launch(plan) => self.launch(&plan)?,
            Output::Write(write) => {
                let bytes = self.fill(&write.content)?;
                if let Some(running) = self.running.get_mut(&write.process)
                    && let Some(input) = &mut running.input
                {
                    input.write_all(&bytes)?;
                    input.flush()?;
                }
            }
            Output::CloseInput(process) => {
                if let Some(running) = self.running.get_mut(&process) {
                    running.input = None;
                }
            }
            Output::Stop(process) => self.kill(process)?,
            Output::PutHome(entry) => self.put(&entry)?,
            Output::SetTimer(timer) => {
                let after = Duration::from_millis(timer.after_ms.into());
                self.timers.insert(timer.timer, Instant::now() + after);
            }
            Output::ClearTimer(timer) => {
                self.timers.remove(&timer);
            }
            Output::Look(look) => {
                let answer = self.look(&look.query)?;
                let look = look.look;
                // We hold the other end.
                let _ = self.sender.send(Input::Looked(Looked { look, answer }));
            }
            Output::AnswerTool(_) => return Err(RigError::Unsupported("the tool endpoint")),
            _ => {}
        }
        Ok(())
    }

    fn launch(&mut self, plan: &LaunchPlan) -> Result<(), RigError> {
        plan.home.iter().try_for_each(|entry| self.put(entry))?;
        let program = self
            .programs
            .get(&plan.program)
            .ok_or(RigError::Unsupported("program"))?;
        let home = Path::new(&self.transcript.configuration.home).to_owned();
        let directory = match (plan.directory, &self.transcript.configuration.workspace) {
            (Directory::Workspace, Workspace::Here(path)) => PathBuf::from(path),
            _ => home.clone(),
        };
        let mut command = std::process::Command::new(program);
        command.args(&plan.args).current_dir(directory).env_clear();
        command
            .env("HOME", &home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for variable in &plan.env {
            let value = String::from_utf8_lossy(&self.fill(&variable.value)?).into_owned();
            command.env(&variable.name, value);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        let input = child.stdin.take();
        self.running.insert(plan.process, Running { child, input });
        let (sender, process) = (self.sender.clone(), plan.process);
        let _ = sender.send(Input::Launched(process));
        std::thread::spawn(move || {
            for text in output
                .into_iter()
                .flat_map(|output| BufReader::new(output).lines())
            {
                let Ok(text) = text else { break };
                let _ = sender.send(Input::Line(Line { process, text }));
            }
            let end = ProcessEnd {
                process,
                exit_code: None,
                signal: None,
                clean: true,
            };
            let _ = sender.send(Input::Ended(end));
        });
        Ok(())
    }

    fn look(&self, query: &LookQuery) -> Result<LookAnswer, RigError> {
        let (LookQuery::Head(path) | LookQuery::Tail(path)) = query else {
            return Err(RigError::Unsupported("a list of files"));
        };
        let path = Path::new(&self.transcript.configuration.home).join(path);
        match std::fs::read(path) {
            Ok(bytes) if bytes.len() <= MOST_BYTES => Ok(LookAnswer::Content(bytes)),
            Ok(_) => Err(RigError::Unsupported("a look at a larger file")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(LookAnswer::Missing),
            Err(error) => Err(error.into()),
        }
    }

    fn put(&self, entry: &HomeEntry) -> Result<(), RigError> {
        let path = Path::new(&self.transcript.configuration.home).join(&entry.path);
        match &entry.content {
            HomeContent::File(pieces) => std::fs::write(path, self.fill(pieces)?)?,
            HomeContent::Folder => std::fs::create_dir_all(path)?,
            HomeContent::Skill(_) => return Err(RigError::Unsupported("a Skill")),
            HomeContent::Absent => std::fs::remove_file(path).or_else(|error| {
                if error.kind() == std::io::ErrorKind::NotFound {
                    Ok(())
                } else {
                    Err(error)
                }
            })?,
        }
        Ok(())
    }

    fn fill(&self, pieces: &[Piece]) -> Result<Vec<u8>, RigError> {
        let mut bytes = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                Piece::Bytes(raw) => bytes.extend_from_slice(raw),
                Piece::Fill(fill) => {
                    let value = match fill.value {
                        Fill::RelayUrl => &self.fills.relay_url,
                        Fill::RelayToken => &self.fills.relay_token,
                        _ => return Err(RigError::Unsupported("this value")),
                    };
                    match fill.encoding {
                        Encoding::Raw => bytes.extend_from_slice(value.as_bytes()),
                        Encoding::JsonString => {
                            let quoted = serde_json::Value::from(value.as_str()).to_string();
                            bytes.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
                        }
                        _ => return Err(RigError::Unsupported("this encoding")),
                    }
                }
            }
        }
        Ok(bytes)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
