//! What a provider reaches during one call. A capability that is not granted answers every call with a refusal that
//! names it and has no effect; nothing of it exists behind that answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contract::common::{Effect, Failure, Pair};
use contract::host_types::{Command, Finished, Request, Response};
use contract::log::Level;
use contract::machine_types::{
    MachineFacts, MachineKeep, MachinePage, MachineRefusal, MachineSpec, MachineStart,
    MachineStatus,
};
use contract::manifest::Capability;
use contract::sandbox_types::Allocation;
use contract::{Clock, Host, Http, Log, Machine, Program, Random, State};
use domain::provider::AllocationRef;
use domain::{AllocationId, Secret};
use tokio::runtime::Handle;

use super::call::BootstrapFile;
use super::handle::Shared;
use super::machine::MachineCall;
use super::{http, program};

/// Lines of one call that reach the log.
const LINES: u32 = 100;
/// Bounds of `state` (contract).
const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 64 << 10;

/// Whose value it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// An allocation's; removed when it is released.
    Allocation(AllocationId),
    /// The whole provider's.
    Provider,
}

/// Why a value could not be read or stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RememberError {
    /// Core lost its lease, or a newer operation owns the allocation; certainly nothing was stored (SP-4.9).
    #[error("another owner has the records")]
    Fenced,
    /// It may or may not have been stored.
    #[error("the records cannot be reached")]
    Unavailable,
}

/// What providers remember, sealed in Core's database (SP-14.2). Core implements it; calls come from threads that may
/// block, and a value is durable when `put` answers.
pub trait ProviderMemory: Send + Sync {
    /// The value, or none.
    ///
    /// # Errors
    /// See [`RememberError`].
    fn get(&self, provider: &str, scope: Scope, key: &str)
    -> Result<Option<Secret>, RememberError>;
    /// Stores the value, or removes it if there is none; removing nothing is success.
    ///
    /// # Errors
    /// See [`RememberError`].
    fn put(
        &self,
        provider: &str,
        scope: Scope,
        key: &str,
        value: Option<Secret>,
    ) -> Result<(), RememberError>;
}

/// One call's view of the host.
pub(super) struct CallHost {
    pub(super) shared: Arc<Shared>,
    pub(super) allocation: Option<AllocationRef>,
    /// Those of the allocation's own generation, without secrets (SP-2.6).
    pub(super) settings: Vec<(String, String)>,
    /// What hands the device's credential over; only while a daemon is started.
    pub(super) bootstrap: Option<BootstrapFile>,
    pub(super) machine: Option<MachineCall>,
    /// For what waits: calls come on threads that may block.
    pub(super) runtime: Handle,
    pub(super) deadline: Instant,
    pub(super) lines: AtomicU32,
}

fn refusal(capability: Capability) -> Failure {
    let code = match capability {
        Capability::Clock => "permission_clock",
        Capability::Random => "permission_random",
        Capability::State => "permission_state",
        Capability::Http => "permission_http",
        Capability::Program => "permission_program",
        Capability::Machine => "permission_machine",
    };
    failure(code, Effect::None)
}

pub(super) fn failure(code: &str, effect: Effect) -> Failure {
    Failure {
        code: code.to_owned(),
        detail: String::new(),
        effect,
    }
}

impl CallHost {
    fn has(&self, capability: Capability) -> Result<(), Failure> {
        if self.shared.granted.contains(&capability) {
            Ok(())
        } else {
            Err(refusal(capability))
        }
    }

    fn machine(&self) -> Result<&MachineCall, &'static str> {
        self.has(Capability::Machine)
            .map_err(|_| "permission_machine")?;
        self.machine.as_ref().ok_or("machine_unavailable")
    }

    fn scope(&self, scope: contract::state::Scope) -> Result<Scope, Failure> {
        match scope {
            contract::state::Scope::Plugin => Ok(Scope::Provider),
            contract::state::Scope::Allocation => {
                let allocation = self
                    .allocation
                    .ok_or_else(|| failure("no_allocation", Effect::None))?;
                Ok(Scope::Allocation(allocation.id))
            }
        }
    }

    fn store(
        &self,
        scope: contract::state::Scope,
        key: &str,
        value: Option<Secret>,
    ) -> Result<(), Failure> {
        self.has(Capability::State)?;
        key_is_valid(key)?;
        self.shared
            .memory
            .put(self.provider(), self.scope(scope)?, key, value)
            .map_err(forgotten)
    }

    pub(super) fn provider(&self) -> &str {
        &self.shared.provider.manifest.id
    }

    /// How much of the call's budget is left.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

fn key_is_valid(key: &str) -> Result<(), Failure> {
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-')
    };
    let valid = (1..=KEY_BYTES).contains(&key.len()) && key.bytes().all(allowed);
    if valid {
        Ok(())
    } else {
        Err(failure("key_invalid", Effect::None))
    }
}

pub(super) fn forgotten(error: RememberError) -> Failure {
    match error {
        RememberError::Fenced => failure("fenced", Effect::None),
        RememberError::Unavailable => failure("state_unavailable", Effect::Unknown),
    }
}

impl Host for CallHost {
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
        self
    }
}

impl Log for CallHost {
    fn emit(&self, level: Level, message: &str, fields: &[Pair]) {
        if self.lines.fetch_add(1, Ordering::Relaxed) >= LINES {
            return;
        }
        let message: String = message.chars().take(4096).collect();
        let fields: Vec<_> = fields
            .iter()
            .take(16)
            .map(|pair| format!("{}={}", pair.name, pair.value))
            .collect();
        let (provider, fields) = (self.provider(), fields.join(" "));
        match level {
            Level::Debug => tracing::debug!(provider, fields, "{message}"),
            Level::Info => tracing::info!(provider, fields, "{message}"),
            Level::Warn => tracing::warn!(provider, fields, "{message}"),
            Level::Error => tracing::error!(provider, fields, "{message}"),
        }
    }
}

impl Clock for CallHost {
    fn now_ms(&self) -> u64 {
        if self.has(Capability::Clock).is_err() {
            return 0;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep_ms(&self, ms: u32) {
        if self.has(Capability::Clock).is_ok() {
            std::thread::sleep(Duration::from_millis(ms.min(60_000).into()).min(self.left()));
        }
    }
}

impl Random for CallHost {
    fn bytes(&self, count: u32) -> Vec<u8> {
        let mut bytes = vec![0; count.clamp(1, 256) as usize];
        let drawn = self.has(Capability::Random).is_ok() && getrandom::fill(&mut bytes).is_ok();
        // No bytes at all are seen as what they are; predictable ones would not be.
        if drawn { bytes } else { Vec::new() }
    }
}

impl State for CallHost {
    fn get(&self, scope: contract::state::Scope, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.has(Capability::State)?;
        key_is_valid(key)?;
        let value = self
            .shared
            .memory
            .get(self.provider(), self.scope(scope)?, key)
            .map_err(forgotten)?;
        Ok(value.map(|value| value.expose().to_vec()))
    }

    fn put(&self, scope: contract::state::Scope, key: &str, value: &[u8]) -> Result<(), Failure> {
        if value.len() > VALUE_BYTES {
            return Err(failure("value_too_large", Effect::None));
        }
        self.store(scope, key, Some(Secret::new(value)))
    }

    fn delete(&self, scope: contract::state::Scope, key: &str) -> Result<(), Failure> {
        self.store(scope, key, None)
    }
}

impl Http for CallHost {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        self.has(Capability::Http)?;
        http::send(self, request)
    }
}

impl Program for CallHost {
    fn run(&self, command: &Command) -> Result<Finished, Failure> {
        self.has(Capability::Program)?;
        program::run(self, command)
    }
}

impl Machine for CallHost {
    fn probe(&self) -> MachineFacts {
        match self.machine() {
            Ok(machine) => machine.probe(),
            Err(code) => MachineFacts {
                level: String::new(),
                enforced: Vec::new(),
                problem: Some(code.to_owned()),
                cpus: 0,
                memory_mib: 0,
            },
        }
    }

    fn start(
        &self,
        allocation: &Allocation,
        spec: &MachineSpec,
        kind: MachineStart,
    ) -> Result<MachineStatus, MachineRefusal> {
        self.machine()
            .map_err(refused)?
            .start(self.allocation.as_ref(), allocation, spec, kind)
    }

    fn inspect(&self, allocation: &Allocation) -> Result<MachineStatus, MachineRefusal> {
        self.machine()
            .map_err(refused)?
            .inspect(self.allocation.as_ref(), allocation)
    }

    fn stop(&self, allocation: &Allocation, keep: MachineKeep) -> Result<(), MachineRefusal> {
        self.machine()
            .map_err(refused)?
            .stop(self.allocation.as_ref(), allocation, keep)
    }

    fn owned(&self, installation: &str, cursor: Option<&str>) -> Result<MachinePage, Failure> {
        self.machine()
            .map_err(|code| failure(code, Effect::None))?
            .owned(installation, cursor)
    }
}

fn refused(code: &'static str) -> MachineRefusal {
    MachineRefusal::Refused(code.to_owned())
}
