//! A machine without processes: records only, and faults on command.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::Machine;
use contract::common::Failure;
use contract::machine_types::{
    MachineEntry, MachineFacts, MachineKeep, MachinePage, MachineRefusal, MachineSpec,
    MachineStart, MachineStatus,
};
use contract::sandbox_types::Allocation;

/// What goes wrong in the next changing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A settled no: nothing happened.
    Refused,
    /// Nothing happened, and nobody can tell.
    LostBefore,
    /// It happened, and the answer was lost.
    LostAfter,
}

/// One call, as the machine saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineCall {
    /// `probe`.
    Probe,
    /// `start` of this kind.
    Start(MachineStart),
    /// `inspect`.
    Inspect,
    /// `stop`, keeping this.
    Stop(MachineKeep),
    /// `owned`.
    Owned,
}

impl MachineCall {
    /// Whether it changes something.
    #[must_use]
    pub fn changes(self) -> bool {
        matches!(self, Self::Start(_) | Self::Stop(_))
    }
}

#[derive(Default)]
struct State {
    records: BTreeMap<String, MachineEntry>,
    faults: VecDeque<Fault>,
    calls: Vec<MachineCall>,
}

/// The fake; cheap to make, one for each check.
#[derive(Default)]
pub struct FakeMachine(Mutex<State>);

impl FakeMachine {
    /// The next changing call goes wrong.
    pub fn fail_next(&self, fault: Fault) {
        self.state().faults.push_back(fault);
    }

    /// Puts a record there that nobody started through this machine.
    pub fn plant(&self, allocation: Allocation, running: bool) {
        let entry = MachineEntry {
            status: status(running),
            allocation,
        };
        self.state()
            .records
            .insert(entry.allocation.id.clone(), entry);
    }

    /// All records.
    #[must_use]
    pub fn records(&self) -> Vec<MachineEntry> {
        self.state().records.values().cloned().collect()
    }

    /// All calls since the last time this was asked.
    pub fn take_calls(&self) -> Vec<MachineCall> {
        std::mem::take(&mut self.state().calls)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Performs a change through its fault.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, MachineRefusal>,
    ) -> Result<T, MachineRefusal> {
        match self.faults.pop_front() {
            None => change(self),
            Some(Fault::Refused) => Err(MachineRefusal::Refused("machine_refused".into())),
            Some(Fault::LostBefore) => Err(MachineRefusal::Unknown("machine_lost".into())),
            Some(Fault::LostAfter) => {
                change(self)?;
                Err(MachineRefusal::Unknown("machine_lost".into()))
            }
        }
    }

    fn own(&mut self, allocation: &Allocation) -> Result<&mut MachineEntry, MachineRefusal> {
        let entry = self
            .records
            .get_mut(&allocation.id)
            .ok_or(MachineRefusal::NotFound)?;
        if entry.allocation == *allocation {
            Ok(entry)
        } else {
            Err(MachineRefusal::NotOurs)
        }
    }
}

fn status(running: bool) -> MachineStatus {
    MachineStatus {
        running,
        level: "namespaces".into(),
        started_at_ms: 1_000,
        bootstrapped: running,
        restarts: 0,
        memory_bytes: running.then_some(4096),
        cpu_ms: running.then_some(10),
    }
}

impl Machine for FakeMachine {
    fn probe(&self) -> MachineFacts {
        self.state().calls.push(MachineCall::Probe);
        MachineFacts {
            level: "namespaces".into(),
            enforced: ["processes", "memory", "cpus", "open_files"]
                .map(String::from)
                .into(),
            problem: None,
            cpus: 4,
            memory_mib: 8192,
        }
    }

    fn start(
        &self,
        allocation: &Allocation,
        _spec: &MachineSpec,
        kind: MachineStart,
    ) -> Result<MachineStatus, MachineRefusal> {
        let mut state = self.state();
        state.calls.push(MachineCall::Start(kind));
        state.change(|state| match (state.own(allocation), kind) {
            (Err(MachineRefusal::NotFound), MachineStart::First) => {
                let entry = MachineEntry {
                    allocation: allocation.clone(),
                    status: status(true),
                };
                state.records.insert(allocation.id.clone(), entry);
                Ok(status(true))
            }
            (Ok(_), MachineStart::First) => Err(MachineRefusal::Exists),
            (Ok(entry), MachineStart::Again) => {
                entry.status = status(true);
                Ok(status(true))
            }
            (Err(refusal), _) => Err(refusal),
        })
    }

    fn inspect(&self, allocation: &Allocation) -> Result<MachineStatus, MachineRefusal> {
        let mut state = self.state();
        state.calls.push(MachineCall::Inspect);
        state.own(allocation).map(|entry| entry.status.clone())
    }

    fn stop(&self, allocation: &Allocation, keep: MachineKeep) -> Result<(), MachineRefusal> {
        let mut state = self.state();
        state.calls.push(MachineCall::Stop(keep));
        state.change(|state| {
            state.own(allocation)?.status = status(false);
            if keep == MachineKeep::Nothing {
                state.records.remove(&allocation.id);
            }
            Ok(())
        })
    }

    fn owned(&self, installation: &str, _cursor: Option<&str>) -> Result<MachinePage, Failure> {
        let mut state = self.state();
        state.calls.push(MachineCall::Owned);
        let entries = state.records.values();
        let ours = entries.filter(|entry| entry.allocation.installation == installation);
        Ok(MachinePage {
            entries: ours.cloned().collect(),
            next: None,
        })
    }
}
