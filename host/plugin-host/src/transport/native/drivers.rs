//! The driver traits over a library.

use std::sync::Arc;

use contract::common::{Failure, Pair};
use contract::harness_declaration::{Declaration, ProbeReport, ProbeVerdict};
use contract::harness_io::{Input, Output};
use contract::harness_session::Configuration;
use contract::mcp_types::{McpBinding, Refusal, ResolveRequest};
use contract::native::messages as m;
use contract::native::operation::{FEATURES, harness, resolver, sandbox};
use contract::sandbox_types::{
    Bootstrap, CreateKind, Health, Measurement, Outcome, OwnedPage, ProviderDeclaration, Selection,
    Target,
};
use contract::{HarnessAdapter, HarnessSession, Host, McpResolver, SandboxProvider};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::table::{Instance, Library};
use crate::transport::Fault;

impl Library {
    fn plain<T: DeserializeOwned>(
        &self,
        host: Option<&dyn Host>,
        name: &str,
        operation: u32,
        arguments: &impl Serialize,
    ) -> Result<T, Fault> {
        match self.call::<T, ()>(host, name, operation, arguments)? {
            Ok(answer) => Ok(answer),
            Err(()) => Err(Fault::Protocol("an error where there is none".to_owned())),
        }
    }

    fn features(&self) -> Vec<String> {
        self.plain(None, "features", FEATURES, &m::Nothing {})
            .unwrap_or_default()
    }
}

/// A harness adapter.
pub(crate) struct Harness(pub(crate) Arc<Library>);

impl HarnessAdapter for Harness {
    fn features(&self) -> Vec<String> {
        self.0.features()
    }

    fn describe(&self, settings: &[Pair]) -> Result<Vec<Declaration>, Failure> {
        let arguments = m::DescribeHarness {
            settings: settings.to_vec(),
        };
        self.0
            .call(None, "describe", harness::DESCRIBE, &arguments)
            .unwrap_or_else(|fault| Err(fault.pure()))
    }

    fn interpret_probe(&self, harness: &str, reports: &[ProbeReport]) -> ProbeVerdict {
        let arguments = m::InterpretProbe {
            harness: harness.to_owned(),
            reports: reports.to_vec(),
        };
        self.0
            .plain(
                None,
                "interpret-probe",
                harness::INTERPRET_PROBE,
                &arguments,
            )
            .unwrap_or_else(|fault| fault.verdict())
    }

    fn open(&self, configuration: Configuration) -> Result<Box<dyn HarnessSession>, Failure> {
        let opened = self.0.open_instance("open", &m::Open { configuration });
        let instance = opened.map_err(|fault| fault.pure())??;
        Ok(Box::new(Session(Some(instance))))
    }
}

/// None after a fault: its state is never used again.
struct Session(Option<Instance>);

impl HarnessSession for Session {
    fn step(&mut self, inputs: Vec<Input>) -> Result<Vec<Output>, Failure> {
        let Some(mut instance) = self.0.take() else {
            return Err(Fault::Ended.effective());
        };
        match instance.call("step", harness::STEP, &m::Step { inputs }) {
            Ok(stepped) => {
                self.0 = Some(instance);
                stepped
            }
            Err(fault) => Err(fault.effective()),
        }
    }
}

/// A sandbox provider.
pub(crate) struct Sandbox(pub(crate) Arc<Library>);

impl Sandbox {
    fn operate(
        &self,
        host: &dyn Host,
        name: &str,
        operation: u32,
        arguments: &impl Serialize,
    ) -> Outcome {
        self.0
            .plain(Some(host), name, operation, arguments)
            .unwrap_or_else(|fault| fault.outcome())
    }
}

impl SandboxProvider for Sandbox {
    fn features(&self) -> Vec<String> {
        self.0.features()
    }

    fn describe(&self, host: &dyn Host, on: &Selection) -> Result<ProviderDeclaration, Failure> {
        let arguments = m::OnSelection { on: on.clone() };
        self.0
            .call(Some(host), "describe", sandbox::DESCRIBE, &arguments)
            .unwrap_or_else(|fault| Err(fault.pure()))
    }

    fn check(&self, host: &dyn Host, on: &Selection) -> Health {
        let arguments = m::OnSelection { on: on.clone() };
        self.0
            .plain(Some(host), "check", sandbox::CHECK, &arguments)
            .unwrap_or_else(|fault| fault.health())
    }

    fn create(
        &self,
        host: &dyn Host,
        on: &Target,
        kind: CreateKind,
        bootstrap: &Bootstrap,
    ) -> Outcome {
        let arguments = m::Create {
            on: on.clone(),
            kind,
            bootstrap: bootstrap.clone(),
        };
        self.operate(host, "create", sandbox::CREATE, &arguments)
    }

    fn inspect(&self, host: &dyn Host, on: &Target) -> Outcome {
        let arguments = m::OnTarget { on: on.clone() };
        self.operate(host, "inspect", sandbox::INSPECT, &arguments)
    }

    fn renew(&self, host: &dyn Host, on: &Target, until_ms: u64) -> Outcome {
        let arguments = m::Renew {
            on: on.clone(),
            until_ms,
        };
        self.operate(host, "renew", sandbox::RENEW, &arguments)
    }

    fn suspend(&self, host: &dyn Host, on: &Target, operation: &str, warm: bool) -> Outcome {
        let arguments = m::Suspend {
            on: on.clone(),
            operation: operation.to_owned(),
            warm,
        };
        self.operate(host, "suspend", sandbox::SUSPEND, &arguments)
    }

    fn resume(&self, host: &dyn Host, on: &Target, operation: &str) -> Outcome {
        let arguments = m::Resume {
            on: on.clone(),
            operation: operation.to_owned(),
        };
        self.operate(host, "resume", sandbox::RESUME, &arguments)
    }

    fn kill(&self, host: &dyn Host, on: &Target, fence_name: bool) -> Outcome {
        let arguments = m::Kill {
            on: on.clone(),
            fence_name,
        };
        self.operate(host, "kill", sandbox::KILL, &arguments)
    }

    fn list_owned(
        &self,
        host: &dyn Host,
        on: &Selection,
        installation: &str,
        cursor: Option<&str>,
    ) -> Result<OwnedPage, Failure> {
        let arguments = m::ListOwned {
            on: on.clone(),
            installation: installation.to_owned(),
            cursor: cursor.map(str::to_owned),
        };
        self.0
            .call(Some(host), "list-owned", sandbox::LIST_OWNED, &arguments)
            .unwrap_or_else(|fault| Err(fault.effective()))
    }

    fn observe(&self, host: &dyn Host, on: &[Target]) -> Result<Vec<Measurement>, Failure> {
        let arguments = m::Observe { on: on.to_vec() };
        self.0
            .call(Some(host), "observe", sandbox::OBSERVE, &arguments)
            .unwrap_or_else(|fault| Err(fault.effective()))
    }
}

/// An MCP resolver.
pub(crate) struct Resolver(pub(crate) Arc<Library>);

impl McpResolver for Resolver {
    fn features(&self) -> Vec<String> {
        self.0.features()
    }

    fn resolve(&self, request: &ResolveRequest) -> Result<Vec<McpBinding>, Refusal> {
        let arguments = m::Resolve {
            request: request.clone(),
        };
        self.0
            .call(None, "resolve", resolver::RESOLVE, &arguments)
            .unwrap_or_else(|fault| Err(fault.refusal()))
    }
}
