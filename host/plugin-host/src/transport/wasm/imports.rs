//! What a component is linked against: the log, and each capability that was granted. What was not granted is not there.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::common::{Failure, Pair};
use contract::host_types::{Command, Finished, Request, Response};
use contract::log::Level;
use contract::machine_types::{
    MachineFacts, MachineKeep, MachinePage, MachineRefusal, MachineSpec, MachineStart,
    MachineStatus,
};
use contract::manifest::Capability;
use contract::sandbox_types::Allocation;
use contract::state::Scope;
use wasmtime::component::Linker;
use wasmtime::{ResourceLimiter, StoreContextMut};

use super::bridge::Bridge;
use super::engine::Machine;
use crate::translate::dialect::Dialect;
use crate::transport::PluginLog;

/// Most elements of a table; a Rust component has some hundreds.
const TABLE: usize = 100_000;

/// What a store holds.
pub(super) struct Guest {
    pub(super) log: Arc<PluginLog>,
    pub(super) bridge: Option<Bridge>,
    pub(super) memory: Memory,
}

/// All memories of one store together.
pub(super) struct Memory {
    pub(super) limit: usize,
    pub(super) used: usize,
    /// It asked for more than the limit.
    pub(super) refused: bool,
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used = self.used.saturating_sub(current).saturating_add(desired);
        if used > self.limit {
            self.refused = true;
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE)
    }
}

/// Name of an interface of a version of the contract.
pub(super) fn interface(name: &str, dialect: Dialect) -> String {
    format!("berth:plugin/{name}@{}", dialect.version())
}

/// The capability that an interface is, if it needs a grant.
pub(super) fn capability(name: &str) -> Option<Capability> {
    Some(match name {
        "clock" => Capability::Clock,
        "random" => Capability::Random,
        "state" => Capability::State,
        "http" => Capability::Http,
        "program" => Capability::Program,
        "machine" => Capability::Machine,
        _ => return None,
    })
}

type Cx<'a> = StoreContextMut<'a, Guest>;

fn with<T: Send + 'static>(
    cx: &Cx<'_>,
    call: impl FnOnce(&dyn contract::Host) -> T + Send + 'static,
) -> wasmtime::Result<(T,)> {
    let bridge = cx.data().bridge.as_ref();
    let bridge = bridge.ok_or_else(|| wasmtime::Error::msg("this call may not use the host"))?;
    Ok((bridge.with(call)?,))
}

/// The linker for what was granted.
pub(super) fn linker(
    machine: &Machine,
    granted: &BTreeSet<Capability>,
) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(&machine.engine);
    // What is lent has one shape in every version that is spoken.
    for dialect in Dialect::ALL {
        log(&mut linker, dialect)?;
        for capability in granted {
            match capability {
                Capability::Clock => clock(&mut linker, dialect)?,
                Capability::Random => random(&mut linker, dialect)?,
                Capability::State => state(&mut linker, dialect)?,
                Capability::Http => http(&mut linker, dialect)?,
                Capability::Program => program(&mut linker, dialect)?,
                Capability::Machine => own_machine(&mut linker, dialect)?,
            }
        }
    }
    Ok(linker)
}

fn log(linker: &mut Linker<Guest>, dialect: Dialect) -> wasmtime::Result<()> {
    let mut log = linker.instance(&interface("log", dialect))?;
    log.func_wrap(
        "emit",
        |cx: Cx<'_>, (level, message, fields): (Level, String, Vec<Pair>)| {
            match &cx.data().bridge {
                Some(bridge) => {
                    bridge.with(move |host| host.log().emit(level, &message, &fields))?
                }
                None => cx.data().log.emit(level, &message, &fields),
            }
            Ok(())
        },
    )
}

fn clock(linker: &mut Linker<Guest>, dialect: Dialect) -> wasmtime::Result<()> {
    let mut clock = linker.instance(&interface("clock", dialect))?;
    clock.func_wrap("now-ms", |cx: Cx<'_>, (): ()| -> wasmtime::Result<(u64,)> {
        with(&cx, |host| host.clock().now_ms())
    })?;
    clock.func_wrap("sleep-ms", |cx: Cx<'_>, (ms,): (u32,)| {
        with(&cx, move |host| host.clock().sleep_ms(ms)).map(|((),)| ())
    })
}

fn random(linker: &mut Linker<Guest>, dialect: Dialect) -> wasmtime::Result<()> {
    let mut random = linker.instance(&interface("random", dialect))?;
    random.func_wrap(
        "bytes",
        |cx: Cx<'_>, (count,): (u32,)| -> wasmtime::Result<(Vec<u8>,)> {
            with(&cx, move |host| host.random().bytes(count))
        },
    )
}

fn state(linker: &mut Linker<Guest>, dialect: Dialect) -> wasmtime::Result<()> {
    type Read = Result<Option<Vec<u8>>, Failure>;
    type Written = Result<(), Failure>;
    let mut state = linker.instance(&interface("state", dialect))?;
    state.func_wrap(
        "get",
        |cx: Cx<'_>, (scope, key): (Scope, String)| -> wasmtime::Result<(Read,)> {
            with(&cx, move |host| host.state().get(scope, &key))
        },
    )?;
    state.func_wrap(
        "put",
        |cx: Cx<'_>,
         (scope, key, value): (Scope, String, Vec<u8>)|
         -> wasmtime::Result<(Written,)> {
            with(&cx, move |host| host.state().put(scope, &key, &value))
        },
    )?;
    state.func_wrap(
        "delete",
        |cx: Cx<'_>, (scope, key): (Scope, String)| -> wasmtime::Result<(Written,)> {
            with(&cx, move |host| host.state().delete(scope, &key))
        },
    )
}

fn http(linker: &mut Linker<Guest>, dialect: Dialect) -> wasmtime::Result<()> {
    let mut http = linker.instance(&interface("http", dialect))?;
    http.func_wrap(
        "send",
        |cx: Cx<'_>, (request,): (Request,)| -> wasmtime::Result<(Result<Response, Failure>,)> {
            with(&cx, move |host| host.http().send(&request))
        },
    )
}

fn program(linker: &mut Linker<Guest>, dialect: Dialect) -> wasmtime::Result<()> {
    let mut program = linker.instance(&interface("program", dialect))?;
    program.func_wrap(
        "run",
        |cx: Cx<'_>, (command,): (Command,)| -> wasmtime::Result<(Result<Finished, Failure>,)> {
            with(&cx, move |host| host.program().run(&command))
        },
    )
}

fn own_machine(linker: &mut Linker<Guest>, dialect: Dialect) -> wasmtime::Result<()> {
    type Status = Result<MachineStatus, MachineRefusal>;
    type Start = (Allocation, MachineSpec, MachineStart);
    type Page = Result<MachinePage, Failure>;
    let mut machine = linker.instance(&interface("machine", dialect))?;
    machine.func_wrap(
        "probe",
        |cx: Cx<'_>, (): ()| -> wasmtime::Result<(MachineFacts,)> {
            with(&cx, |host| host.machine().probe())
        },
    )?;
    machine.func_wrap(
        "start",
        |cx: Cx<'_>, (allocation, spec, kind): Start| -> wasmtime::Result<(Status,)> {
            with(&cx, move |host| {
                host.machine().start(&allocation, &spec, kind)
            })
        },
    )?;
    machine.func_wrap(
        "inspect",
        |cx: Cx<'_>, (allocation,): (Allocation,)| -> wasmtime::Result<(Status,)> {
            with(&cx, move |host| host.machine().inspect(&allocation))
        },
    )?;
    machine.func_wrap(
        "stop",
        |cx: Cx<'_>,
         (allocation, keep): (Allocation, MachineKeep)|
         -> wasmtime::Result<(Result<(), MachineRefusal>,)> {
            with(&cx, move |host| host.machine().stop(&allocation, keep))
        },
    )?;
    machine.func_wrap(
        "owned",
        |cx: Cx<'_>,
         (installation, cursor): (String, Option<String>)|
         -> wasmtime::Result<(Page,)> {
            with(&cx, move |host| {
                host.machine().owned(&installation, cursor.as_deref())
            })
        },
    )
}
