//! A model of Core's side: asks for Turns as the scheduler would, at random, and checks what comes back.

use std::collections::{BTreeMap, BTreeSet};

use domain::run::{ExecutionConfiguration, InputMessage, MessagePart, PrepareState};
use domain::{ExecutorId, FrameId, InputId, PrepareId, RunId};
use protocol::core_end::{Command, Notice, Settled};
use protocol::wire::{
    Answer, Bind, CancelReason, ExecutionRelease, ExecutionStart, Incoming, InitStep, ListTarget,
    Operation, Release, Request, RequestType, RunCancel, RuntimePrepare, WorkspaceList,
};
use rand::RngExt;

use crate::daemon::Deeds;
use crate::{Counter, Random, binding};

/// What Core does with its one Session.
#[derive(Debug, Default)]
enum Step {
    /// Not greeted, or not bound.
    #[default]
    Unbound,
    /// `bind` is under way.
    Binding,
    /// Free.
    Idle,
    /// An admission is under way.
    Preparing(PrepareId),
    /// It may be started.
    Ready(PrepareId, ExecutorId),
    /// The start is under way, or the Run goes on.
    Running(RunId),
}

/// What Core knows of a Run.
#[derive(Debug, Default)]
struct Seen {
    next: u64,
    done: bool,
}

/// The model.
#[derive(Debug, Default)]
pub struct Core {
    ids: Counter,
    epoch: u64,
    step: Step,
    /// Requests without an end, on this connection.
    open: BTreeMap<FrameId, RequestType>,
    ended: BTreeSet<FrameId>,
    /// Requests that certainly did nothing.
    pub without_effect: BTreeSet<FrameId>,
    /// Runs whose start certainly did nothing.
    pub unstarted: BTreeSet<RunId>,
    starts: BTreeMap<FrameId, RunId>,
    runs: BTreeMap<RunId, Seen>,
    /// Turns that ended with `done`.
    pub completed: u64,
    stream: u32,
}

impl Core {
    /// A Core with its own range of ids.
    pub fn new() -> Self {
        let mut core = Self {
            epoch: 1,
            ..Self::default()
        };
        // Another range than the daemon's.
        core.ids = Counter(1 << 40);
        core
    }

    fn ask(&mut self, request: Request, body: Option<Vec<u8>>) -> Command {
        self.open.insert(request.id, request.operation.kind());
        Command::Request {
            request: Box::new(request),
            body,
        }
    }

    fn request(&mut self, operation: Operation) -> Command {
        let id = FrameId::new(self.ids.fresh());
        self.ask(Request::of(id, binding(self.epoch), operation), None)
    }

    /// Something that the scheduler might want now. `calm` asks for nothing but Turns that end.
    pub fn act(&mut self, random: &mut Random, calm: bool) -> Option<Command> {
        match &self.step {
            Step::Unbound => {
                self.step = Step::Binding;
                let harness = "codex".parse().expect("a harness id");
                Some(self.request(Operation::Bind(Bind {
                    harness,
                    workspace_directory: Some("/workspace".to_owned()),
                })))
            }
            Step::Binding | Step::Preparing(_) => None,
            Step::Idle if !calm && random.random_bool(0.1) => Some(self.initialize(random)),
            Step::Idle if !calm && random.random_bool(0.03) => {
                self.epoch += 1;
                self.step = Step::Unbound;
                let release = self.request(Operation::Release(Release { remove_home: true }));
                // The next authority has a higher epoch than the release.
                self.epoch += 1;
                Some(release)
            }
            Step::Idle => {
                let prepare_id = PrepareId::new(self.ids.fresh());
                self.step = Step::Preparing(prepare_id);
                Some(self.ask(
                    Request::prepare(binding(self.epoch), prepare_id, configuration()),
                    None,
                ))
            }
            Step::Ready(prepare_id, _) if !calm && random.random_bool(0.1) => {
                let release = ExecutionRelease {
                    prepare_id: *prepare_id,
                };
                self.step = Step::Preparing(*prepare_id);
                Some(self.request(Operation::ExecutionRelease(release)))
            }
            Step::Ready(prepare_id, executor_id) => {
                let (prepare_id, executor_id, run_id) =
                    (*prepare_id, *executor_id, RunId::new(self.ids.fresh()));
                let start = ExecutionStart {
                    prepare_id,
                    executor_id,
                    run_id,
                    input: vec![self.message()],
                };
                self.step = Step::Running(run_id);
                self.runs.insert(
                    run_id,
                    Seen {
                        next: 1,
                        done: false,
                    },
                );
                let command = self.request(Operation::ExecutionStart(start));
                if let Command::Request { request, .. } = &command {
                    self.starts.insert(request.id, run_id);
                }
                Some(command)
            }
            Step::Running(run_id) if !calm => {
                let run_id = *run_id;
                match random.random_range(0..12) {
                    0 => {
                        let message = self.message();
                        Some(self.ask(Request::input(binding(self.epoch), run_id, message), None))
                    }
                    1 => Some(self.request(Operation::RunCancel(RunCancel {
                        run_id,
                        reason: CancelReason::Requested,
                    }))),
                    2 => {
                        let list = WorkspaceList {
                            target: ListTarget::Run(run_id),
                            path: "/workspace".to_owned(),
                        };
                        Some(self.request(Operation::WorkspaceList(list)))
                    }
                    _ => None,
                }
            }
            Step::Running(_) => None,
        }
    }

    fn message(&mut self) -> InputMessage {
        InputMessage {
            id: InputId::new(self.ids.fresh()),
            content: vec![MessagePart::Text("go on".to_owned())],
        }
    }

    fn initialize(&mut self, random: &mut Random) -> Command {
        let bytes = [0, 1, 65_536, 200_000][random.random_range(0..4usize)];
        self.stream += 1;
        let body: Vec<u8> = (0..bytes).map(|at: usize| at as u8).collect();
        let incoming = Incoming {
            stream: self.stream,
            size: bytes as u64,
            sha256: "0".repeat(64),
        };
        let step = InitStep::File {
            path: "/workspace/file".to_owned(),
            body: incoming,
        };
        let id = FrameId::new(self.ids.fresh());
        let operation = Operation::RuntimePrepare(RuntimePrepare {
            budget_ms: 120_000,
            step,
        });
        self.ask(Request::of(id, binding(self.epoch), operation), Some(body))
    }

    /// Takes a notice; answers an acknowledgement, sometimes.
    pub fn notice(&mut self, random: &mut Random, notice: Notice) -> Option<Command> {
        match notice {
            Notice::Settled { id, of, settled } => self.settled(id, of, settled),
            Notice::Prepare { status, .. } => self.prepare_state(status.prepare_id, status.state),
            Notice::Events {
                run_id,
                seq,
                events,
            } => {
                let seen = self
                    .runs
                    .get_mut(&run_id)
                    .expect("events of a Run that was started");
                assert_eq!(seq, seen.next, "order kept, no gap, no repeat");
                assert!(!seen.done, "nothing follows `done`");
                seen.next += events.len() as u64;
                seen.done = events.last().is_some_and(domain::run::RunEvent::is_last);
                let (seq, done) = (seen.next - 1, seen.done);
                if done {
                    self.completed += 1;
                    if matches!(self.step, Step::Running(running) if running == run_id) {
                        self.step = Step::Idle;
                    }
                }
                return (done || random.random_bool(0.5))
                    .then_some(Command::Acknowledge { run_id, seq });
            }
            Notice::RunBroken { run_id, .. } => {
                if matches!(self.step, Step::Running(running) if running == run_id) {
                    self.step = Step::Idle;
                }
            }
            Notice::Progress { id, .. } => {
                assert!(self.open.contains_key(&id), "progress of an ended request")
            }
            Notice::Hello(_)
            | Notice::Heartbeat { .. }
            | Notice::Offers(_)
            | Notice::Bound(_)
            | Notice::StartSent { .. }
            | Notice::Goodbye(_) => {}
            Notice::ExportEntry { .. }
            | Notice::ExportBytes { .. }
            | Notice::ExportEntryEnd { .. } => {
                panic!("nobody asked for an export")
            }
            Notice::Faulty(fault) => panic!("the Runtime sent an unusable frame: {fault:?}"),
        }
        None
    }

    fn settled(&mut self, id: FrameId, of: RequestType, settled: Settled) {
        assert!(
            self.open.remove(&id).is_some() && self.ended.insert(id),
            "one outcome for each request: {id} {of:?}"
        );
        if matches!(settled, Settled::NotSent(_)) {
            self.without_effect.insert(id);
        }
        match of {
            RequestType::Bind => {
                let bound = matches!(settled, Settled::Receipt(Answer::Ok(_)));
                if matches!(self.step, Step::Binding) {
                    self.step = if bound { Step::Idle } else { Step::Unbound };
                }
            }
            RequestType::ExecutionPrepare if matches!(self.step, Step::Preparing(it) | Step::Ready(it, _) if it.uuid() == id.uuid()) =>
            {
                self.step = Step::Idle;
            }
            RequestType::ExecutionStart => {
                let run_id = self.starts[&id];
                if let Settled::NotSent(_) | Settled::Receipt(Answer::Rejected(_)) = settled {
                    self.unstarted.insert(run_id);
                    assert_eq!(self.runs[&run_id].next, 1, "a refused start has no events");
                }
                if settled != Settled::Started
                    && matches!(self.step, Step::Running(it) if it == run_id)
                {
                    self.step = Step::Idle;
                }
            }
            _ => {}
        }
    }

    fn prepare_state(&mut self, prepare_id: PrepareId, state: PrepareState) {
        let mine =
            matches!(self.step, Step::Preparing(it) | Step::Ready(it, _) if it == prepare_id);
        if state.is_final() {
            // A final state is the end of the request.
            let id = FrameId::new(prepare_id.uuid());
            assert!(
                self.open.remove(&id).is_some() && self.ended.insert(id),
                "one end for each admission"
            );
        }
        match state {
            PrepareState::Ready { executor_id, .. } if mine => {
                self.step = Step::Ready(prepare_id, executor_id)
            }
            PrepareState::Released | PrepareState::Expired | PrepareState::Failed(_) if mine => {
                self.step = Step::Idle
            }
            _ => {}
        }
    }

    /// The connection is over: every request must have ended.
    pub fn disconnected(&mut self) {
        assert!(
            self.open.is_empty(),
            "requests without an outcome: {:?}",
            self.open
        );
        self.step = Step::Unbound;
    }

    /// Compares what Core believes with what the daemon did.
    pub fn compare(&self, deeds: &Deeds) {
        for id in &self.without_effect {
            assert!(
                !deeds.requests.contains(id),
                "{id} was reported as never sent, and was carried out"
            );
        }
        for run_id in &self.unstarted {
            assert!(
                !deeds.runs.contains(run_id),
                "{run_id} was reported as not started, and runs"
            );
        }
        for (run_id, seen) in &self.runs {
            let made = deeds.events.get(run_id).copied().unwrap_or_default();
            assert!(
                seen.next - 1 <= made,
                "{run_id} has more events than were made"
            );
        }
    }
}

fn configuration() -> ExecutionConfiguration {
    let text = format!(
        r#"{{"harness":"codex","declaration_hash":"{}","workspace":{{"kind":"bound"}},"history":{{"mode":"fresh"}},
            "options":{{}},"parameters":"{{}}","functions":[],"controls":{{"tool_search":false}},"mcp":[],"permissions":"allow"}}"#,
        "a".repeat(64)
    );
    serde_json::from_str(&text).expect("a configuration")
}
