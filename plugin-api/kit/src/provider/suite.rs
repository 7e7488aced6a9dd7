//! The discipline of the six results, for providers over the capability `machine`.

use contract::SandboxProvider;
use contract::common::Pair;
use contract::host_types::ArtifactRef;
use contract::machine_types::MachineStart;
use contract::sandbox_types::{
    Allocation, Bootstrap, CreateKind, NetworkPolicy, Outcome, ProviderDeclaration, Resources,
    SandboxSpec, SandboxState, Selection, Target,
};

use super::fake_host::FakeHost;
use super::machine::{Fault, MachineCall};
use super::outcome::{done, rejected, unknown, unsupported, well_formed};
use crate::{Result, broken, ensure};

/// What the provider is asked about.
#[derive(Debug, Clone)]
pub struct Case {
    /// Valid settings.
    pub selection: Selection,
    /// An allocation under them.
    pub target: Target,
    /// Its bootstrap.
    pub bootstrap: Bootstrap,
}

impl Case {
    /// An allocation that asks for nothing special, under these settings.
    #[must_use]
    pub fn plain(settings: Vec<Pair>) -> Self {
        let resources = Resources {
            cpus: None,
            memory_mib: None,
            root_disk_mib: None,
            environment_disk_mib: None,
        };
        let text = String::from;
        Self {
            selection: Selection {
                settings: settings.clone(),
                resources: resources.clone(),
                host_features: Vec::new(),
            },
            target: Target {
                allocation: Allocation {
                    installation: text("installation"),
                    tenant: text("tenant"),
                    environment: text("environment"),
                    id: text("allocation"),
                    generation: 1,
                    name: text("berth-allocation"),
                },
                settings,
                spec: SandboxSpec {
                    resources,
                    size: None,
                    image: None,
                    network: NetworkPolicy::Enabled,
                    system_packages: Vec::new(),
                    lease_ms: None,
                    more: Vec::new(),
                },
                native_id: None,
                budget_ms: 60_000,
            },
            bootstrap: Bootstrap {
                path: text("/state/bootstrap.json"),
                program: text("/usr/bin/berth"),
                args: vec![text("daemon"), text("/state/bootstrap.json")],
                artifact: ArtifactRef {
                    name: text("berth-runtime"),
                    os: text("linux"),
                    arch: text("x86_64"),
                },
                account: text("agent"),
                uid: 1000,
                core_url: text("http://127.0.0.1:8080"),
            },
        }
    }
}

/// One check's host and the calls it makes.
struct Stage<'a> {
    provider: &'a dyn SandboxProvider,
    case: &'a Case,
    host: FakeHost,
}

/// All checks, each on a fresh host.
///
/// # Errors
/// The first rule that is broken.
pub fn suite(provider: &dyn SandboxProvider, case: &Case) -> Result {
    let stage = || Stage {
        provider,
        case,
        host: FakeHost::default(),
    };
    let declaration = stage().describe()?;
    stage().check()?;
    stage().create_once()?;
    stage().finish_creates_nothing()?;
    stage().inspect_only_reads(&declaration)?;
    stage().foreign_is_untouched()?;
    stage().removal_is_confirmed(&declaration)?;
    stage().doubt_is_not_success()?;
    stage().refusal_leaves_nothing()?;
    stage().suspension(&declaration)?;
    stage().listing()
}

impl Stage<'_> {
    fn describe(&self) -> Result<ProviderDeclaration> {
        let describe = || match self.provider.describe(&self.host, &self.case.selection) {
            Ok(declaration) => Ok(declaration),
            Err(failure) => broken("SP-2.3", format!("describe failed with {}", failure.code)),
        };
        let declaration = describe()?;
        ensure(declaration == describe()?, "SP-2.3", || {
            "two descriptions differ".into()
        })?;
        let calls = self.host.machine.take_calls();
        ensure(
            calls.iter().all(|call| *call == MachineCall::Probe),
            "SP-2.3",
            || format!("describe called {calls:?}"),
        )?;
        let id = declaration.id.as_str();
        let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        ensure(
            (1..=32).contains(&id.len()) && id.bytes().all(valid),
            "SP-3.1",
            || format!("{id:?} is no provider id"),
        )?;
        Ok(declaration)
    }

    fn check(&self) -> Result {
        let health = self.provider.check(&self.host, &self.case.selection);
        self.only_read("SP-12.1")?;
        ensure(health.ready == health.code.is_none(), "SP-12.1", || {
            format!("ready {} with code {:?}", health.ready, health.code)
        })
    }

    fn create_once(&self) -> Result {
        self.running()?;
        let again = self.create(CreateKind::New)?;
        ensure(matches!(again, Outcome::Exists(_)), "SP-4.3", || {
            format!("a second create answered {again:?}")
        })?;
        let finish = self.create(CreateKind::Finish)?;
        done(&finish, "SP-5.8")?;
        let records = self.host.machine.records();
        ensure(records.len() == 1, "SP-4.3", || {
            format!("{} sandboxes", records.len())
        })
    }

    fn finish_creates_nothing(&self) -> Result {
        let outcome = self.create(CreateKind::Finish)?;
        ensure(outcome == Outcome::NotFound, "SP-5.8", || {
            format!("finishing nothing answered {outcome:?}")
        })?;
        let started = self.host.machine.take_calls();
        ensure(
            !started.contains(&MachineCall::Start(MachineStart::First)),
            "SP-5.8",
            || "finishing tried to create".into(),
        )?;
        ensure(self.host.machine.records().is_empty(), "SP-5.8", || {
            "finishing created".into()
        })
    }

    fn inspect_only_reads(&self, declaration: &ProviderDeclaration) -> Result {
        let absent = self.inspect()?;
        ensure(absent == Outcome::NotFound, "SP-4.5", || {
            format!("absent answered {absent:?}")
        })?;
        self.running()?;
        self.host.machine.take_calls();
        let info = self.inspect()?;
        let info = done(&info, "SP-3.8")?;
        ensure(info.create_settled, "SP-3.8", || {
            "a running sandbox may still change".into()
        })?;
        let renewed = self.provider.renew(&self.host, &self.case.target, u64::MAX);
        well_formed(&renewed, false)?;
        if declaration.longest_lease_ms.is_none() {
            self.only_read("SP-7.3")?;
        }
        Ok(())
    }

    fn foreign_is_untouched(&self) -> Result {
        let mut foreign = self.case.target.allocation.clone();
        foreign.tenant.push_str("-other");
        self.host.machine.plant(foreign, true);
        let before = self.host.machine.records();
        let answers = [
            self.create(CreateKind::New)?,
            self.inspect()?,
            self.provider
                .suspend(&self.host, &self.case.target, "op", false),
            self.provider.resume(&self.host, &self.case.target, "op"),
            self.kill(false)?,
        ];
        for answer in answers {
            let no = matches!(answer, Outcome::NotOurs | Outcome::Rejected(_));
            ensure(no, "SP-3.3", || {
                format!("a foreign sandbox answered {answer:?}")
            })?;
        }
        ensure(self.host.machine.records() == before, "SP-3.3", || {
            "it was touched".into()
        })
    }

    fn removal_is_confirmed(&self, declaration: &ProviderDeclaration) -> Result {
        self.running()?;
        let info = self.kill(false)?;
        let info = done(&info, "SP-9.4")?;
        ensure(info.state == SandboxState::Gone, "SP-9.4", || {
            format!("state {:?}", info.state)
        })?;
        ensure(self.host.machine.records().is_empty(), "SP-9.4", || {
            "something is left".into()
        })?;
        let again = self.kill(false)?;
        let settled = matches!(again, Outcome::NotFound | Outcome::Done(_));
        ensure(settled, "SP-9.4", || {
            format!("killing nothing answered {again:?}")
        })?;
        self.host.machine.take_calls();
        if !declaration.abilities.settle_by_name {
            unsupported(&self.kill(true)?)?;
            self.only_read("SP-3.1")?;
        }
        Ok(())
    }

    fn doubt_is_not_success(&self) -> Result {
        self.host.machine.fail_next(Fault::LostBefore);
        unknown(&self.create(CreateKind::New)?, "SP-4.5")?;
        self.host.machine.fail_next(Fault::LostAfter);
        unknown(&self.create(CreateKind::New)?, "SP-4.7")?;
        done(&self.inspect()?, "SP-3.8")?;
        self.host.machine.fail_next(Fault::LostAfter);
        unknown(&self.kill(false)?, "SP-9.4")
    }

    fn refusal_leaves_nothing(&self) -> Result {
        self.host.machine.fail_next(Fault::Refused);
        rejected(&self.create(CreateKind::New)?, "SP-3.6")?;
        self.running()?;
        self.host.machine.fail_next(Fault::Refused);
        let kept = self.kill(false)?;
        ensure(
            !matches!(kept, Outcome::Done(_) | Outcome::NotFound),
            "SP-9.4",
            || format!("a refused removal answered {kept:?}"),
        )
    }

    fn suspension(&self, declaration: &ProviderDeclaration) -> Result {
        self.running()?;
        self.host.machine.take_calls();
        let abilities = &declaration.abilities;
        for (warm, offered) in [
            (true, abilities.suspend_warm),
            (false, abilities.suspend_cold),
        ] {
            let suspended = self.suspend(warm)?;
            if !offered {
                unsupported(&suspended)?;
                self.only_read("SP-3.1")?;
                continue;
            }
            let info = done(&suspended, "SP-8.3")?;
            let still = matches!(info.state, SandboxState::Suspended | SandboxState::Stopped);
            ensure(still, "SP-8.3", || format!("suspended is {:?}", info.state))?;
            self.resume_once()?;
        }
        if !abilities.suspend_warm && !abilities.suspend_cold {
            unsupported(&self.resume()?)?;
            self.only_read("SP-3.1")?;
        }
        Ok(())
    }

    fn resume_once(&self) -> Result {
        done(&self.resume()?, "SP-8.9")?;
        self.host.machine.take_calls();
        let again = self.resume()?;
        well_formed(&again, false)?;
        let calls = self.host.machine.take_calls();
        let started = calls
            .iter()
            .any(|call| matches!(call, MachineCall::Start(_)));
        ensure(!started, "SP-6.3", || "one resume started twice".into())
    }

    fn listing(&self) -> Result {
        self.running()?;
        let mut foreign = self.case.target.allocation.clone();
        foreign.id.push_str("-2");
        foreign.installation.push_str("-other");
        self.host.machine.plant(foreign, true);
        self.host.machine.take_calls();
        let ours = &self.case.target.allocation;
        let page = self
            .provider
            .list_owned(&self.host, &self.case.selection, &ours.installation, None)
            .or_else(|failure| broken("SP-9.8", failure.code))?;
        let listed: Vec<_> = page
            .entries
            .iter()
            .map(|entry| entry.allocation.as_ref())
            .collect();
        ensure(listed == [Some(ours)], "SP-9.8", || {
            format!("listed {listed:?}")
        })?;
        if let Ok(measured) = self
            .provider
            .observe(&self.host, std::slice::from_ref(&self.case.target))
        {
            ensure(
                measured.iter().all(|x| x.allocation == *ours),
                "SP-12.4",
                || "a measurement of something else".into(),
            )?;
        }
        self.only_read("SP-12.4")
    }

    fn running(&self) -> Result {
        let created = self.create(CreateKind::New)?;
        let info = done(&created, "SP-4.3")?;
        let runs = matches!(info.state, SandboxState::Starting | SandboxState::Running);
        ensure(runs, "SP-3.8", || {
            format!("a new sandbox is {:?}", info.state)
        })
    }

    fn create(&self, kind: CreateKind) -> Result<Outcome> {
        let case = self.case;
        let outcome = self
            .provider
            .create(&self.host, &case.target, kind, &case.bootstrap);
        well_formed(&outcome, false)?;
        Ok(outcome)
    }

    fn inspect(&self) -> Result<Outcome> {
        self.host.machine.take_calls();
        let outcome = self.provider.inspect(&self.host, &self.case.target);
        self.only_read("SP-3.8")?;
        well_formed(&outcome, false)?;
        Ok(outcome)
    }

    fn suspend(&self, warm: bool) -> Result<Outcome> {
        let outcome = self
            .provider
            .suspend(&self.host, &self.case.target, "op-suspend", warm);
        well_formed(&outcome, false)?;
        Ok(outcome)
    }

    fn resume(&self) -> Result<Outcome> {
        let outcome = self
            .provider
            .resume(&self.host, &self.case.target, "op-resume");
        well_formed(&outcome, false)?;
        Ok(outcome)
    }

    fn kill(&self, fence_name: bool) -> Result<Outcome> {
        let outcome = self
            .provider
            .kill(&self.host, &self.case.target, fence_name);
        well_formed(&outcome, true)?;
        Ok(outcome)
    }

    /// Nothing was changed since the calls were last taken.
    fn only_read(&self, rule: &'static str) -> Result {
        let calls = self.host.machine.take_calls();
        ensure(!calls.iter().any(|call| call.changes()), rule, || {
            format!("it called {calls:?}")
        })
    }
}
