//! What Core asks of a Session.

use std::sync::Arc;

use domain::{
    FrameId, PrepareId, RunId,
    run::{Binding, ExecutionConfiguration, History, PrepareCode, PrepareState, RefusalCode, Workspace},
};
use net::ModelUrl;
use plugin_host::{
    contract::{common::ContentPart, harness_io::FunctionResult as NativeResult},
    translate::harness as translate,
};
use protocol::wire::{Answer, Code, ExecutionStart, FunctionResult, InitStep, Operation, Proof};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    admission::Stage,
    session::{Live, LiveState, Order, Task},
};
use crate::{
    ask::Ask,
    execute::{self, Executor, Setup},
    place::{OwnPlace, Place as _},
    prepare::StepError,
    relay::{ModelProtocol, Route},
};

impl Task {
    pub(super) async fn obey(&mut self, order: Order) {
        match order {
            Order::Request(re, operation) => self.request(re, *operation).await,
            Order::Acknowledge(run, seq) => self.tell_executor(run, execute::Order::Ack(run, seq)),
            Order::Credit(stream, bytes) => self.exports.credit(stream, bytes),
            Order::Disconnected => self.disconnected(),
            Order::Connected(resumed) => {
                self.connected = true;
                if let Some((run, _)) = self.run
                    && !resumed.contains(&run)
                {
                    self.tell_executor(run, execute::Order::Abandon);
                }
            }
            Order::ShutDown => self.shut_down(),
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
        self.connected = false;
        self.close_executor(None);
    }

    fn disconnected(&mut self) {
        self.connected = false;
        self.forget_requests();
        self.exports.abort_all();
        // Admissions end with their connection; an Executor that was made ready stays for the next one.
        let open: Vec<_> = self.admissions.iter().filter(|a| a.expires().is_some()).map(|a| a.id()).collect();
        for id in open {
            self.give_up(id, PrepareState::Released);
        }
    }

    async fn request(&mut self, re: FrameId, operation: Operation) {
        let ask = Self::ask(re, operation.kind());
        self.opened(re);
        if self.releasing.is_some() && !matches!(operation, Operation::Release(_)) {
            return self.reject(ask, RefusalCode::BindingStale);
        }
        match operation {
            // Binding the same triple again answers `bound` again (RP-8.1).
            Operation::Bind(_) => self.answer(ask, Answer::Ok(Proof::Bound)),
            Operation::Release(release) => self.release(ask, release.remove_home),
            Operation::RuntimePrepare(prepare) => self.initialize(ask, prepare.step).await,
            Operation::ExecutionPrepare(configuration) => {
                self.execution_prepare(ask, PrepareId::new(re.uuid()), *configuration);
            }
            Operation::ExecutionStart(start) => self.execution_start(ask, start),
            Operation::ExecutionRelease(release) => self.execution_release(ask, release.prepare_id),
            Operation::RunInput(input) => {
                let run = input.run_id;
                self.run_request(ask, run, execute::Order::Input(ask, run, input.message));
            }
            Operation::RunCancel(cancel) => {
                let run = cancel.run_id;
                tracing::info!(%run, reason = ?cancel.reason, "a Run is cancelled");
                self.run_request(ask, run, execute::Order::Cancel(ask, run));
            }
            Operation::FunctionResult(result) => {
                let run = result.run_id;
                self.run_request(ask, run, execute::Order::Result(ask, run, native_result(result)));
            }
            Operation::WorkspaceExport(export) => match self.workspace() {
                Some(workspace) => self.exports.start(ask, export, workspace),
                None => self.reject(ask, RefusalCode::Unavailable),
            },
            Operation::WorkspaceList(_) | Operation::WorkspaceWrite(_) | Operation::Quiesce(_) | Operation::Thaw(_) => {
                self.reject(ask, RefusalCode::Unsupported);
            }
        }
    }

    fn release(&mut self, ask: Ask, remove_home: bool) {
        tracing::info!(session = %self.binding.session, remove_home, "the binding is released");
        self.releasing = Some((ask, remove_home));
        self.exports.abort_all();
        for id in self.admissions.iter().filter(|a| a.expires().is_some()).map(|a| a.id()).collect::<Vec<_>>() {
            self.give_up(id, PrepareState::Released);
        }
        self.close_executor(None);
    }

    async fn initialize(&mut self, ask: Ask, step: InitStep) {
        let Binding { session, environment: Some(environment), .. } = self.binding else {
            return self.reject(ask, PrepareCode::UnsupportedPreparation);
        };
        let store = self.shared.store.clone();
        let result = match step {
            InitStep::Configure { env } => {
                let env = env.into_iter().map(|v| (v.name, v.value)).collect();
                store.configure(session, environment, env).await
            }
            InitStep::Finalize { sources } if sources.is_empty() => store.finalize(session, environment).await,
            InitStep::Finalize { .. }
            | InitStep::File { .. }
            | InitStep::Npm { .. }
            | InitStep::Python { .. }
            | InitStep::Setup { .. } => return self.reject(ask, PrepareCode::UnsupportedPreparation),
        };
        let code = Code::Refusal(RefusalCode::StepFailed);
        match result {
            Ok(()) => self.answer(ask, Answer::Ok(Proof::Installed)),
            Err(error) => {
                tracing::warn!(%error, "an initialization step failed");
                let answer = match error {
                    StepError::Refused => Answer::Rejected(Code::Refusal(RefusalCode::InvalidBody)),
                    StepError::Conflict => Answer::Failed { code, exit_code: None },
                    StepError::Io(_) => Answer::Unknown(code),
                };
                self.answer(ask, answer);
            }
        }
    }

    fn execution_prepare(&mut self, ask: Ask, id: PrepareId, configuration: ExecutionConfiguration) {
        if let Some(admission) = self.admission(id) {
            let status = admission.status();
            return self.tell(status);
        }
        if let Err(code) = self.admissible(&configuration) {
            return self.reject(ask, code);
        }
        self.admit(id);
        self.waiting.insert(id, configuration);
    }

    fn admissible(&self, configuration: &ExecutionConfiguration) -> Result<(), PrepareCode> {
        if self.shutting_down {
            return Err(PrepareCode::Draining);
        }
        if self.unconfirmed {
            return Err(PrepareCode::CleanupUnconfirmed);
        }
        if configuration.harness != self.harness {
            return Err(PrepareCode::InvalidConfiguration);
        }
        if (configuration.workspace == Workspace::Bound) != self.workspace().is_some() {
            return Err(PrepareCode::InvalidConfiguration);
        }
        let reserved = |live: &Live| matches!(live.state, LiveState::Reserved(_) | LiveState::Running(_));
        if !self.waiting.is_empty() || self.live.as_ref().is_some_and(reserved) {
            return Err(PrepareCode::Busy);
        }
        match &self.live {
            Some(Live { state: LiveState::Closing(_), .. }) => Ok(()),
            Some(live) if live.configuration.serves(configuration) => Ok(()),
            // A later configuration is never switched to under a running Executor (RP-10.17).
            Some(_) => Err(PrepareCode::ConfigurationConflict),
            None if self.shared.may_prepare(self.binding.session) => Ok(()),
            None => Err(PrepareCode::Capacity),
        }
    }

    /// Gives a waiting admission the Executor, or makes one, once that is possible; ends a release that waits.
    pub(super) async fn settle_in(&mut self) {
        if self.live.is_none() {
            if let Some((ask, remove_home)) = self.releasing.take() {
                return self.finish_release(ask, remove_home).await;
            }
            if self.shutting_down {
                self.over = true;
                return;
            }
        }
        let Some(id) = self.waiting.keys().next().copied() else { return };
        match self.live.as_ref().map(|live| live.state) {
            Some(LiveState::Idle { .. }) => {
                self.waiting.remove(&id);
                self.ready(id);
            }
            Some(LiveState::Preparing | LiveState::Closing(_) | LiveState::Reserved(_) | LiveState::Running(_)) => {}
            None => {
                let Some(configuration) = self.waiting.get(&id).cloned() else { return };
                if let Err(code) = self.open(configuration).await {
                    self.give_up(id, PrepareState::Failed(code));
                }
            }
        }
    }

    async fn finish_release(&mut self, ask: Ask, remove_home: bool) {
        let mut proof = Ok(Proof::Released);
        if self.unconfirmed {
            proof = Err(());
        } else if remove_home {
            proof = match self.open_place() {
                Ok(place) => place.remove_home().await.map(|()| Proof::HomeRemoved).map_err(drop),
                Err(_) => Err(()),
            };
            self.place = None;
        }
        self.over = proof.is_ok();
        let code = Code::Refusal(RefusalCode::CleanupUnconfirmed);
        self.answer(ask, proof.map_or(Answer::Failed { code, exit_code: None }, Answer::Ok));
    }

    fn ready(&mut self, id: PrepareId) {
        let Some(live) = &mut self.live else { return };
        live.state = LiveState::Reserved(id);
        let executor_id = live.executor.id();
        if let Some(admission) = self.admission(id) {
            admission.stage = Stage::Ready;
            let expires_in_ms = admission.left_ms(Instant::now());
            let status = admission.observe(PrepareState::Ready { executor_id, expires_in_ms });
            self.tell(status);
        }
    }

    fn open_place(&mut self) -> std::io::Result<Arc<OwnPlace>> {
        if let Some(place) = &self.place {
            return Ok(Arc::clone(place));
        }
        let name = self.binding.session.to_string();
        let place = Arc::new(OwnPlace::open(self.shared.machine.clone(), &name, self.workspace())?);
        self.place = Some(Arc::clone(&place));
        Ok(place)
    }

    async fn open(&mut self, configuration: ExecutionConfiguration) -> Result<(), PrepareCode> {
        let catalogue = self.shared.catalogue();
        let ready = catalogue.ready(&configuration.harness).ok_or(PrepareCode::ProgramMissing)?;
        let declaration = &ready.harness.declaration;
        // Both sides must hold the same adapter (RP-7.5).
        if declaration.hash() != configuration.declaration_hash || !configuration.mcp.is_empty() {
            return Err(PrepareCode::UnsupportedConfiguration);
        }
        let env = match self.binding.environment {
            Some(environment) => {
                let loaded = self.shared.store.load(self.binding.session, environment).await;
                loaded.map_err(|error| {
                    tracing::warn!(%error, "the Environment's snapshot cannot be used");
                    PrepareCode::PreparationFailed
                })?
            }
            None => Vec::new(),
        };
        let place = self.open_place().map_err(|error| {
            tracing::warn!(%error, "the private home cannot be opened");
            PrepareCode::PreparationFailed
        })?;
        let relay = match &configuration.model {
            Some(model) => {
                let loopback = self.shared.limits().loopback_models;
                let upstream = ModelUrl::parse(&model.base_url, loopback).map_err(|error| {
                    tracing::warn!(%error, "the model provider's address is refused");
                    PrepareCode::InvalidConfiguration
                })?;
                let protocol = ModelProtocol::from_name(model.protocol.as_str()).ok_or(PrepareCode::UnsupportedConfiguration)?;
                let route = Route { protocol, upstream, loopback, key: model.api_key.clone() };
                Some(place.relay(route).map_err(|_| PrepareCode::PreparationFailed)?)
            }
            None => None,
        };
        let id = domain::ExecutorId::new(Uuid::now_v7());
        let around = translate::Surroundings {
            executor: id,
            version: ready.version.clone(),
            home: place.home().to_string_lossy().into_owned(),
            workspace: place.workspace().map(|path| path.to_string_lossy().into_owned()),
            settings: Vec::new(),
            host_features: Vec::new(),
        };
        let opened = ready.harness.adapter.open(translate::configuration(&configuration, around));
        let session = opened.map_err(|failure| {
            tracing::warn!(code = failure.code, detail = failure.detail, "the adapter refused the configuration");
            translate::prepare_code(&failure)
        })?;
        let setup = Setup {
            id,
            session,
            place,
            relay,
            programs: ready.programs.clone(),
            env,
            cancellation: declaration.cancellation,
            silence_limit_s: declaration.silence_limit_s,
            turn_limit_s: declaration.turn_limit_s,
        };
        let declared = std::time::Duration::from_secs(declaration.idle_s.into());
        let host = self.shared.limits().executor_idle;
        let idle = if declared.is_zero() { host } else { declared.min(host) };
        let executor = Executor::spawn(setup, self.reporter.clone());
        // What it has open is a history of its own from now on; only the rest decides whom it serves (RP-10.2).
        let configuration = ExecutionConfiguration { history: History::Fresh, ..configuration };
        self.live = Some(Live { executor, configuration, state: LiveState::Preparing, idle });
        Ok(())
    }

    fn execution_start(&mut self, ask: Ask, start: ExecutionStart) {
        let refusal = match self.admission(start.prepare_id) {
            Some(admission) => admission.refusal(),
            None => Some(PrepareCode::NotReady),
        };
        if let Some(code) = refusal {
            return self.reject(ask, code);
        }
        let Some(live) = self.live.as_mut().filter(|live| live.executor.id() == start.executor_id) else {
            return self.reject(ask, PrepareCode::ExecutorUnavailable);
        };
        if live.state != LiveState::Reserved(start.prepare_id) {
            return self.reject(ask, PrepareCode::ExecutorUnavailable);
        }
        if !self.shared.may_run() {
            return self.reject(ask, PrepareCode::Capacity);
        }
        live.state = LiveState::Running(start.run_id);
        live.executor.order(execute::Order::Start { run: start.run_id, input: start.input });
        self.run = Some((start.run_id, 0));
        if let Some(admission) = self.admission(start.prepare_id) {
            admission.stage = Stage::Starting { run: start.run_id, ask };
        }
    }

    fn execution_release(&mut self, ask: Ask, id: PrepareId) {
        match self.admission(id).map(|admission| admission.stage) {
            Some(Stage::Preparing | Stage::Ready) => {
                self.give_up(id, PrepareState::Released);
            }
            // After the start only a cancel ends it (RP-10.8).
            Some(Stage::Starting { .. }) => return self.reject(ask, PrepareCode::NotReady),
            Some(Stage::Over) => {
                if let Some(admission) = self.admission(id) {
                    let status = admission.status();
                    self.tell(status);
                }
            }
            None => {
                let released = domain::run::PrepareStatus { prepare_id: id, revision: 1, state: PrepareState::Released };
                self.tell(released);
            }
        }
        self.settled_by_status(ask);
    }

    fn run_request(&mut self, ask: Ask, run: RunId, order: execute::Order) {
        if self.run.is_some_and(|(current, _)| current == run) {
            return self.tell_executor(run, order);
        }
        let ended = self.ended_runs.iter().find(|(id, _)| *id == run).map(|(_, proof)| proof.clone());
        match (ended, order) {
            // A finished Run is told as it ended; nothing changes (F01).
            (Some(proof), execute::Order::Cancel(..)) => self.answer(ask, proof),
            (Some(_), _) => self.reject(ask, RefusalCode::RunEnded),
            (None, _) => self.reject(ask, RefusalCode::UnknownRun),
        }
    }

    fn tell_executor(&mut self, run: RunId, order: execute::Order) {
        if let Some(live) = self.live.as_ref().filter(|_| self.run.is_some_and(|(current, _)| current == run)) {
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
