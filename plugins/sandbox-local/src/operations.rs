//! The operations on one allocation, each one call of the machine (LOC-022, LOC-023).

use sdk::Machine;
use sdk::common::{Failure, Pair};
use sdk::machine_types::{MachineKeep, MachineRefusal, MachineStart, MachineStatus};
use sdk::sandbox_types::{
    Allocation, Bootstrap, CreateKind, Doubt, Measurement, NetworkPolicy, Outcome, Owned,
    OwnedPage, Rejection, SandboxInfo, SandboxState, Target,
};

use crate::{declare, view};

fn fact(name: &str, value: String) -> Pair {
    Pair {
        name: name.to_owned(),
        value,
    }
}

fn info(allocation: &Allocation, status: &MachineStatus) -> SandboxInfo {
    SandboxInfo {
        native_id: Some(allocation.name.clone()),
        state: if status.running {
            SandboxState::Running
        } else {
            SandboxState::Stopped
        },
        bootstrap_complete: status.running && status.bootstrapped,
        // The machine answers when it is done, and a Core that died took its create with it.
        create_settled: true,
        lease_until_ms: None,
        operation: None,
        facts: vec![
            fact("isolation", status.level.clone()),
            fact("restarts", status.restarts.to_string()),
        ],
    }
}

fn gone(allocation: &Allocation) -> Outcome {
    Outcome::Done(SandboxInfo {
        native_id: Some(allocation.name.clone()),
        state: SandboxState::Gone,
        bootstrap_complete: false,
        create_settled: true,
        lease_until_ms: None,
        operation: None,
        facts: Vec::new(),
    })
}

fn rejected(code: impl Into<String>) -> Outcome {
    Outcome::Rejected(Rejection {
        code: code.into(),
        remains: None,
    })
}

pub(crate) fn unsupported() -> Outcome {
    rejected("unsupported_operation")
}

/// Asks the machine what is there, after an answer that does not say it.
fn evidence(machine: &dyn Machine, on: &Target) -> Option<SandboxInfo> {
    machine
        .inspect(&on.allocation)
        .ok()
        .map(|status| info(&on.allocation, &status))
}

fn refused(machine: &dyn Machine, on: &Target, refusal: MachineRefusal) -> Outcome {
    match refusal {
        MachineRefusal::Exists => match evidence(machine, on) {
            Some(found) => Outcome::Exists(found),
            None => Outcome::Unknown(Doubt {
                code: "exists_unseen".to_owned(),
                evidence: None,
            }),
        },
        MachineRefusal::NotFound => Outcome::NotFound,
        MachineRefusal::NotOurs => Outcome::NotOurs,
        MachineRefusal::Refused(code) => rejected(code),
        MachineRefusal::Unknown(code) => Outcome::Unknown(Doubt {
            code,
            evidence: evidence(machine, on),
        }),
    }
}

pub(crate) fn create(
    machine: &dyn Machine,
    on: &Target,
    kind: CreateKind,
    bootstrap: &Bootstrap,
) -> Outcome {
    if let Some(code) = impossible(machine, on) {
        return rejected(code);
    }
    let start = match kind {
        CreateKind::New => MachineStart::First,
        CreateKind::Finish => match machine.inspect(&on.allocation) {
            Ok(status) if status.running && status.bootstrapped => {
                return Outcome::Done(info(&on.allocation, &status));
            }
            Ok(_) => MachineStart::Again,
            // Nothing is made that is not there (SP-6.3).
            Err(refusal) => return refused(machine, on, refusal),
        },
    };
    match machine.start(
        &on.allocation,
        &view::spec(&on.spec.resources, bootstrap),
        start,
    ) {
        Ok(status) => Outcome::Done(info(&on.allocation, &status)),
        Err(refusal) => refused(machine, on, refusal),
    }
}

/// Members of a specification that this provider declared it does not have.
fn impossible(machine: &dyn Machine, on: &Target) -> Option<&'static str> {
    let spec = &on.spec;
    match spec.network {
        NetworkPolicy::Enabled => {}
        // LOC-007
        NetworkPolicy::Disabled | NetworkPolicy::Restricted(_) | NetworkPolicy::Other(_) => {
            return Some("network_policy_unsupported");
        }
    }
    if spec.size.is_some() {
        return Some("size_mismatch");
    }
    if spec.image.is_some() {
        return Some("image_mismatch");
    }
    if !spec.system_packages.is_empty() {
        return Some("system_packages_unsupported");
    }
    if spec.lease_ms.is_some() {
        return Some("lease_unsupported");
    }
    let wishes = spec.resources.cpus.or(spec.resources.memory_mib);
    let disks = spec
        .resources
        .root_disk_mib
        .or(spec.resources.environment_disk_mib);
    wishes
        .or(disks)
        .and_then(|_| declare::unusable(&machine.probe(), &spec.resources))
}

pub(crate) fn inspect(machine: &dyn Machine, on: &Target) -> Outcome {
    match machine.inspect(&on.allocation) {
        Ok(status) => Outcome::Done(info(&on.allocation, &status)),
        Err(refusal) => refused(machine, on, refusal),
    }
}

/// The name needs no fence: a create of this machine ends before its call does, or with the Core that made it.
pub(crate) fn kill(machine: &dyn Machine, on: &Target) -> Outcome {
    match machine.stop(&on.allocation, MachineKeep::Nothing) {
        Ok(()) | Err(MachineRefusal::NotFound) => gone(&on.allocation),
        Err(refusal) => refused(machine, on, refusal),
    }
}

pub(crate) fn list_owned(
    machine: &dyn Machine,
    installation: &str,
    cursor: Option<&str>,
) -> Result<OwnedPage, Failure> {
    let page = machine.owned(installation, cursor)?;
    let entries = page.entries.into_iter().map(|entry| Owned {
        native_id: entry.allocation.name.clone(),
        state: if entry.status.running {
            SandboxState::Running
        } else {
            SandboxState::Stopped
        },
        created_at_ms: Some(entry.status.started_at_ms).filter(|started| *started > 0),
        allocation: Some(entry.allocation),
    });
    Ok(OwnedPage {
        entries: entries.collect(),
        next: page.next,
    })
}

/// Only what is there is measured; a share of a processor needs two looks and is left to the reader (SP-12.4).
pub(crate) fn observe(machine: &dyn Machine, on: &[Target]) -> Vec<Measurement> {
    on.iter()
        .filter_map(|target| {
            let status = machine.inspect(&target.allocation).ok()?;
            Some(Measurement {
                allocation: target.allocation.clone(),
                cpu_milli: None,
                memory_bytes: status.memory_bytes,
                disk_bytes: None,
            })
        })
        .collect()
}
