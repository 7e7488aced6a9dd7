//! The one preparation of an Environment (scheduler 8, state-machines 1.8). Each step runs once; whatever is not confirmed
//! fails the Environment, and nothing is ever replayed.

use std::sync::Arc;
use std::time::Duration;

use domain::environment::{FailureReason, Initialization};
use domain::{EnvironmentId, SessionId, time};
use protocol::wire::InitStep;
use store::read::EnvironmentWork;
use store::units::environment::{BeginInit, CompleteInit, FailEnvironment};
use store::{StoreError, WriteError};

use super::facts::Facts;
use super::tasks::Tasks;
use super::{Shared, again};
use crate::peer::{Answer, Peer};

/// Period and page of the scans (SC-8.1).
const PERIOD: Duration = Duration::from_secs(1);
const PAGE: u32 = 32;

/// Time that a preparation gets (SC-8.3).
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// One step.
    pub(super) step: Duration,
    /// All of them.
    pub(super) whole: Duration,
}

pub(super) const BUDGET: Budget = Budget {
    step: time::INIT_STEP,
    whole: time::INIT_TOTAL,
};

/// Runs until the ownership ends, and every attempt with it. `attempts` holds those of this ownership, also of a former run.
pub(super) async fn run(shared: Arc<Shared>, attempts: Tasks<EnvironmentId>, budget: Budget) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut cursor = None;
    loop {
        let due = tokio::select! {
            () = shared.stop.cancelled() => break,
            _ = tick.tick() => true,
            () = shared.initialize.notified() => false,
            () = shared.initializing.freed() => false,
        };
        if shared.draining.is_cancelled() {
            continue;
        }
        if due && let Err(error) = scan_begun(&shared, &attempts, budget).await {
            tracing::warn!(%error, "preparations that were begun could not be scanned");
        }
        let reader = shared.store.read();
        let page = match reader.environments_to_initialize(cursor, PAGE).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "Environments to prepare could not be scanned");
                continue;
            }
        };
        // Wraps around at the end (SC-8.1).
        cursor = page
            .last()
            .filter(|_| page.len() == PAGE as usize)
            .map(|last| last.environment);
        for work in page {
            look_after(&shared, &attempts, work, budget);
        }
    }
    attempts.ended().await;
}

/// A preparation that was begun and has no task is failed by the next one: without it, only a restart would (SC-8.5).
async fn scan_begun(
    shared: &Arc<Shared>,
    attempts: &Tasks<EnvironmentId>,
    budget: Budget,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = shared.store.read().environments_begun(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.session);
        for work in page {
            look_after(shared, attempts, work, budget);
        }
    }
}

/// Gives an Environment its task, if it has none.
fn look_after(
    shared: &Arc<Shared>,
    attempts: &Tasks<EnvironmentId>,
    work: EnvironmentWork,
    budget: Budget,
) {
    let shared = shared.clone();
    attempts.begin(work.environment, async move {
        if let Err(error) = attempt(&shared, work.session, budget).await {
            tracing::warn!(session = %work.session, %error, "an Environment could not be prepared");
        }
    });
}

async fn attempt(shared: &Shared, session: SessionId, budget: Budget) -> Result<(), StoreError> {
    let Some(facts) = Facts::read(shared, session).await? else {
        return Ok(());
    };
    let Some(environment) = &facts.state.environment else {
        return Ok(());
    };
    match environment.initialization {
        Initialization::Pending => {}
        // Begun by a task that is not there any more: what it did is not known.
        Initialization::Running { .. } => {
            return fail(shared, session, FailureReason::Incomplete).await;
        }
        Initialization::Complete { .. } | Initialization::Failed => return Ok(()),
    }
    // A missing socket does not use the attempt up (N1).
    let (Some(peer), Some(binding)) = (facts.peer(shared), facts.binding()) else {
        return Ok(());
    };
    if !peer.can_run(&facts.configuration.harness) {
        // A Runtime declares what it found before it can be asked: before anything is installed (N2, ENV-353).
        return fail(shared, session, FailureReason::HarnessUnavailable).await;
    }
    if !peer.is_bound(&binding) {
        return Ok(());
    }
    let Some(_slot) = shared.initializing.take() else {
        return Ok(());
    };
    let generation = environment.observation.generation;
    let begin = BeginInit {
        session,
        generation,
    };
    // Its answer is a right, so it is not asked twice. Whether an unknown one was given, the next scan sees.
    if written(shared.store.write(begin).await)? != Some(true) {
        return Ok(());
    }
    let confirmed = tokio::select! {
        // The next owner settles it as unconfirmed (SC-8.5).
        () = shared.stop.cancelled() => return Ok(()),
        confirmed = tokio::time::timeout(budget.whole, steps(&*peer, binding, empty_selection(), budget.step)) => confirmed,
    };
    if confirmed.unwrap_or(false) {
        let unit = CompleteInit {
            session,
            generation,
            binding: binding.id,
            binding_epoch: binding.epoch,
        };
        if written(again::write(shared, unit).await)? == Some(true) {
            tracing::info!(%session, "the Environment is ready");
            shared.scan.notify_one();
            return Ok(());
        }
    }
    fail(shared, session, FailureReason::Incomplete).await
}

/// The steps of a Session that installs nothing: the manifest of the empty selection is written and verified (RP-9.21).
fn empty_selection() -> Vec<InitStep> {
    vec![InitStep::Finalize {
        sources: Vec::new(),
    }]
}

/// Each step on the socket that the attempt began on; the first one that is not confirmed ends it (RP-9.6, RP-9.8).
async fn steps(
    peer: &dyn Peer,
    binding: domain::run::Binding,
    steps: Vec<InitStep>,
    budget: Duration,
) -> bool {
    for step in steps {
        let answer = tokio::time::timeout(budget, peer.initialize(binding, step, None)).await;
        crash::crash_point!("runtime_prepare.sent");
        match answer {
            Ok(Answer::Done(())) => {}
            Ok(other) => {
                tracing::warn!(session = %binding.session, ?other, "a preparation step was not confirmed");
                return false;
            }
            Err(_) => return false,
        }
    }
    true
}

async fn fail(
    shared: &Shared,
    session: SessionId,
    reason: FailureReason,
) -> Result<(), StoreError> {
    // The first failure wins, and after a completion that was not heard of nothing fails.
    if written(again::write(shared, FailEnvironment { session, reason }).await)? == Some(true) {
        tracing::warn!(%session, ?reason, "the Environment failed");
    }
    Ok(())
}

/// A refusal means that the Session is gone.
fn written<A, R>(answer: Result<A, WriteError<R>>) -> Result<Option<A>, StoreError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(WriteError::Refused(_)) => Ok(None),
        Err(WriteError::Store(error)) => Err(error),
    }
}
