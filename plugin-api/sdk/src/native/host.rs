//! The host's capabilities as a native plugin sees them: each call is a message through the lent table.

use contract::common::{Effect, Failure, Pair};
use contract::host_types::{Command, Finished, Request, Response};
use contract::log::Level;
use contract::machine_types::{
    MachineFacts, MachineKeep, MachinePage, MachineRefusal, MachineSpec, MachineStart,
    MachineStatus,
};
use contract::native::messages as m;
use contract::native::operation::host as op;
use contract::native::{Buffer, ERROR, HostTable, OK, Slice};
use contract::sandbox_types::Allocation;
use contract::state::Scope;
use contract::{Clock, Host, Http, Log, Machine, Program, Random, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;

use super::{bytes, read, written};

/// The host for the time of one call.
pub(super) struct LentHost<'a>(pub(super) &'a HostTable);

// SAFETY: the table's functions may be called from any thread while the call lasts (`contract::native`).
unsafe impl Send for LentHost<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for LentHost<'_> {}

/// How a call through the table can end; none = the host did not understand it.
type Said<T, E> = Option<Result<T, E>>;

impl LentHost<'_> {
    fn call<T: DeserializeOwned, E: DeserializeOwned>(
        &self,
        operation: u32,
        arguments: &impl Serialize,
    ) -> Said<T, E> {
        let input = written(arguments)?;
        let mut output = Buffer::empty();
        let slice = Slice {
            ptr: input.as_ptr(),
            len: input.len(),
        };
        // SAFETY: the table is valid during the call, and so are the two arguments.
        let status = unsafe { (self.0.call)(self.0.context, operation, slice, &raw mut output) };
        let said = Slice {
            ptr: output.ptr,
            len: output.len,
        };
        // SAFETY: the host wrote `output`, and it is freed below, after the last use.
        let message = unsafe { bytes(&said) };
        let answer = match status {
            OK => read(message).map(Ok),
            ERROR => read(message).map(Err),
            _ => None,
        };
        // SAFETY: it came from this table.
        unsafe { (self.0.free)(output) };
        answer
    }

    fn plain<T: DeserializeOwned>(&self, operation: u32, arguments: &impl Serialize) -> Option<T> {
        self.call::<T, ()>(operation, arguments)?.ok()
    }

    fn fallible<T: DeserializeOwned>(
        &self,
        operation: u32,
        arguments: &impl Serialize,
    ) -> Result<T, Failure> {
        self.call(operation, arguments).unwrap_or_else(|| {
            Err(Failure {
                code: "host_call_failed".to_owned(),
                detail: String::new(),
                effect: Effect::Unknown,
            })
        })
    }

    fn machine<T: DeserializeOwned>(
        &self,
        operation: u32,
        arguments: &impl Serialize,
    ) -> Result<T, MachineRefusal> {
        self.call(operation, arguments)
            .unwrap_or_else(|| Err(MachineRefusal::Unknown("host_call_failed".to_owned())))
    }
}

impl Host for LentHost<'_> {
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

impl Log for LentHost<'_> {
    fn emit(&self, level: Level, message: &str, fields: &[Pair]) {
        let line = m::Emit {
            level,
            message: message.to_owned(),
            fields: fields.to_vec(),
        };
        self.plain::<()>(op::LOG_EMIT, &line);
    }
}

impl Clock for LentHost<'_> {
    fn now_ms(&self) -> u64 {
        self.plain(op::CLOCK_NOW, &m::Nothing {}).unwrap_or(0)
    }
    fn sleep_ms(&self, ms: u32) {
        self.plain::<()>(op::CLOCK_SLEEP, &m::Sleep { ms });
    }
}

impl Random for LentHost<'_> {
    fn bytes(&self, count: u32) -> Vec<u8> {
        self.plain::<ByteBuf>(op::RANDOM_BYTES, &m::Random { count })
            .unwrap_or_default()
            .into_vec()
    }
}

impl State for LentHost<'_> {
    fn get(&self, scope: Scope, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let key = key.to_owned();
        let found: Option<ByteBuf> = self.fallible(op::STATE_GET, &m::StateKey { scope, key })?;
        Ok(found.map(ByteBuf::into_vec))
    }
    fn put(&self, scope: Scope, key: &str, value: &[u8]) -> Result<(), Failure> {
        let record = m::StatePut {
            scope,
            key: key.to_owned(),
            value: ByteBuf::from(value),
        };
        self.fallible(op::STATE_PUT, &record)
    }
    fn delete(&self, scope: Scope, key: &str) -> Result<(), Failure> {
        let key = key.to_owned();
        self.fallible(op::STATE_DELETE, &m::StateKey { scope, key })
    }
}

impl Http for LentHost<'_> {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let request = request.clone();
        self.fallible(op::HTTP_SEND, &m::Send { request })
    }
}

impl Program for LentHost<'_> {
    fn run(&self, command: &Command) -> Result<Finished, Failure> {
        let command = command.clone();
        self.fallible(op::PROGRAM_RUN, &m::Run { command })
    }
}

impl Machine for LentHost<'_> {
    fn probe(&self) -> MachineFacts {
        let found = self.plain(op::MACHINE_PROBE, &m::Nothing {});
        found.unwrap_or_else(|| MachineFacts {
            level: String::new(),
            enforced: Vec::new(),
            problem: Some("host_call_failed".to_owned()),
            cpus: 0,
            memory_mib: 0,
        })
    }
    fn start(
        &self,
        allocation: &Allocation,
        spec: &MachineSpec,
        kind: MachineStart,
    ) -> Result<MachineStatus, MachineRefusal> {
        let order = m::StartMachine {
            allocation: allocation.clone(),
            spec: spec.clone(),
            kind,
        };
        self.machine(op::MACHINE_START, &order)
    }
    fn inspect(&self, allocation: &Allocation) -> Result<MachineStatus, MachineRefusal> {
        let allocation = allocation.clone();
        self.machine(op::MACHINE_INSPECT, &m::OnAllocation { allocation })
    }
    fn stop(&self, allocation: &Allocation, keep: MachineKeep) -> Result<(), MachineRefusal> {
        let allocation = allocation.clone();
        self.machine(op::MACHINE_STOP, &m::StopMachine { allocation, keep })
    }
    fn owned(&self, installation: &str, cursor: Option<&str>) -> Result<MachinePage, Failure> {
        let page = m::OwnedMachines {
            installation: installation.to_owned(),
            cursor: cursor.map(str::to_owned),
        };
        self.fallible(op::MACHINE_OWNED, &page)
    }
}
