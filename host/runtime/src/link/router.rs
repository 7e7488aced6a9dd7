//! Brings work to the Session it belongs to. Never waits.

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use domain::{
    FrameId, RunId, SessionId,
    run::{Binding, RefusalCode},
};
use protocol::{
    runtime_end::{Command, Notice, Work},
    wire::{Answer, Bind, Limits as LinkLimits},
};
use tokio::{sync::mpsc, time::timeout};

use crate::bind::{Limits, Order, Session, Shared};

/// The alias of every Environment's workspace (RP-8.3).
const WORKSPACE: &str = "/workspace";
/// For all Sessions to end at shutdown (TRN-010).
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The Sessions of one daemon.
#[derive(Debug)]
pub struct Router {
    shared: Arc<Shared>,
    out: mpsc::UnboundedSender<Command>,
    sessions: HashMap<SessionId, Session>,
    runs: HashMap<RunId, SessionId>,
}

impl Router {
    /// Without Sessions; answers go to `out`.
    #[must_use]
    pub fn new(shared: Arc<Shared>, out: mpsc::UnboundedSender<Command>) -> Self {
        Self {
            shared,
            out,
            sessions: HashMap::new(),
            runs: HashMap::new(),
        }
    }

    /// Carries out what the link's machine noticed.
    pub fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Welcomed {
                connection_id,
                limits,
                abandon,
            } => {
                tracing::info!(%connection_id, "connected to Core");
                self.shared.set_limits(obeyed(&limits));
                for run in abandon {
                    self.of_run(run, Order::Abandon(run));
                }
            }
            Notice::Work(work) => self.work(work),
            Notice::AdmissionEnded {
                session,
                prepare_id,
            } => self.tell(session, Order::AdmissionEnded(prepare_id)),
            Notice::Abandon { run_id } => {
                tracing::error!(run = %run_id, "an event of a Run is too large for the link");
                self.of_run(run_id, Order::Abandon(run_id));
            }
            Notice::Acknowledged { run_id, seq } => {
                self.of_run(run_id, Order::Acknowledged(run_id, seq))
            }
            Notice::Credit {
                session,
                stream,
                bytes,
            } => self.tell(session, Order::Credit(stream, bytes)),
            Notice::Goodbye { reason, .. } => {
                tracing::info!(reason = reason.as_str(), "Core says goodbye")
            }
            Notice::Refused(error) => {
                tracing::error!(of = error.of, code = ?error.code, "Core could not use a frame of ours")
            }
        }
    }

    /// The socket is gone.
    pub fn disconnected(&mut self) {
        self.sessions
            .values()
            .for_each(|session| session.order(Order::Disconnected));
    }

    /// Ends every Session's Executor; a Session that cannot be ended in time is left to its supervisors.
    pub async fn shut_down(self) {
        let sessions: Vec<_> = self.sessions.into_values().collect();
        sessions
            .iter()
            .for_each(|session| session.order(Order::ShutDown));
        let all = async {
            for session in sessions {
                session.ended().await;
            }
        };
        if timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!("some Executors did not end in time; their supervisors end them");
        }
    }

    fn work(&mut self, work: Work) {
        self.sessions.retain(|_, session| !session.is_over());
        let session = match &work {
            Work::Bind { id, binding, bind } => return self.bind(*id, *binding, bind),
            Work::Release { binding, .. } => {
                self.session(*binding, None);
                self.runs.retain(|_, session| *session != binding.session);
                binding.session
            }
            Work::Initialize { binding, .. }
            | Work::List { binding, .. }
            | Work::Write { binding, .. }
            | Work::Prepare { binding, .. }
            | Work::Export { binding, .. } => binding.session,
            Work::Start { binding, start } => {
                self.runs.retain(|_, session| *session != binding.session);
                self.runs.insert(start.run_id, binding.session);
                binding.session
            }
            Work::Input { id, run_id, .. } | Work::Cancel { id, run_id } => {
                match self.runs.get(run_id) {
                    Some(session) => *session,
                    None => return self.reject(*id, RefusalCode::UnknownRun),
                }
            }
            Work::FunctionResult { id, result } => match self.runs.get(&result.run_id) {
                Some(session) => *session,
                None => return self.reject(*id, RefusalCode::UnknownRun),
            },
            Work::Quiesce { id, .. } | Work::Thaw { id, .. } => {
                return self.reject(*id, RefusalCode::Unsupported);
            }
        };
        self.tell(session, Order::Work(work));
    }

    fn bind(&mut self, id: FrameId, binding: Binding, bind: &Bind) {
        if let Err(code) = self.bindable(binding, bind) {
            return self.reject(id, code);
        }
        self.session(binding, Some(bind.harness.clone()));
        self.tell(binding.session, Order::Bound(binding));
        self.tell(
            binding.session,
            Order::Work(Work::Bind {
                id,
                binding,
                bind: bind.clone(),
            }),
        );
    }

    /// RP-8.3: naming a path grants nothing, it must be the one that this Runtime is bound to.
    fn bindable(&self, binding: Binding, bind: &Bind) -> Result<(), RefusalCode> {
        let own = self
            .shared
            .workspace
            .as_deref()
            .filter(|_| binding.environment.is_some());
        let same = match (bind.workspace_directory.as_deref(), own) {
            (Some(WORKSPACE), Some(_)) | (None, None) => true,
            (Some(named), Some(own)) => Path::new(named) == own,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            return Err(RefusalCode::WorkspaceMismatch);
        }
        match self.shared.catalogue().ready(&bind.harness) {
            Some(_) => Ok(()),
            None => Err(RefusalCode::HarnessUnavailable),
        }
    }

    fn session(&mut self, binding: Binding, harness: Option<domain::run::HarnessId>) {
        let (shared, out) = (&self.shared, &self.out);
        let make = || Session::spawn(binding, harness, Arc::clone(shared), out.clone());
        self.sessions.entry(binding.session).or_insert_with(make);
    }

    fn tell(&self, session: SessionId, order: Order) {
        if let Some(session) = self.sessions.get(&session) {
            session.order(order);
        }
    }

    fn of_run(&self, run: RunId, order: Order) {
        if let Some(session) = self.runs.get(&run).copied() {
            self.tell(session, order);
        }
    }

    fn reject(&self, id: FrameId, code: RefusalCode) {
        let answer = Answer::Rejected(code.into());
        // The link is gone only when the daemon ends.
        let _ = self.out.send(Command::Answer { id, answer });
    }
}

fn obeyed(limits: &LinkLimits) -> Limits {
    let loopback_models = if limits.loopback_models {
        net::LoopbackHttp::Allowed
    } else {
        net::LoopbackHttp::Refused
    };
    Limits {
        executor_idle: Duration::from_millis(limits.executor_idle_ms),
        loopback_models,
    }
}
