//! The host's capabilities as a component sees them: imports. A capability that is not asked for is no import; its object
//! refuses every call with effect `none`.

use contract::common::{Effect, Failure, Pair};
use contract::guest::sandbox::berth::plugin as imports;
use contract::host_types::{Command, Finished, Request, Response};
use contract::log::Level;
use contract::machine_types::{
    MachineFacts, MachineKeep, MachinePage, MachineRefusal, MachineSpec, MachineStart,
    MachineStatus,
};
use contract::sandbox_types::Allocation;
use contract::state::Scope;
use contract::{Clock, Host, Http, Log, Machine, Program, Random, State};

/// The host; each parameter says whether that capability is imported.
#[derive(Default)]
pub struct LentHost<
    const CLOCK: bool,
    const RANDOM: bool,
    const STATE: bool,
    const HTTP: bool,
    const PROGRAM: bool,
    const MACHINE: bool,
>;

impl<
    const CLOCK: bool,
    const RANDOM: bool,
    const STATE: bool,
    const HTTP: bool,
    const PROGRAM: bool,
    const MACHINE: bool,
> Host for LentHost<CLOCK, RANDOM, STATE, HTTP, PROGRAM, MACHINE>
{
    fn log(&self) -> &dyn Log {
        &Imported
    }
    fn clock(&self) -> &dyn Clock {
        if CLOCK { &Imported } else { &Refused }
    }
    fn random(&self) -> &dyn Random {
        if RANDOM { &Imported } else { &Refused }
    }
    fn state(&self) -> &dyn State {
        if STATE { &Imported } else { &Refused }
    }
    fn http(&self) -> &dyn Http {
        if HTTP { &Imported } else { &Refused }
    }
    fn program(&self) -> &dyn Program {
        if PROGRAM { &Imported } else { &Refused }
    }
    fn machine(&self) -> &dyn Machine {
        if MACHINE { &Imported } else { &Refused }
    }
}

struct Imported;
struct Refused;

fn refused() -> Failure {
    Failure {
        code: "permission_missing".to_owned(),
        detail: String::new(),
        effect: Effect::None,
    }
}

fn refused_machine() -> MachineRefusal {
    MachineRefusal::Refused("permission_missing".to_owned())
}

fn scope(scope: Scope) -> imports::state::Scope {
    match scope {
        Scope::Allocation => imports::state::Scope::Allocation,
        Scope::Plugin => imports::state::Scope::Plugin,
    }
}

impl Log for Imported {
    fn emit(&self, level: Level, message: &str, fields: &[Pair]) {
        super::sandbox_log(level, message, fields);
    }
}

impl Clock for Imported {
    fn now_ms(&self) -> u64 {
        imports::clock::now_ms()
    }
    fn sleep_ms(&self, ms: u32) {
        imports::clock::sleep_ms(ms);
    }
}

impl Random for Imported {
    fn bytes(&self, count: u32) -> Vec<u8> {
        imports::random::bytes(count)
    }
}

impl State for Imported {
    fn get(&self, of: Scope, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        imports::state::get(scope(of), key)
    }
    fn put(&self, of: Scope, key: &str, value: &[u8]) -> Result<(), Failure> {
        imports::state::put(scope(of), key, value)
    }
    fn delete(&self, of: Scope, key: &str) -> Result<(), Failure> {
        imports::state::delete(scope(of), key)
    }
}

impl Http for Imported {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        imports::http::send(request)
    }
}

impl Program for Imported {
    fn run(&self, command: &Command) -> Result<Finished, Failure> {
        imports::program::run(command)
    }
}

impl Machine for Imported {
    fn probe(&self) -> MachineFacts {
        imports::machine::probe()
    }
    fn start(
        &self,
        allocation: &Allocation,
        spec: &MachineSpec,
        kind: MachineStart,
    ) -> Result<MachineStatus, MachineRefusal> {
        imports::machine::start(allocation, spec, kind)
    }
    fn inspect(&self, allocation: &Allocation) -> Result<MachineStatus, MachineRefusal> {
        imports::machine::inspect(allocation)
    }
    fn stop(&self, allocation: &Allocation, keep: MachineKeep) -> Result<(), MachineRefusal> {
        imports::machine::stop(allocation, keep)
    }
    fn owned(&self, installation: &str, cursor: Option<&str>) -> Result<MachinePage, Failure> {
        imports::machine::owned(installation, cursor)
    }
}

impl Clock for Refused {
    fn now_ms(&self) -> u64 {
        0
    }
    fn sleep_ms(&self, _ms: u32) {}
}

impl Random for Refused {
    fn bytes(&self, _count: u32) -> Vec<u8> {
        Vec::new()
    }
}

impl State for Refused {
    fn get(&self, _scope: Scope, _key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Err(refused())
    }
    fn put(&self, _scope: Scope, _key: &str, _value: &[u8]) -> Result<(), Failure> {
        Err(refused())
    }
    fn delete(&self, _scope: Scope, _key: &str) -> Result<(), Failure> {
        Err(refused())
    }
}

impl Http for Refused {
    fn send(&self, _request: &Request) -> Result<Response, Failure> {
        Err(refused())
    }
}

impl Program for Refused {
    fn run(&self, _command: &Command) -> Result<Finished, Failure> {
        Err(refused())
    }
}

impl Machine for Refused {
    fn probe(&self) -> MachineFacts {
        MachineFacts {
            level: String::new(),
            enforced: Vec::new(),
            problem: Some("permission_missing".to_owned()),
            cpus: 0,
            memory_mib: 0,
        }
    }
    fn start(
        &self,
        _allocation: &Allocation,
        _spec: &MachineSpec,
        _kind: MachineStart,
    ) -> Result<MachineStatus, MachineRefusal> {
        Err(refused_machine())
    }
    fn inspect(&self, _allocation: &Allocation) -> Result<MachineStatus, MachineRefusal> {
        Err(refused_machine())
    }
    fn stop(&self, _allocation: &Allocation, _keep: MachineKeep) -> Result<(), MachineRefusal> {
        Err(refused_machine())
    }
    fn owned(&self, _installation: &str, _cursor: Option<&str>) -> Result<MachinePage, Failure> {
        Err(refused())
    }
}
