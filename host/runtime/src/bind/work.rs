//! What Core asks of a Session.

use domain::{
    FrameId, PrepareId, RunId,
    run::{Binding, ExecutionConfiguration, PrepareCode, RefusalCode, Workspace},
};
use plugin_host::contract::{common::ContentPart, harness_io::FunctionResult as NativeResult};
use protocol::{
    runtime_end::{Command, Work},
    wire::{Answer, Code, ExecutionStart, FunctionResult, InitStep, Proof},
};
use tokio::time::Instant;

use super::session::{Live, Order, State, Task};
use crate::{execute, place::Place as _, prepare::StepError};

impl Task {
    pub(super) async fn obey(&mut self, order: Order) {
        match order {
            Order::Bound(binding) => self.binding = binding,
            Order::Work(work) => self.work(work).await,
            Order::AdmissionEnded(prepare_id) => self.admission_ended(prepare_id),
            // A settled Run has unacknowledged events too; the Executor knows which Run it means.
            Order::Acknowledged(run, seq) => {
                if let Some(live) = &self.live {
                    live.executor.order(execute::Order::Ack(run, seq));
                }
            }
            Order::Credit(stream, bytes) => self.exports.credit(stream, bytes),
            Order::Abandon(run) => self.tell_executor(run, execute::Order::Abandon),
            Order::Disconnected => self.exports.abort_all(),
            Order::MakeRoom => self.make_room(),
            // Each pass asks for what is waited for.
            Order::Room => {}
            Order::ShutDown => self.shut_down(),
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
        self.waiting = None;
        self.exports.abort_all();
        self.close_executor(None);
    }

    async fn work(&mut self, work: Work) {
        match work {
            Work::Bind { id, .. } => {
                crash::crash_point!("daemon.bind");
                self.answer(id, Answer::Ok(Proof::Bound));
            }
            Work::Release {
                id, remove_home, ..
            } => self.release(id, remove_home),
            Work::Initialize { id, step, .. } => self.initialize(id, step).await,
            Work::Prepare {
                prepare_id,
                configuration,
                ..
            } => {
                self.look_again().await;
                self.prepare(prepare_id, *configuration);
            }
            Work::Start { start, .. } => self.start(start),
            Work::Input {
                id,
                run_id,
                message,
            } => {
                self.run_request(id, run_id, execute::Order::Input(id, run_id, message));
            }
            Work::Cancel { id, run_id } => {
                tracing::info!(%run_id, "a Run is cancelled");
                self.run_request(id, run_id, execute::Order::Cancel(id, run_id));
            }
            Work::FunctionResult { id, result } => {
                let run_id = result.run_id;
                self.run_request(
                    id,
                    run_id,
                    execute::Order::Result(id, run_id, native_result(result)),
                );
            }
            Work::Export { id, export, .. } => match self.workspace() {
                Some(workspace) => {
                    crash::crash_point!("daemon.export");
                    self.exports.start(id, export, workspace);
                }
                None => self.reject(id, RefusalCode::Unavailable),
            },
            Work::List { id, .. }
            | Work::Write { id, .. }
            | Work::Quiesce { id, .. }
            | Work::Thaw { id, .. } => {
                self.reject(id, RefusalCode::Unsupported);
            }
        }
    }

    fn admission_ended(&mut self, prepare_id: PrepareId) {
        if self
            .waiting
            .as_ref()
            .is_some_and(|(waiting, _)| *waiting == prepare_id)
        {
            self.waiting = None;
        }
        // Releasing an admission closes no Executor (RP-10.8).
        if let Some(live) = self
            .live
            .as_mut()
            .filter(|live| live.state == State::Reserved(prepare_id))
        {
            live.state = State::Idle {
                since: Instant::now(),
            };
        }
    }

    fn make_room(&mut self) {
        let idle = |live: &Live| matches!(live.state, State::Idle { .. });
        if self.live.as_ref().is_some_and(idle) {
            self.close_executor(None);
        }
    }

    fn release(&mut self, id: FrameId, remove_home: bool) {
        crash::crash_point!("daemon.release");
        tracing::info!(session = %self.binding.session, remove_home, "a binding is released");
        if let Some((earlier, _)) = self.releasing.replace((id, remove_home)) {
            // The later one gets the answer; each question has one (RP-5.1).
            self.reject(earlier, RefusalCode::Busy);
        }
        self.waiting = None;
        self.exports.abort_all();
        self.close_executor(None);
    }

    /// What could not be confirmed gone may be gone by now: a retry looks again (RP-8.6, RP-17.1).
    async fn look_again(&mut self) {
        if self.unconfirmed && self.live.is_none() {
            self.unconfirmed = !self.shared.machine.spawner.end_orphans().await;
        }
    }

    pub(super) async fn finish_release(&mut self, id: FrameId, remove_home: bool) {
        self.look_again().await;
        let mut proof = if self.unconfirmed {
            Err(())
        } else {
            Ok(Proof::Released)
        };
        if remove_home && proof.is_ok() {
            proof = match self.open_place() {
                Ok(place) => place
                    .remove_home()
                    .await
                    .map(|()| Proof::HomeRemoved)
                    .map_err(drop),
                Err(_) => Err(()),
            };
        }
        crash::crash_point!("daemon.released");
        self.over = proof.is_ok();
        let code = Code::Refusal(RefusalCode::CleanupUnconfirmed);
        self.answer(
            id,
            proof.map_or(
                Answer::Failed {
                    code,
                    exit_code: None,
                },
                Answer::Ok,
            ),
        );
    }

    async fn initialize(&mut self, id: FrameId, step: InitStep) {
        let Binding {
            session,
            environment: Some(environment),
            ..
        } = self.binding
        else {
            return self.reject(id, PrepareCode::UnsupportedPreparation);
        };
        crash::crash_point!("daemon.initialize");
        let store = self.shared.store.clone();
        let result = match step {
            InitStep::Configure { env } => {
                let env = env.into_iter().map(|v| (v.name, v.value)).collect();
                store.configure(session, environment, env).await
            }
            InitStep::Finalize { sources } if sources.is_empty() => {
                store.finalize(session, environment).await
            }
            InitStep::Finalize { .. }
            | InitStep::File { .. }
            | InitStep::Npm { .. }
            | InitStep::Python { .. }
            | InitStep::Setup { .. } => {
                return self.reject(id, PrepareCode::UnsupportedPreparation);
            }
        };
        crash::crash_point!("daemon.initialized");
        let code = Code::Refusal(RefusalCode::StepFailed);
        let answer = match result {
            Ok(()) => Answer::Ok(Proof::Installed),
            Err(error) => {
                tracing::warn!(%error, "an initialization step failed");
                match error {
                    StepError::Refused => Answer::Rejected(Code::Refusal(RefusalCode::InvalidBody)),
                    StepError::Conflict => Answer::Failed {
                        code,
                        exit_code: None,
                    },
                    StepError::Io(_) => Answer::Unknown(code),
                }
            }
        };
        self.answer(id, answer);
    }

    fn prepare(&mut self, prepare_id: PrepareId, configuration: ExecutionConfiguration) {
        let admitted = self.admissible(&configuration).and_then(|()| {
            let placed = self.shared.seats.admit(self.binding.session);
            placed.then_some(()).ok_or(PrepareCode::Capacity)
        });
        match admitted {
            Ok(()) => {
                // A native program keeps the tokens that it was started with: renewed ones need a new one.
                let renewed = |live: &Live| live.configuration.bearers != configuration.bearers;
                if self.live.as_ref().is_some_and(renewed) {
                    self.close_executor(None);
                }
                self.waiting = Some((prepare_id, configuration));
            }
            Err(code) => self.send(Command::PrepareFailed {
                prepare_id,
                code,
                rejected: true,
            }),
        }
    }

    fn admissible(&self, configuration: &ExecutionConfiguration) -> Result<(), PrepareCode> {
        if self.shutting_down {
            return Err(PrepareCode::Draining);
        }
        if self.unconfirmed {
            return Err(PrepareCode::CleanupUnconfirmed);
        }
        let other_harness = self
            .harness
            .as_ref()
            .is_some_and(|bound| *bound != configuration.harness);
        let other_workspace =
            (configuration.workspace == Workspace::Bound) != self.workspace().is_some();
        if other_harness || other_workspace {
            return Err(PrepareCode::InvalidConfiguration);
        }
        match &self.live {
            _ if self.waiting.is_some() => Err(PrepareCode::Busy),
            Some(Live {
                state: State::Reserved(_) | State::Running(_),
                ..
            }) => Err(PrepareCode::Busy),
            // It waits for the end of the former Executor.
            Some(Live {
                state: State::Closing(_),
                ..
            }) => Ok(()),
            Some(live) if live.configuration.serves(configuration) => Ok(()),
            // A later configuration is never switched to under a retained Executor (RP-10.17).
            Some(_) => Err(PrepareCode::ConfigurationConflict),
            // Whether there is a place is decided when it is made.
            None => Ok(()),
        }
    }

    fn start(&mut self, start: ExecutionStart) {
        let ExecutionStart {
            prepare_id,
            executor_id,
            run_id,
            input,
        } = start;
        let reserved = |live: &&mut Live| {
            live.executor.id() == executor_id && live.state == State::Reserved(prepare_id)
        };
        match self.live.as_mut().filter(reserved) {
            Some(live) => {
                crash::crash_point!("daemon.start");
                live.state = State::Running(run_id);
                live.executor
                    .order(execute::Order::Start { run: run_id, input });
            }
            None => self.send(Command::NotStarted {
                run_id,
                code: PrepareCode::ExecutorUnavailable,
            }),
        }
    }

    fn run_request(&self, id: FrameId, run: RunId, order: execute::Order) {
        match &self.live {
            Some(live) if self.run() == Some(run) => live.executor.order(order),
            // A Run that is over is answered by the link, which keeps its proof; this one was never here.
            Some(_) | None => self.reject(id, RefusalCode::UnknownRun),
        }
    }

    fn tell_executor(&self, run: RunId, order: execute::Order) {
        if let Some(live) = self.live.as_ref().filter(|_| self.run() == Some(run)) {
            live.executor.order(order);
        }
    }
}

fn native_result(result: FunctionResult) -> NativeResult {
    NativeResult {
        id: result.delivery_id.to_string(),
        run: result.run_id.to_string(),
        call: result.call_id,
        success: !result.failed,
        content: vec![ContentPart::Text(result.output)],
    }
}
