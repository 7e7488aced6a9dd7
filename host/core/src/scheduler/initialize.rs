//! The one preparation of an Environment (scheduler 8, state-machines 1.8). Each step runs once; whatever is not confirmed
//! fails the Environment, and nothing is ever replayed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::environment::{FailureReason, Initialization};
use domain::{EnvironmentId, SessionId, time};
use protocol::wire::InitStep;
use store::read::EnvironmentWork;
use store::units::environment::{BeginInit, CompleteInit, FailEnvironment};
use store::{StoreError, WriteError};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::facts::Facts;
use crate::peer::{Answer, Peer};

/// Period and page of the scan (SC-8.1).
const PERIOD: Duration = Duration::from_secs(1);
const PAGE: u32 = 32;
/// Budget of one step and of all of them (SC-8.3).
const STEP: Duration = time::INIT_STEP;
const TOTAL: Duration = time::INIT_TOTAL;

/// Environments that a task of this process looks after.
type Busy = Arc<Mutex<HashSet<EnvironmentId>>>;

/// Runs until the ownership ends.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (busy, tasks, mut cursor) = (Busy::default(), TaskTracker::new(), None);
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = tick.tick() => {}
            () = shared.initialize.notified() => {}
            () = shared.initializing.freed() => {}
        }
        if shared.draining.is_cancelled() {
            continue;
        }
        let page = match shared
            .store
            .read()
            .environments_to_initialize(cursor, PAGE)
            .await
        {
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
            if !busy
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(work.environment)
            {
                continue;
            }
            let (shared, busy) = (shared.clone(), busy.clone());
            tasks.spawn(async move {
                if let Err(error) = attempt(&shared, work).await {
                    tracing::warn!(session = %work.session, %error, "an Environment could not be prepared");
                }
                busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&work.environment);
            });
        }
    }
}

async fn attempt(shared: &Shared, work: EnvironmentWork) -> Result<(), StoreError> {
    let Some(facts) = Facts::read(shared, work.session).await? else {
        return Ok(());
    };
    let Some(environment) = &facts.state.environment else {
        return Ok(());
    };
    if environment.initialization != Initialization::Pending {
        return Ok(());
    }
    // A missing socket does not use the attempt up (N1).
    let (Some(peer), Some(binding)) = (facts.peer(shared), facts.binding()) else {
        return Ok(());
    };
    if !peer.can_run(&facts.configuration.harness) {
        // A Runtime declares what it found before it can be asked: before anything is installed (N2, ENV-353).
        return fail(shared, work.session, FailureReason::HarnessUnavailable).await;
    }
    if !peer.is_bound(&binding) {
        return Ok(());
    }
    let Some(_slot) = shared.initializing.take() else {
        return Ok(());
    };
    let generation = environment.observation.generation;
    let begun = written(
        shared
            .store
            .write(BeginInit {
                session: work.session,
                generation,
            })
            .await,
    )?;
    if begun != Some(true) {
        return Ok(());
    }
    let confirmed = tokio::time::timeout(TOTAL, steps(&*peer, binding, empty_selection()))
        .await
        .unwrap_or(false);
    if shared.stop.is_cancelled() {
        return Ok(()); // the next owner settles it as unconfirmed (SC-8.5)
    }
    if confirmed {
        let unit = CompleteInit {
            session: work.session,
            generation,
            binding: binding.id,
            binding_epoch: binding.epoch,
        };
        if written(shared.store.write(unit).await)? == Some(true) {
            tracing::info!(session = %work.session, "the Environment is ready");
            shared.scan.notify_one();
            return Ok(());
        }
    }
    fail(shared, work.session, FailureReason::Incomplete).await
}

/// The steps of a Session that installs nothing: the manifest of the empty selection is written and verified (RP-9.21).
fn empty_selection() -> Vec<InitStep> {
    vec![InitStep::Finalize {
        sources: Vec::new(),
    }]
}

/// Each step on the socket that the attempt began on; the first one that is not confirmed ends it (RP-9.6, RP-9.8).
async fn steps(peer: &dyn Peer, binding: domain::run::Binding, steps: Vec<InitStep>) -> bool {
    for step in steps {
        let answer = tokio::time::timeout(STEP, peer.initialize(binding, step, None)).await;
        store::crash_point!("runtime_prepare.sent");
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
    let failed = written(
        shared
            .store
            .write(FailEnvironment { session, reason })
            .await,
    )?;
    tracing::warn!(%session, ?reason, failed = failed == Some(true), "the Environment failed");
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
