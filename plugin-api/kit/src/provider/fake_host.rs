//! The host that a provider under test is lent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use contract::common::{Effect, Failure, Pair};
use contract::host_types::{Command, Finished, Request, Response};
use contract::log::Level;
use contract::state::Scope;
use contract::{Clock, Host, Http, Log, Machine, Program, Random, State};

use super::machine::FakeMachine;

/// A host with a fake machine, a clock that only moves when someone sleeps, and no network and no programs.
#[derive(Default)]
pub struct FakeHost {
    /// The machine.
    pub machine: FakeMachine,
    now_ms: AtomicU64,
    drawn: AtomicU64,
    records: Mutex<BTreeMap<(bool, String), Vec<u8>>>,
}

impl Host for FakeHost {
    fn log(&self) -> &dyn Log {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn random(&self) -> &dyn Random {
        self
    }

    fn state(&self) -> &dyn State {
        self
    }

    fn http(&self) -> &dyn Http {
        self
    }

    fn program(&self) -> &dyn Program {
        self
    }

    fn machine(&self) -> &dyn Machine {
        &self.machine
    }
}

impl Log for FakeHost {
    fn emit(&self, _level: Level, _message: &str, _fields: &[Pair]) {}
}

impl Clock for FakeHost {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn sleep_ms(&self, ms: u32) {
        self.now_ms.fetch_add(ms.into(), Ordering::SeqCst);
    }
}

impl Random for FakeHost {
    fn bytes(&self, count: u32) -> Vec<u8> {
        let drawn = self.drawn.fetch_add(1, Ordering::SeqCst);
        drawn
            .to_be_bytes()
            .iter()
            .copied()
            .cycle()
            .take(count as usize)
            .collect()
    }
}

fn key(scope: Scope, key: &str) -> (bool, String) {
    (scope == Scope::Plugin, key.to_owned())
}

impl State for FakeHost {
    fn get(&self, scope: Scope, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(records.get(&key(scope, name)).cloned())
    }

    fn put(&self, scope: Scope, name: &str, value: &[u8]) -> Result<(), Failure> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(key(scope, name), value.to_owned());
        Ok(())
    }

    fn delete(&self, scope: Scope, name: &str) -> Result<(), Failure> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.remove(&key(scope, name));
        Ok(())
    }
}

impl Http for FakeHost {
    fn send(&self, _request: &Request) -> Result<Response, Failure> {
        Err(not_granted())
    }
}

impl Program for FakeHost {
    fn run(&self, _command: &Command) -> Result<Finished, Failure> {
        Err(not_granted())
    }
}

fn not_granted() -> Failure {
    Failure {
        code: "not_granted".into(),
        detail: String::new(),
        effect: Effect::None,
    }
}
