//! A sandbox provider that breaks as its settings say: `operation` names where, `fault` how. A fault that is not one of
//! `breaking` is a use of the host: `state KEY`, `machine`, `clock`, `http PATH`, `program WORD`. With a `service` it is a
//! provider that is ready while that says so, and that can make nothing.

mod ready;

use breaking::{break_at, large};
use sdk::common::{Effect, Failure, Pair};
use sdk::log::Level;
use sdk::sandbox_types::{
    Bootstrap, CreateKind, Health, Measurement, Outcome, OwnedPage, ProviderDeclaration, Rejection,
    Resources, Selection, Target,
};
use sdk::state::Scope;
use sdk::{Host, SandboxProvider};

/// The provider.
pub struct Faulty;

sdk::sandbox_plugin!(include_str!("../plugin.toml"), || Box::new(Faulty));

fn setting<'a>(settings: &'a [Pair], name: &str) -> &'a str {
    let found = settings.iter().find(|pair| pair.name == name);
    found.map_or("", |pair| pair.value.as_str())
}

/// What the settings say about this operation; the answer is a code of its own.
fn act(host: &dyn Host, operation: &str, settings: &[Pair]) -> String {
    let fault = setting(settings, "fault");
    if setting(settings, "operation") != operation {
        return "fine".to_owned();
    }
    break_at(fault, &|line| host.log().emit(Level::Info, line, &[]));
    if let Some(code) = large(fault) {
        return code;
    }
    match fault.split_once(' ').unwrap_or((fault, "")) {
        ("state", key) => match host.state().put(Scope::Plugin, key, b"escaped") {
            Ok(()) => "stored".to_owned(),
            Err(failure) => failure.code,
        },
        ("clock", _) => host.clock().now_ms().to_string(),
        ("machine", _) => host.machine().probe().problem.unwrap_or_default(),
        ("http", path) => ready::service(host, path),
        ("program", word) => ready::helper(host, word),
        _ => "fine".to_owned(),
    }
}

fn outcome(host: &dyn Host, operation: &str, on: &Target) -> Outcome {
    Outcome::Rejected(Rejection {
        code: act(host, operation, &on.settings),
        remains: None,
    })
}

fn failed(code: String) -> Failure {
    Failure {
        code,
        detail: String::new(),
        effect: Effect::None,
    }
}

impl SandboxProvider for Faulty {
    fn features(&self) -> Vec<String> {
        vec!["faults".to_owned()]
    }

    fn describe(&self, host: &dyn Host, on: &Selection) -> Result<ProviderDeclaration, Failure> {
        if !setting(&on.settings, "service").is_empty() {
            return Ok(ready::declaration());
        }
        Err(failed(act(host, "describe", &on.settings)))
    }

    fn check(&self, host: &dyn Host, on: &Selection) -> Health {
        let code = match setting(&on.settings, "service") {
            "" => Some(act(host, "check", &on.settings)),
            _ => ready::problem(host),
        };
        Health {
            ready: code.is_none(),
            code,
            resolved: Resources {
                cpus: None,
                memory_mib: None,
                root_disk_mib: None,
                environment_disk_mib: None,
            },
            facts: Vec::new(),
        }
    }

    fn create(
        &self,
        host: &dyn Host,
        on: &Target,
        _kind: CreateKind,
        _bootstrap: &Bootstrap,
    ) -> Outcome {
        outcome(host, "create", on)
    }

    fn inspect(&self, host: &dyn Host, on: &Target) -> Outcome {
        outcome(host, "inspect", on)
    }

    fn renew(&self, host: &dyn Host, on: &Target, _until_ms: u64) -> Outcome {
        outcome(host, "renew", on)
    }

    fn suspend(&self, host: &dyn Host, on: &Target, _operation: &str, _warm: bool) -> Outcome {
        outcome(host, "suspend", on)
    }

    fn resume(&self, host: &dyn Host, on: &Target, _operation: &str) -> Outcome {
        outcome(host, "resume", on)
    }

    fn kill(&self, host: &dyn Host, on: &Target, _fence_name: bool) -> Outcome {
        if !setting(&on.settings, "service").is_empty() {
            return ready::gone();
        }
        outcome(host, "kill", on)
    }

    fn list_owned(
        &self,
        host: &dyn Host,
        on: &Selection,
        _installation: &str,
        _cursor: Option<&str>,
    ) -> Result<OwnedPage, Failure> {
        Err(failed(act(host, "list-owned", &on.settings)))
    }

    fn observe(&self, host: &dyn Host, on: &[Target]) -> Result<Vec<Measurement>, Failure> {
        let settings = on.first().map_or(&[][..], |target| &target.settings);
        Err(failed(act(host, "observe", settings)))
    }
}
