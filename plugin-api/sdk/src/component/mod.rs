//! A plugin's own half of a component: the exported interfaces over the driver traits.

mod host;
mod permissions;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Once, OnceLock};

use contract::common::{Failure, Pair};
use contract::guest::{harness, resolver, sandbox};
use contract::harness_declaration::{Declaration, ProbeReport, ProbeVerdict};
use contract::harness_io::{Input, Output};
use contract::harness_session::Configuration;
use contract::log::Level;
use contract::mcp_types::{McpBinding, Refusal, ResolveRequest};
use contract::sandbox_types::{
    Bootstrap, CreateKind, Health, Measurement, Outcome, OwnedPage, ProviderDeclaration, Selection,
    Target,
};
use contract::sink::Sink;
use contract::{HarnessAdapter, HarnessSession, McpResolver, SandboxProvider};

pub use contract::guest;
pub use host::LentHost;
pub use permissions::asks;

/// What a registration macro implements for the crate's plugin.
pub trait Plugin<D: ?Sized> {
    /// Makes it.
    fn create() -> Box<D>;
}

/// A plugin is made once in an instance.
struct Made<D: ?Sized>(OnceLock<Box<D>>);

static HARNESS: Made<dyn HarnessAdapter> = Made(OnceLock::new());
static SANDBOX: Made<dyn SandboxProvider> = Made(OnceLock::new());
static RESOLVER: Made<dyn McpResolver> = Made(OnceLock::new());

impl<D: ?Sized> Made<D> {
    fn get<P: Plugin<D>>(&self, sink: Sink) -> &D {
        START.call_once(|| {
            contract::sink::set(sink);
            // A panic ends as a trap without a word; its text goes to the log first.
            std::panic::set_hook(Box::new(move |panic| {
                contract::sink::emit(Level::Error, &panic.to_string(), &[]);
            }));
        });
        self.0.get_or_init(P::create)
    }
}

static START: Once = Once::new();

macro_rules! sink {
    ($name:ident, $world:ident) => {
        /// The log as this world imports it.
        pub(crate) fn $name(level: Level, message: &str, fields: &[Pair]) {
            use contract::guest::$world::berth::plugin::log;
            let level = match level {
                Level::Debug => log::Level::Debug,
                Level::Info => log::Level::Info,
                Level::Warn => log::Level::Warn,
                Level::Error => log::Level::Error,
            };
            log::emit(level, message, fields);
        }
    };
}
sink!(harness_log, harness);
sink!(sandbox_log, sandbox);
sink!(resolver_log, resolver);

/// A harness adapter as a component.
pub struct HarnessExport<P>(PhantomData<P>);

impl<P: Plugin<dyn HarnessAdapter> + 'static> HarnessExport<P> {
    fn adapter() -> &'static dyn HarnessAdapter {
        HARNESS.get::<P>(harness_log)
    }
}

use harness::exports::berth::plugin::harness_adapter as harness_export;

impl<P: Plugin<dyn HarnessAdapter> + 'static> harness_export::Guest for HarnessExport<P> {
    type Session = SessionExport<P>;

    fn features() -> Vec<String> {
        Self::adapter().features()
    }
    fn describe(settings: Vec<Pair>) -> Result<Vec<Declaration>, Failure> {
        Self::adapter().describe(&settings)
    }
    fn interpret_probe(harness: String, reports: Vec<ProbeReport>) -> ProbeVerdict {
        Self::adapter().interpret_probe(&harness, &reports)
    }
}

/// One session as a resource.
pub struct SessionExport<P>(RefCell<Box<dyn HarnessSession>>, PhantomData<P>);

impl<P: Plugin<dyn HarnessAdapter> + 'static> harness_export::GuestSession for SessionExport<P> {
    fn open(configuration: Configuration) -> Result<harness_export::Session, Failure> {
        let session = HarnessExport::<P>::adapter().open(configuration)?;
        Ok(harness_export::Session::new(Self(
            RefCell::new(session),
            PhantomData,
        )))
    }
    fn step(&self, inputs: Vec<Input>) -> Result<Vec<Output>, Failure> {
        self.0.borrow_mut().step(inputs)
    }
}

/// A sandbox provider as a component that may import what its manifest asks for.
pub struct SandboxExport<P, H>(PhantomData<(P, H)>);

impl<P: Plugin<dyn SandboxProvider>, H> SandboxExport<P, H> {
    fn provider() -> &'static dyn SandboxProvider {
        SANDBOX.get::<P>(sandbox_log)
    }
}

impl<P, H> sandbox::exports::berth::plugin::sandbox_provider::Guest for SandboxExport<P, H>
where
    P: Plugin<dyn SandboxProvider>,
    H: contract::Host + Default,
{
    fn features() -> Vec<String> {
        Self::provider().features()
    }
    fn describe(on: Selection) -> Result<ProviderDeclaration, Failure> {
        Self::provider().describe(&H::default(), &on)
    }
    fn check(on: Selection) -> Health {
        Self::provider().check(&H::default(), &on)
    }
    fn create(on: Target, kind: CreateKind, bootstrap: Bootstrap) -> Outcome {
        Self::provider().create(&H::default(), &on, kind, &bootstrap)
    }
    fn inspect(on: Target) -> Outcome {
        Self::provider().inspect(&H::default(), &on)
    }
    fn renew(on: Target, until_ms: u64) -> Outcome {
        Self::provider().renew(&H::default(), &on, until_ms)
    }
    fn suspend(on: Target, operation: String, warm: bool) -> Outcome {
        Self::provider().suspend(&H::default(), &on, &operation, warm)
    }
    fn resume(on: Target, operation: String) -> Outcome {
        Self::provider().resume(&H::default(), &on, &operation)
    }
    fn kill(on: Target, fence_name: bool) -> Outcome {
        Self::provider().kill(&H::default(), &on, fence_name)
    }
    fn list_owned(
        on: Selection,
        installation: String,
        cursor: Option<String>,
    ) -> Result<OwnedPage, Failure> {
        Self::provider().list_owned(&H::default(), &on, &installation, cursor.as_deref())
    }
    fn observe(on: Vec<Target>) -> Result<Vec<Measurement>, Failure> {
        Self::provider().observe(&H::default(), &on)
    }
}

/// An MCP resolver as a component.
pub struct ResolverExport<P>(PhantomData<P>);

impl<P: Plugin<dyn McpResolver>> resolver::exports::berth::plugin::mcp_resolver::Guest
    for ResolverExport<P>
{
    fn features() -> Vec<String> {
        RESOLVER.get::<P>(resolver_log).features()
    }
    fn resolve(request: ResolveRequest) -> Result<Vec<McpBinding>, Refusal> {
        RESOLVER.get::<P>(resolver_log).resolve(&request)
    }
}

/// Exports a harness adapter.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_harness {
    ($plugin:ident) => {
        type __BerthExport = $crate::component::HarnessExport<$plugin>;
        $crate::component::guest::harness::export!(__BerthExport with_types_in $crate::component::guest::harness);
    };
}

/// Exports a sandbox provider.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_sandbox {
    ($plugin:ident, $manifest:expr) => {
        type __BerthExport = $crate::component::SandboxExport<
            $plugin,
            $crate::component::LentHost<
                { $crate::component::asks($manifest.as_bytes(), "clock") },
                { $crate::component::asks($manifest.as_bytes(), "random") },
                { $crate::component::asks($manifest.as_bytes(), "state") },
                { $crate::component::asks($manifest.as_bytes(), "http") },
                { $crate::component::asks($manifest.as_bytes(), "program") },
                { $crate::component::asks($manifest.as_bytes(), "machine") },
            >,
        >;
        $crate::component::guest::sandbox::export!(__BerthExport with_types_in $crate::component::guest::sandbox);
    };
}

/// Exports an MCP resolver.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_resolver {
    ($plugin:ident) => {
        type __BerthExport = $crate::component::ResolverExport<$plugin>;
        $crate::component::guest::resolver::export!(__BerthExport with_types_in $crate::component::guest::resolver);
    };
}

pub use crate::{
    __export_harness as export_harness, __export_resolver as export_resolver,
    __export_sandbox as export_sandbox,
};
