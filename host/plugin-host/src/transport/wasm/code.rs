//! A component: compiled, its imports and exports checked against the contract, and called within its limits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::manifest::{Capability, Kind};
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower,
};
use wasmtime::{Store, Trap};

use super::bridge::Bridge;
use super::cache::Cache;
use super::engine::Machine;
use super::imports::{self, Guest, Memory};
use crate::translate::dialect::Dialect;
use crate::transport::{Fault, Health, PluginLog};

/// Bounds of one plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Time of one call, the host's own part included.
    pub call: Duration,
    /// Memory of one instance in bytes.
    pub memory: usize,
    /// Bytes of one answer.
    pub output: usize,
    /// Instances at a time.
    pub instances: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(5),
            memory: 64 << 20,
            output: 64 << 20,
            instances: 1024,
        }
    }
}

/// Why a component cannot be loaded. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodeError {
    /// No engine.
    #[error("this machine cannot run components: {0}")]
    Engine(String),
    /// Not a component.
    #[error("it is no valid component ({0}); build it again with `berth plugin build`")]
    Invalid(String),
    /// It needs a capability that it was not granted.
    #[error(
        "it imports `{0}`, which it was not granted; install it with `berth plugin install --grant {0}`"
    )]
    NotGranted(String),
    /// It needs a capability that its manifest does not ask for.
    #[error(
        "it imports `{0}`, which its plugin.toml does not ask for; add it to [permissions] with a reason"
    )]
    NotAsked(String),
    /// It needs something that no plugin gets.
    #[error(
        "it imports `{0}`, which is not part of the plugin contract; for JavaScript switch off the engine's features, for Rust build for wasm32-unknown-unknown"
    )]
    Foreign(String),
    /// It was built for another contract.
    #[error("it was built for contract {0}, this Berth has {host} and runs the step before it; build it against {host}", host = contract::VERSION)]
    Contract(String),
    /// It does not export what a plugin of its kind exports.
    #[error(
        "its plugin.toml says `{0}`, but it does not export `{1}`; mend the kind or the export"
    )]
    Kind(String, String),
    /// A shape is not the contract's.
    #[error("`{0}` does not have the contract's shape ({1}); build it against contract {host}", host = contract::VERSION)]
    Shape(String, String),
    /// Its start does not work.
    #[error("it cannot be started: {0}")]
    Start(String),
}

/// A loaded component.
pub(crate) struct Code {
    machine: &'static Machine,
    pre: InstancePre<Guest>,
    /// The version that it exports.
    pub(super) dialect: Dialect,
    exports: Vec<(&'static str, ComponentExportIndex)>,
    pub(super) limits: Limits,
    pub(super) log: Arc<PluginLog>,
    pub(super) health: Arc<Health>,
    instances: Arc<AtomicUsize>,
}

/// One instance and its place among the plugin's instances.
pub(super) struct Running {
    pub(super) store: Store<Guest>,
    pub(super) instance: Instance,
    counted: Arc<AtomicUsize>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.counted.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Interface and functions of a kind.
fn exported(kind: Kind) -> (&'static str, &'static str, &'static [&'static str]) {
    match kind {
        Kind::Harness => (
            "harness",
            "harness-adapter",
            &[
                "features",
                "describe",
                "interpret-probe",
                "[static]session.open",
                "[method]session.step",
            ],
        ),
        Kind::SandboxProvider => (
            "sandbox-provider",
            "sandbox-provider",
            &[
                "features",
                "describe",
                "check",
                "create",
                "inspect",
                "renew",
                "suspend",
                "resume",
                "kill",
                "list-owned",
                "observe",
            ],
        ),
        Kind::McpResolver => ("mcp-resolver", "mcp-resolver", &["features", "resolve"]),
    }
}

impl Code {
    /// Compiles, or takes from the cache, and checks all that can be checked without a call.
    ///
    /// # Errors
    /// See [`CodeError`].
    pub(crate) fn load(
        (bytes, digest): (&[u8], &str),
        kind: Kind,
        (asked, granted): (&BTreeSet<Capability>, &BTreeSet<Capability>),
        limits: Limits,
        (log, health): (Arc<PluginLog>, Arc<Health>),
        cache: &Cache,
    ) -> Result<Self, CodeError> {
        let machine = Machine::get().map_err(|error| CodeError::Engine(error.to_owned()))?;
        let component = cache.component(&machine.engine, bytes, digest)?;
        check_imports(machine, &component, asked, granted)?;
        let (name, interface, functions) = exported(kind);
        let spoken = Dialect::ALL.into_iter().find_map(|dialect| {
            let whole = imports::interface(interface, dialect);
            Some((dialect, component.get_export_index(None, &whole)?))
        });
        let (dialect, index) =
            spoken.ok_or_else(|| missing(machine, &component, name, interface))?;
        let mut exports = Vec::new();
        for function in functions {
            let found = component.get_export_index(Some(&index), function);
            let found = found.ok_or_else(|| {
                CodeError::Shape((*function).to_owned(), "it is missing".to_owned())
            })?;
            exports.push((*function, found));
        }
        let linker = imports::linker(machine, granted);
        let linker = linker.map_err(|error| CodeError::Engine(format!("{error:#}")))?;
        let pre = linker
            .instantiate_pre(&component)
            .map_err(|error| CodeError::Shape("an import".to_owned(), format!("{error:#}")))?;
        Ok(Self {
            machine,
            pre,
            dialect,
            exports,
            limits,
            log,
            health,
            instances: Arc::default(),
        })
    }

    fn export(&self, function: &str) -> Option<&ComponentExportIndex> {
        let found = self.exports.iter().find(|(name, _)| *name == function);
        found.map(|(_, index)| index)
    }

    /// Whether a function has the contract's shape. Shapes are checked at load and never first at a Session.
    pub(super) fn check<P, R>(&self, function: &str) -> Result<(), CodeError>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let mut running = self
            .start(None, self.limits.call)
            .map_err(|fault| CodeError::Start(fault.to_string()))?;
        let found = self.export(function).map(|index| {
            running
                .instance
                .get_typed_func::<P, R>(&mut running.store, index)
        });
        match found {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(CodeError::Shape(function.to_owned(), format!("{error:#}"))),
            None => Err(CodeError::Shape(
                function.to_owned(),
                "it is missing".to_owned(),
            )),
        }
    }

    /// A fresh instance.
    pub(super) fn start(&self, bridge: Option<Bridge>, budget: Duration) -> Result<Running, Fault> {
        self.health.admit()?;
        let counted = Arc::clone(&self.instances);
        if counted.fetch_add(1, Ordering::Relaxed) >= self.limits.instances {
            counted.fetch_sub(1, Ordering::Relaxed);
            return Err(Fault::Busy);
        }
        let guest = Guest {
            log: Arc::clone(&self.log),
            bridge,
            memory: Memory {
                limit: self.limits.memory,
                used: 0,
                refused: false,
            },
        };
        let mut store = Store::new(&self.machine.engine, guest);
        store.limiter(|guest| &mut guest.memory);
        store.set_hostcall_fuel(self.limits.output);
        store.set_epoch_deadline(Machine::epochs(budget));
        let _ticking = self.machine.tick();
        match self.pre.instantiate(&mut store) {
            Ok(instance) => Ok(Running {
                store,
                instance,
                counted,
            }),
            Err(error) => {
                counted.fetch_sub(1, Ordering::Relaxed);
                let fault = fault(&store, &error);
                self.health.note(self.log.plugin(), "start", &fault);
                Err(fault)
            }
        }
    }

    /// One call of one function. After a fault the instance must not be used again.
    pub(super) fn call<P, R>(
        &self,
        running: &mut Running,
        function: &str,
        parameters: P,
        budget: Duration,
    ) -> Result<R, Fault>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        (R,): ComponentNamedList + Lift + Send + Sync + 'static,
    {
        self.health.admit()?;
        let called = self.enter(running, function, parameters, budget);
        called.inspect_err(|fault| self.health.note(self.log.plugin(), function, fault))
    }

    fn enter<P, R>(
        &self,
        running: &mut Running,
        function: &str,
        parameters: P,
        budget: Duration,
    ) -> Result<R, Fault>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        (R,): ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let Running {
            store, instance, ..
        } = running;
        let index = self
            .export(function)
            .ok_or_else(|| Fault::Protocol(format!("there is no {function}")))?;
        let typed = instance
            .get_typed_func::<P, (R,)>(&mut *store, index)
            .map_err(|error| Fault::Protocol(format!("{error:#}")))?;
        store.set_epoch_deadline(Machine::epochs(budget));
        let _ticking = self.machine.tick();
        match typed.call(&mut *store, parameters) {
            Ok((answer,)) => Ok(answer),
            Err(error) => Err(fault(store, &error)),
        }
    }
}

/// What an error of the engine was.
fn fault(store: &Store<Guest>, error: &wasmtime::Error) -> Fault {
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::Interrupt) {
        return Fault::Deadline;
    }
    if store.data().memory.refused {
        return Fault::Memory;
    }
    match trap {
        Some(trap) => Fault::Crashed(trap.to_string()),
        None => {
            let text = format!("{error:#}");
            // The engine's error for this has no public type.
            if text.contains("too much data is being copied") {
                Fault::Output
            } else {
                Fault::Protocol(text)
            }
        }
    }
}

fn check_imports(
    machine: &Machine,
    component: &Component,
    asked: &BTreeSet<Capability>,
    granted: &BTreeSet<Capability>,
) -> Result<(), CodeError> {
    for (name, _) in component.component_type().imports(&machine.engine) {
        let Some((interface, version)) = own(name) else {
            return Err(CodeError::Foreign(name.to_owned()));
        };
        if Dialect::of(version).is_none() {
            return Err(CodeError::Contract(version.to_owned()));
        }
        if let Some(capability) = imports::capability(interface) {
            if !asked.contains(&capability) {
                return Err(CodeError::NotAsked(interface.to_owned()));
            }
            if !granted.contains(&capability) {
                return Err(CodeError::NotGranted(interface.to_owned()));
            }
        }
    }
    Ok(())
}

/// The error for an export that is not there: another version of it, or another kind.
fn missing(machine: &Machine, component: &Component, kind: &str, interface: &str) -> CodeError {
    let ty = component.component_type();
    let other = ty.exports(&machine.engine).find_map(|(name, _)| {
        let (found, version) = own(name)?;
        (found == interface && Dialect::of(version).is_none()).then(|| version.to_owned())
    });
    match other {
        Some(version) => CodeError::Contract(version),
        None => CodeError::Kind(
            kind.to_owned(),
            imports::interface(interface, Dialect::Present),
        ),
    }
}

/// Interface and version of a name of our package.
fn own(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("berth:plugin/")?.split_once('@')
}
