//! The capability `machine`: a provider's isolation specification, checked against its manifest, as a sandbox of this
//! machine (LOC-025).

use std::path::PathBuf;
use std::sync::Arc;

use contract::common::{Effect, Failure};
use contract::machine_types as theirs;
use contract::sandbox_types::Allocation;
use domain::provider::AllocationRef;
use machine::sandbox::{
    Identity, Keep, Kind, Limits, Mount, Refusal, Sandboxes, Source, Spec, Status,
};

use super::call::BootstrapFile;
use super::host::failure;
use crate::translate::provider as translate;

/// The machine during one call.
pub(super) struct MachineCall {
    pub(super) sandboxes: Arc<Sandboxes>,
    /// Host paths that the manifest may show.
    pub(super) system: Vec<String>,
    pub(super) bootstrap: Option<BootstrapFile>,
}

impl MachineCall {
    pub(super) fn probe(&self) -> theirs::MachineFacts {
        let facts = self.sandboxes.probe();
        let enforced = [
            ("processes", facts.enforced.processes),
            ("memory", facts.enforced.memory),
            ("cpus", facts.enforced.cpus),
            ("open_files", facts.level.is_some()),
        ];
        theirs::MachineFacts {
            level: facts
                .level
                .map(|level| level.name().to_owned())
                .unwrap_or_default(),
            enforced: enforced
                .iter()
                .filter(|(_, yes)| *yes)
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            problem: facts.problem.map(str::to_owned),
            cpus: facts.cpus,
            memory_mib: facts.memory_mib,
        }
    }

    pub(super) fn start(
        &self,
        present: Option<&AllocationRef>,
        allocation: &Allocation,
        spec: &theirs::MachineSpec,
        kind: theirs::MachineStart,
    ) -> Result<theirs::MachineStatus, theirs::MachineRefusal> {
        let whose = identity(present, allocation)?;
        let spec = self
            .spec(spec)
            .map_err(|code| theirs::MachineRefusal::Refused(code.to_owned()))?;
        let Some(bootstrap) = &self.bootstrap else {
            return Err(theirs::MachineRefusal::Refused("no_bootstrap".to_owned()));
        };
        let kind = match kind {
            theirs::MachineStart::First => Kind::First,
            theirs::MachineStart::Again => Kind::Again,
        };
        let started = self
            .sandboxes
            .start(&whose, &spec, &|seen| bootstrap(seen), kind);
        started.map(|found| status(&found)).map_err(refusal)
    }

    pub(super) fn inspect(
        &self,
        present: Option<&AllocationRef>,
        allocation: &Allocation,
    ) -> Result<theirs::MachineStatus, theirs::MachineRefusal> {
        let found = self.sandboxes.inspect(&identity(present, allocation)?);
        found.map(|found| status(&found)).map_err(refusal)
    }

    pub(super) fn stop(
        &self,
        present: Option<&AllocationRef>,
        allocation: &Allocation,
        keep: theirs::MachineKeep,
    ) -> Result<(), theirs::MachineRefusal> {
        let keep = match keep {
            theirs::MachineKeep::Folders => Keep::Folders,
            theirs::MachineKeep::Nothing => Keep::Nothing,
        };
        self.sandboxes
            .stop(&identity(present, allocation)?, keep)
            .map_err(refusal)
    }

    pub(super) fn owned(
        &self,
        installation: &str,
        cursor: Option<&str>,
    ) -> Result<theirs::MachinePage, Failure> {
        let page = self.sandboxes.owned(installation, cursor);
        let page = page.map_err(|error| Failure {
            detail: error.to_string(),
            ..failure("records_unreadable", Effect::None)
        })?;
        let entries = page
            .entries
            .into_iter()
            .map(|(whose, found)| theirs::MachineEntry {
                allocation: Allocation {
                    installation: whose.installation,
                    tenant: whose.tenant,
                    environment: whose.environment,
                    id: whose.allocation,
                    generation: whose.generation,
                    name: whose.name,
                },
                status: status(&found),
            });
        Ok(theirs::MachinePage {
            entries: entries.collect(),
            next: page.next,
        })
    }

    fn spec(&self, from: &theirs::MachineSpec) -> Result<Spec, &'static str> {
        if from.network_off {
            // LOC-007: the network is the host's.
            return Err("network_policy_unsupported");
        }
        let view = from
            .view
            .iter()
            .map(|mount| self.mount(mount))
            .collect::<Result<_, _>>()?;
        let wide = |value: Option<u32>| value.map(u64::from);
        Ok(Spec {
            view,
            account: from.account.clone(),
            uid: from.uid,
            limits: Limits {
                processes: wide(from.limits.processes),
                memory_mib: wide(from.limits.memory_mib),
                cpus: wide(from.limits.cpus),
                open_files: wide(from.limits.open_files),
            },
            env: from
                .env
                .iter()
                .map(|pair| (pair.name.clone(), pair.value.clone()))
                .collect(),
            bootstrap_path: PathBuf::from(&from.bootstrap_path),
        })
    }

    fn mount(&self, from: &theirs::Mount) -> Result<Mount, &'static str> {
        let source = match &from.source {
            theirs::MountSource::System(path) if !self.system.contains(path) => {
                return Err("system_path_not_granted");
            }
            theirs::MountSource::System(path) => Source::System(PathBuf::from(path)),
            theirs::MountSource::Exposed => Source::Exposed,
            theirs::MountSource::Harnesses => Source::Harnesses,
            theirs::MountSource::Workspace => Source::Workspace,
            theirs::MountSource::Home => Source::Home,
            theirs::MountSource::State => Source::State,
            theirs::MountSource::Scratch(mib) => Source::Scratch(*mib),
            theirs::MountSource::Generated(name) => Source::Generated(name.clone()),
            theirs::MountSource::OwnProgram => Source::OwnProgram,
            theirs::MountSource::Proc => Source::Proc,
            theirs::MountSource::Devices => Source::Devices,
            theirs::MountSource::Other(extra) if extra.kind == "plugins" => Source::Plugins,
            theirs::MountSource::Other(_) => return Err("mount_source_unknown"),
        };
        Ok(Mount {
            inside: PathBuf::from(&from.inside),
            source,
            writable: from.writable,
        })
    }
}

/// The identity of the present call; a plugin cannot name another one (SP-3.2).
fn identity(
    present: Option<&AllocationRef>,
    named: &Allocation,
) -> Result<Identity, theirs::MachineRefusal> {
    let present = present.filter(|present| translate::allocation(present) == *named);
    let Some(present) = present else {
        return Err(theirs::MachineRefusal::Refused(
            "not_the_present_allocation".to_owned(),
        ));
    };
    Ok(Identity {
        installation: named.installation.clone(),
        tenant: named.tenant.clone(),
        session: present.session.to_string(),
        environment: named.environment.clone(),
        allocation: named.id.clone(),
        generation: named.generation,
        name: named.name.clone(),
    })
}

fn status(from: &Status) -> theirs::MachineStatus {
    theirs::MachineStatus {
        running: from.running,
        level: from.level.name().to_owned(),
        started_at_ms: from.started_at_ms,
        bootstrapped: from.bootstrapped,
        restarts: from.restarts,
        memory_bytes: from.memory_bytes,
        cpu_ms: from.cpu_ms,
    }
}

fn refusal(from: Refusal) -> theirs::MachineRefusal {
    match from {
        Refusal::Exists => theirs::MachineRefusal::Exists,
        Refusal::NotFound => theirs::MachineRefusal::NotFound,
        Refusal::NotOurs => theirs::MachineRefusal::NotOurs,
        Refusal::Refused(code) => theirs::MachineRefusal::Refused(code.to_owned()),
        Refusal::Unknown { code, cause } => {
            // Native text stays here (SP-3.7).
            tracing::warn!(code, error = %cause, "a sandbox operation ended without a certain result");
            theirs::MachineRefusal::Unknown(code.to_owned())
        }
    }
}
