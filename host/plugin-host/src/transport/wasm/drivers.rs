//! The driver traits over a component. What has no memory runs in a fresh instance each time, so a crash leaves nothing
//! behind; a harness session keeps its own instance until it ends.

use std::time::Duration;

use contract::common::{Failure, Pair};
use contract::harness_declaration::{Declaration, ProbeReport, ProbeVerdict};
use contract::harness_io::{Input, Output};
use contract::harness_session::Configuration;
use contract::mcp_types::{McpBinding, Refusal, ResolveRequest};
use contract::sandbox_types::{
    Bootstrap, CreateKind, Health, Measurement, Outcome, OwnedPage, ProviderDeclaration, Selection,
    Target,
};
use contract::{HarnessAdapter, HarnessSession, Host, McpResolver, SandboxProvider};
use std::sync::Arc;
use wasmtime::component::{ComponentNamedList, Lift, Lower, ResourceAny};

use super::bridge::lend;
use super::code::{Code, CodeError, Running};
use crate::translate::dialect::{Dialect, RefusalV0_1};
use crate::transport::Fault;

/// Time of a provider's call that is about no allocation; the host has its own deadline besides.
const LOOK: Duration = Duration::from_secs(30);

const OPEN: &str = "[static]session.open";
const STEP: &str = "[method]session.step";

impl Code {
    /// One call in an instance of its own, without the host.
    fn alone<P, R>(&self, function: &str, parameters: P) -> Result<R, Fault>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        (R,): ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let mut running = self.start(None, self.limits.call)?;
        self.call(&mut running, function, parameters, self.limits.call)
    }

    /// One call in an instance of its own, with the host.
    fn lent<P, R>(
        &self,
        host: &dyn Host,
        function: &str,
        parameters: P,
        budget: Duration,
    ) -> Result<R, Fault>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: Send,
        (R,): ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let called = lend(host, |bridge| {
            let mut running = self.start(Some(bridge), budget)?;
            self.call(&mut running, function, parameters, budget)
        });
        called.unwrap_or_else(|| Err(Fault::Crashed("its thread is gone".to_owned())))
    }
}

/// A harness adapter.
pub(crate) struct Harness(Arc<Code>);

type Opened = Result<ResourceAny, Failure>;
type Stepped = Result<Vec<Output>, Failure>;

impl Harness {
    /// Checks every shape of the interface.
    ///
    /// # Errors
    /// The first that is wrong.
    pub(crate) fn new(code: Code) -> Result<Self, CodeError> {
        code.check::<(), (Vec<String>,)>("features")?;
        code.check::<(&[Pair],), (Result<Vec<Declaration>, Failure>,)>("describe")?;
        code.check::<(&str, &[ProbeReport]), (ProbeVerdict,)>("interpret-probe")?;
        code.check::<(&Configuration,), (Opened,)>(OPEN)?;
        code.check::<(ResourceAny, &[Input]), (Stepped,)>(STEP)?;
        Ok(Self(Arc::new(code)))
    }
}

impl HarnessAdapter for Harness {
    fn features(&self) -> Vec<String> {
        self.0.alone("features", ()).unwrap_or_default()
    }

    fn describe(&self, settings: &[Pair]) -> Result<Vec<Declaration>, Failure> {
        self.0
            .alone("describe", (settings,))
            .unwrap_or_else(|fault| Err(fault.pure()))
    }

    fn interpret_probe(&self, harness: &str, reports: &[ProbeReport]) -> ProbeVerdict {
        self.0
            .alone("interpret-probe", (harness, reports))
            .unwrap_or_else(|fault| fault.verdict())
    }

    fn open(&self, configuration: Configuration) -> Result<Box<dyn HarnessSession>, Failure> {
        let code = Arc::clone(&self.0);
        let budget = code.limits.call;
        let open = || -> Result<(Running, Opened), Fault> {
            let mut running = code.start(None, budget)?;
            let opened: Opened = code.call(&mut running, OPEN, (&configuration,), budget)?;
            Ok((running, opened))
        };
        let (running, opened) = open().map_err(|fault| fault.pure())?;
        let session = opened?;
        Ok(Box::new(Session {
            code,
            live: Some((running, session)),
        }))
    }
}

struct Session {
    code: Arc<Code>,
    /// None after a fault: its state is never used again.
    live: Option<(Running, ResourceAny)>,
}

impl HarnessSession for Session {
    fn step(&mut self, inputs: Vec<Input>) -> Result<Vec<Output>, Failure> {
        let Some((mut running, session)) = self.live.take() else {
            return Err(Fault::Ended.effective());
        };
        let budget = self.code.limits.call;
        let parameters = (session, inputs.as_slice());
        match self
            .code
            .call::<_, Stepped>(&mut running, STEP, parameters, budget)
        {
            Ok(stepped) => {
                self.live = Some((running, session));
                stepped
            }
            Err(fault) => Err(fault.effective()),
        }
    }
}

/// A sandbox provider.
pub(crate) struct Sandbox(Code);

impl Sandbox {
    /// Checks every shape of the interface.
    ///
    /// # Errors
    /// The first that is wrong.
    pub(crate) fn new(code: Code) -> Result<Self, CodeError> {
        code.check::<(), (Vec<String>,)>("features")?;
        code.check::<(&Selection,), (Result<ProviderDeclaration, Failure>,)>("describe")?;
        code.check::<(&Selection,), (Health,)>("check")?;
        code.check::<(&Target, CreateKind, &Bootstrap), (Outcome,)>("create")?;
        code.check::<(&Target,), (Outcome,)>("inspect")?;
        code.check::<(&Target, u64), (Outcome,)>("renew")?;
        code.check::<(&Target, &str, bool), (Outcome,)>("suspend")?;
        code.check::<(&Target, &str), (Outcome,)>("resume")?;
        code.check::<(&Target, bool), (Outcome,)>("kill")?;
        code.check::<(&Selection, &str, Option<&str>), (Result<OwnedPage, Failure>,)>(
            "list-owned",
        )?;
        code.check::<(&[Target],), (Result<Vec<Measurement>, Failure>,)>("observe")?;
        Ok(Self(code))
    }

    fn operate<P>(&self, host: &dyn Host, on: &Target, function: &str, parameters: P) -> Outcome
    where
        P: ComponentNamedList + Lower + Send + Sync,
    {
        let budget = Duration::from_millis(on.budget_ms.into());
        self.0
            .lent(host, function, parameters, budget)
            .unwrap_or_else(|fault| fault.outcome())
    }
}

impl SandboxProvider for Sandbox {
    fn features(&self) -> Vec<String> {
        self.0.alone("features", ()).unwrap_or_default()
    }

    fn describe(&self, host: &dyn Host, on: &Selection) -> Result<ProviderDeclaration, Failure> {
        self.0
            .lent(host, "describe", (on,), LOOK)
            .unwrap_or_else(|fault| Err(fault.pure()))
    }

    fn check(&self, host: &dyn Host, on: &Selection) -> Health {
        self.0
            .lent(host, "check", (on,), LOOK)
            .unwrap_or_else(|fault| fault.health())
    }

    fn create(
        &self,
        host: &dyn Host,
        on: &Target,
        kind: CreateKind,
        bootstrap: &Bootstrap,
    ) -> Outcome {
        self.operate(host, on, "create", (on, kind, bootstrap))
    }

    fn inspect(&self, host: &dyn Host, on: &Target) -> Outcome {
        self.operate(host, on, "inspect", (on,))
    }

    fn renew(&self, host: &dyn Host, on: &Target, until_ms: u64) -> Outcome {
        self.operate(host, on, "renew", (on, until_ms))
    }

    fn suspend(&self, host: &dyn Host, on: &Target, operation: &str, warm: bool) -> Outcome {
        self.operate(host, on, "suspend", (on, operation, warm))
    }

    fn resume(&self, host: &dyn Host, on: &Target, operation: &str) -> Outcome {
        self.operate(host, on, "resume", (on, operation))
    }

    fn kill(&self, host: &dyn Host, on: &Target, fence_name: bool) -> Outcome {
        self.operate(host, on, "kill", (on, fence_name))
    }

    fn list_owned(
        &self,
        host: &dyn Host,
        on: &Selection,
        installation: &str,
        cursor: Option<&str>,
    ) -> Result<OwnedPage, Failure> {
        self.0
            .lent(host, "list-owned", (on, installation, cursor), LOOK)
            .unwrap_or_else(|fault| Err(fault.effective()))
    }

    fn observe(&self, host: &dyn Host, on: &[Target]) -> Result<Vec<Measurement>, Failure> {
        self.0
            .lent(host, "observe", (on,), LOOK)
            .unwrap_or_else(|fault| Err(fault.effective()))
    }
}

/// An MCP resolver.
pub(crate) struct Resolver(Code);

type Resolved<Refusal> = Result<Vec<McpBinding>, Refusal>;

impl Resolver {
    /// Checks every shape of the interface.
    ///
    /// # Errors
    /// The first that is wrong.
    pub(crate) fn new(code: Code) -> Result<Self, CodeError> {
        code.check::<(), (Vec<String>,)>("features")?;
        match code.dialect {
            Dialect::Present => {
                code.check::<(&ResolveRequest,), (Resolved<Refusal>,)>("resolve")?
            }
            Dialect::V0_1 => {
                code.check::<(&ResolveRequest,), (Resolved<RefusalV0_1>,)>("resolve")?
            }
        }
        Ok(Self(code))
    }
}

impl McpResolver for Resolver {
    fn features(&self) -> Vec<String> {
        self.0.alone("features", ()).unwrap_or_default()
    }

    fn resolve(&self, request: &ResolveRequest) -> Result<Vec<McpBinding>, Refusal> {
        let resolved = match self.0.dialect {
            Dialect::Present => self.0.alone("resolve", (request,)),
            Dialect::V0_1 => {
                let former = self
                    .0
                    .alone::<_, Resolved<RefusalV0_1>>("resolve", (request,));
                former.map(|resolved| resolved.map_err(Refusal::from))
            }
        };
        resolved.unwrap_or_else(|fault| Err(fault.refusal()))
    }
}
