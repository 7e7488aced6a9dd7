//! One engine for the process, and a clock that ticks only while a component runs.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use wasmtime::{Config, Engine};

/// Length of an epoch: how exactly a deadline is kept.
const TICK: Duration = Duration::from_millis(10);

/// The engine and its clock.
pub(super) struct Machine {
    pub(super) engine: Engine,
    running: Arc<Running>,
}

#[derive(Default)]
struct Running {
    calls: Mutex<usize>,
    some: Condvar,
}

impl Running {
    fn count(&self, change: impl FnOnce(&mut usize)) {
        change(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        self.some.notify_one();
    }

    fn wait(&self) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = self.some.wait_while(calls, |calls| *calls == 0);
        drop(idle.unwrap_or_else(PoisonError::into_inner));
    }
}

/// While one of these lives, epochs pass.
pub(super) struct Ticking<'a>(&'a Running);

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.count(|calls| *calls -= 1);
    }
}

impl Machine {
    /// The process's own.
    ///
    /// # Errors
    /// This processor or system cannot run components.
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();
        MACHINE
            .get_or_init(|| Self::start().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(String::as_str)
    }

    fn start() -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let engine = Engine::new(&config)?;
        let running = Arc::new(Running::default());
        let (clock, seen) = (engine.clone(), Arc::clone(&running));
        std::thread::Builder::new()
            .name("wasm-clock".to_owned())
            .spawn(move || {
                loop {
                    seen.wait();
                    std::thread::sleep(TICK);
                    clock.increment_epoch();
                }
            })?;
        Ok(Self { engine, running })
    }

    /// Lets epochs pass.
    pub(super) fn tick(&self) -> Ticking<'_> {
        self.running.count(|calls| *calls += 1);
        Ticking(&self.running)
    }

    /// Epochs of a time budget.
    pub(super) fn epochs(budget: Duration) -> u64 {
        let epochs = budget.as_millis().div_ceil(TICK.as_millis());
        // One more: the present epoch is partly over.
        u64::try_from(epochs).unwrap_or(u64::MAX - 1) + 1
    }
}
