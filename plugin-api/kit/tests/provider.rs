//! The suite against an honest provider, and against one flaw at a time: each must be found, by its rule.

use contract::common::{Effect, Failure};
use contract::machine_types::{
    MachineKeep, MachineLimits, MachineRefusal, MachineSpec, MachineStart, MachineStatus,
};
use contract::sandbox_types::*;
use contract::{Host, SandboxProvider};
use kit::provider::{Case, suite};

/// What is wrong with the provider.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    CreatesOnFinish,
    CallsDoubtSuccess,
    CallsDoubtNo,
    ForgetsToRemove,
    InspectRemoves,
    InspectSaysGone,
    ResumesTwice,
    WarmWithoutDeclaring,
    ListsForeign,
}

struct Provider(Flaw);

fn info(status: Option<&MachineStatus>, state: SandboxState) -> SandboxInfo {
    SandboxInfo {
        native_id: None,
        state,
        bootstrap_complete: status.is_some_and(|status| status.bootstrapped),
        create_settled: true,
        lease_until_ms: None,
        operation: None,
        facts: Vec::new(),
    }
}

fn reject(code: &str) -> Outcome {
    Outcome::Rejected(Rejection {
        code: code.into(),
        remains: None,
    })
}

impl Provider {
    fn found(&self, status: &MachineStatus) -> SandboxInfo {
        let state = if status.running {
            SandboxState::Running
        } else {
            SandboxState::Stopped
        };
        info(Some(status), state)
    }

    fn refusal(&self, host: &dyn Host, on: &Target, refusal: MachineRefusal) -> Outcome {
        match refusal {
            MachineRefusal::Exists => match host.machine().inspect(&on.allocation) {
                Ok(status) => Outcome::Exists(self.found(&status)),
                Err(_) => Outcome::Unknown(Doubt {
                    code: "machine_lost".into(),
                    evidence: None,
                }),
            },
            MachineRefusal::NotFound => Outcome::NotFound,
            MachineRefusal::NotOurs => Outcome::NotOurs,
            MachineRefusal::Refused(code) => reject(&code),
            MachineRefusal::Unknown(_) if self.0 == Flaw::CallsDoubtSuccess => {
                Outcome::Done(info(None, SandboxState::Running))
            }
            MachineRefusal::Unknown(code) if self.0 == Flaw::CallsDoubtNo => reject(&code),
            MachineRefusal::Unknown(code) => Outcome::Unknown(Doubt {
                code,
                evidence: None,
            }),
        }
    }
}

fn spec() -> MachineSpec {
    MachineSpec {
        view: Vec::new(),
        account: "agent".into(),
        uid: 1000,
        network_off: false,
        limits: MachineLimits {
            processes: None,
            memory_mib: None,
            cpus: None,
            open_files: None,
        },
        env: Vec::new(),
        bootstrap_path: "/state/bootstrap.json".into(),
    }
}

impl SandboxProvider for Provider {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, host: &dyn Host, _on: &Selection) -> Result<ProviderDeclaration, Failure> {
        host.machine().probe();
        Ok(ProviderDeclaration {
            id: "honest".into(),
            display_name: "Honest".into(),
            abilities: ProviderAbilities {
                suspend_cold: true,
                suspend_warm: false,
                observe: false,
                settle_by_expiry: false,
                settle_by_name: false,
                finish_bootstrap: true,
                network_disabled: true,
                network_restricted: false,
                system_packages: false,
                public_core_url: false,
            },
            resources: ResourceSupport {
                cpus: ResourceUse::Applied,
                memory: ResourceUse::Applied,
                root_disk: ResourceUse::Refused,
                environment_disk: ResourceUse::Refused,
            },
            sizes: Vec::new(),
            images: Vec::new(),
            longest_lease_ms: None,
            ephemeral_workspace_s: None,
            workspace_limit_bytes: None,
            artifact_session_limit_bytes: None,
            max_active: 4,
            max_retained: 8,
            facts: Vec::new(),
            more: Vec::new(),
        })
    }

    fn check(&self, host: &dyn Host, on: &Selection) -> Health {
        let ready = host.machine().probe().problem.is_none();
        let code = (!ready).then(|| "no_isolation".to_owned());
        Health {
            ready,
            code,
            resolved: on.resources.clone(),
            facts: Vec::new(),
        }
    }

    fn create(&self, host: &dyn Host, on: &Target, kind: CreateKind, _: &Bootstrap) -> Outcome {
        let started = match kind {
            CreateKind::Finish if self.0 != Flaw::CreatesOnFinish => {
                host.machine().inspect(&on.allocation)
            }
            _ => host
                .machine()
                .start(&on.allocation, &spec(), MachineStart::First),
        };
        match started {
            Ok(status) => Outcome::Done(self.found(&status)),
            Err(refusal) => self.refusal(host, on, refusal),
        }
    }

    fn inspect(&self, host: &dyn Host, on: &Target) -> Outcome {
        if self.0 == Flaw::InspectRemoves {
            let _ = host.machine().stop(&on.allocation, MachineKeep::Folders);
        }
        match host.machine().inspect(&on.allocation) {
            Ok(status) => Outcome::Done(self.found(&status)),
            Err(MachineRefusal::NotFound) if self.0 == Flaw::InspectSaysGone => {
                Outcome::Done(info(None, SandboxState::Gone))
            }
            Err(refusal) => self.refusal(host, on, refusal),
        }
    }

    fn renew(&self, host: &dyn Host, on: &Target, _until_ms: u64) -> Outcome {
        self.inspect(host, on)
    }

    fn suspend(&self, host: &dyn Host, on: &Target, _operation: &str, warm: bool) -> Outcome {
        if warm && self.0 != Flaw::WarmWithoutDeclaring {
            return reject("unsupported_operation");
        }
        match host.machine().stop(&on.allocation, MachineKeep::Folders) {
            Ok(()) => Outcome::Done(info(None, SandboxState::Suspended)),
            Err(refusal) => self.refusal(host, on, refusal),
        }
    }

    fn resume(&self, host: &dyn Host, on: &Target, _operation: &str) -> Outcome {
        let found = host.machine().inspect(&on.allocation);
        if let Ok(status) = &found
            && status.running
            && self.0 != Flaw::ResumesTwice
        {
            return Outcome::Done(self.found(status));
        }
        let started = found.and_then(|_| {
            host.machine()
                .start(&on.allocation, &spec(), MachineStart::Again)
        });
        match started {
            Ok(status) => Outcome::Done(self.found(&status)),
            Err(refusal) => self.refusal(host, on, refusal),
        }
    }

    fn kill(&self, host: &dyn Host, on: &Target, fence_name: bool) -> Outcome {
        if fence_name {
            return reject("unsupported_operation");
        }
        let keep = match self.0 {
            Flaw::ForgetsToRemove => MachineKeep::Folders,
            _ => MachineKeep::Nothing,
        };
        match host.machine().stop(&on.allocation, keep) {
            Ok(()) => Outcome::Done(info(None, SandboxState::Gone)),
            Err(refusal) => self.refusal(host, on, refusal),
        }
    }

    fn list_owned(
        &self,
        host: &dyn Host,
        _on: &Selection,
        installation: &str,
        cursor: Option<&str>,
    ) -> Result<OwnedPage, Failure> {
        let mut entries = host.machine().owned(installation, cursor)?.entries;
        if self.0 == Flaw::ListsForeign {
            entries.extend(
                host.machine()
                    .owned(&format!("{installation}-other"), cursor)?
                    .entries,
            );
        }
        let owned = |entry: contract::machine_types::MachineEntry| Owned {
            native_id: entry.allocation.name.clone(),
            allocation: Some(entry.allocation),
            state: SandboxState::Running,
            created_at_ms: None,
        };
        Ok(OwnedPage {
            entries: entries.into_iter().map(owned).collect(),
            next: None,
        })
    }

    fn observe(&self, _host: &dyn Host, _on: &[Target]) -> Result<Vec<Measurement>, Failure> {
        Err(Failure {
            code: "unsupported_operation".into(),
            detail: String::new(),
            effect: Effect::None,
        })
    }
}

fn case() -> Case {
    Case::plain(Vec::new())
}

#[test]
fn an_honest_provider_passes() {
    assert_eq!(suite(&Provider(Flaw::None), &case()), Ok(()));
}

#[test]
fn every_flaw_is_found_by_its_rule() {
    let flaws = [
        (Flaw::CreatesOnFinish, "SP-5.8"),
        (Flaw::CallsDoubtSuccess, "SP-4.5"),
        (Flaw::CallsDoubtNo, "SP-4.5"),
        (Flaw::ForgetsToRemove, "SP-9.4"),
        (Flaw::InspectRemoves, "SP-3.8"),
        (Flaw::InspectSaysGone, "SP-4.5"),
        (Flaw::ResumesTwice, "SP-6.3"),
        (Flaw::WarmWithoutDeclaring, "SP-3.1"),
        (Flaw::ListsForeign, "SP-9.8"),
    ];
    for (flaw, rule) in flaws {
        let found = suite(&Provider(flaw), &case()).unwrap_err();
        assert_eq!(found.rule, rule, "{found}");
    }
}
