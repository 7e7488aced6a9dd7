//! Whether the provider is ready, asked again while Core runs (SP-12.2). One that is not closes the admission of hosted
//! Environments and nothing else: what exists is cancelled, answered, looked after and removed as ever.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Current, Deployment, say_refused};
use crate::scheduler::Hosting;

/// Pause between two questions while Core runs.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(30);
/// Another Core's selection is seen, and a provider that is ready again used, after so long.
const PERIOD: Duration = Duration::from_secs(5);
/// Many calls that go wrong at one time ask for one question.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

impl Deployment {
    /// Runs in every Core, also in one that does not execute: it admits.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let every = self.parts.check_every;
        let mut tick = interval(PERIOD.min(every));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked = Instant::now();
        loop {
            let doubted = tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => false,
                () = self.doubted.notified() => true,
            };
            if doubted {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = sleep_until(asked + AT_MOST_EVERY.min(every)) => {}
                }
            }
            if let Err(error) = self.refresh().await {
                tracing::warn!(%error, "the selection of the provider could not be read");
            }
            if doubted || asked.elapsed() >= every || self.problem().is_some() {
                self.look_again().await;
                asked = Instant::now();
            }
        }
    }

    /// A call of the provider for new compute went wrong.
    pub(crate) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Asks the provider, and takes its answer unless another selection was made meanwhile.
    async fn look_again(&self) {
        let (generation, hosting) = self.selected();
        let Some(hosting) = hosting else {
            return self.judge_again(generation).await;
        };
        let problem = hosting.check().await.err().map(|error| error.code);
        let _one = self.changing.lock().await;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let same = current
            .hosting
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, &hosting));
        if !same || current.problem == problem {
            return;
        }
        say(hosting.id(), problem.as_deref());
        self.hosts.store(problem.is_none(), Ordering::Release);
        current.problem = problem;
        self.changed.notify_one();
    }

    /// What is selected could not be used when it was selected or loaded: judged from the beginning.
    async fn judge_again(&self, generation: u64) {
        let Ok(selection) = self.parts.store.read().selection().await else {
            return;
        };
        let Some(id) = &selection.choice.provider else {
            return;
        };
        let judged = self
            .judge_stored(&selection, &self.parts.plugins.current())
            .await;
        let _one = self.changing.lock().await;
        let (now, hosting) = self.selected();
        if now != generation || selection.generation != generation || hosting.is_some() {
            return;
        }
        match judged {
            Ok(hosting) => {
                say(id, None);
                self.use_now(generation, Ok(Some(hosting)));
                self.changed.notify_one();
            }
            Err(error) => {
                let known = self.problem();
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                if known != Some(error.code()) {
                    current.problem = Some(say_refused(id, &error));
                }
            }
        }
    }

    fn selected(&self) -> (u64, Option<Arc<Hosting>>) {
        let Current {
            generation,
            hosting,
            ..
        } = &*self.current.read().unwrap_or_else(PoisonError::into_inner);
        (*generation, hosting.clone())
    }
}

fn say(provider: &str, problem: Option<&str>) {
    match problem {
        Some(code) => tracing::error!(
            provider,
            code,
            "the sandbox provider is not ready: hosted Environments are refused until it is"
        ),
        None => tracing::info!(
            provider,
            "the sandbox provider is ready: hosted Environments are admitted"
        ),
    }
}
