use std::sync::Mutex;

use sdk::common::{Effect, Failure, Pair};
use sdk::host_types::ArtifactRef;
use sdk::machine_types::{
    MachineEntry, MachineFacts, MachineKeep, MachinePage, MachineRefusal, MachineSpec,
    MachineStart, MachineStatus, MountSource,
};
use sdk::sandbox_types::{
    Allocation, AllowedHosts, Bootstrap, CreateKind, NetworkPolicy, Outcome, ResourceUse,
    Resources, SandboxSpec, SandboxState, Selection, Target,
};
use sdk::{Clock, Host, Http, Log, Machine, Program, Random, SandboxProvider, State};

use crate::{Local, view};

type Answer<T> = Result<T, MachineRefusal>;

/// A machine that answers what it is told and writes down what it was asked. Nothing else of the host may be used.
struct Fake {
    facts: MachineFacts,
    starts: Mutex<Vec<Answer<MachineStatus>>>,
    inspects: Mutex<Vec<Answer<MachineStatus>>>,
    stops: Mutex<Vec<Answer<()>>>,
    asked: Mutex<Vec<String>>,
}

fn facts(enforced: &[&str]) -> MachineFacts {
    MachineFacts {
        level: "namespaces".into(),
        enforced: enforced.iter().map(|name| (*name).to_owned()).collect(),
        problem: None,
        cpus: 4,
        memory_mib: 8192,
    }
}

fn fake() -> Fake {
    Fake {
        facts: facts(&["processes", "memory", "cpus", "open_files"]),
        starts: Mutex::default(),
        inspects: Mutex::default(),
        stops: Mutex::default(),
        asked: Mutex::default(),
    }
}

impl Fake {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

fn next<T>(answers: &Mutex<Vec<T>>) -> T {
    answers.lock().unwrap().remove(0)
}

impl Machine for Fake {
    fn probe(&self) -> MachineFacts {
        self.facts.clone()
    }
    fn start(&self, _: &Allocation, _: &MachineSpec, kind: MachineStart) -> Answer<MachineStatus> {
        self.note(format!("start {kind:?}"));
        next(&self.starts)
    }
    fn inspect(&self, _: &Allocation) -> Answer<MachineStatus> {
        self.note("inspect".into());
        next(&self.inspects)
    }
    fn stop(&self, _: &Allocation, keep: MachineKeep) -> Answer<()> {
        self.note(format!("stop {keep:?}"));
        next(&self.stops)
    }
    fn owned(&self, installation: &str, cursor: Option<&str>) -> Result<MachinePage, Failure> {
        self.note(format!("owned {installation} {cursor:?}"));
        let entries = vec![MachineEntry {
            allocation: allocation(),
            status: status(true),
        }];
        Ok(MachinePage {
            entries,
            next: Some("more".into()),
        })
    }
}

macro_rules! forbidden {
    ($($capability:ident: $trait:ident),*) => {
        impl Host for Fake {
            fn machine(&self) -> &dyn Machine {
                self
            }
            $(fn $capability(&self) -> &dyn $trait {
                panic!(concat!("local asked for ", stringify!($capability)))
            })*
        }
    };
}
forbidden!(log: Log, clock: Clock, random: Random, state: State, http: Http, program: Program);

fn allocation() -> Allocation {
    Allocation {
        installation: "i".into(),
        tenant: "t".into(),
        environment: "e".into(),
        id: "a".into(),
        generation: 1,
        name: "berth-a".into(),
    }
}

fn status(running: bool) -> MachineStatus {
    MachineStatus {
        running,
        level: "namespaces".into(),
        started_at_ms: 7,
        bootstrapped: running,
        restarts: 2,
        memory_bytes: Some(5),
        cpu_ms: Some(6),
    }
}

fn none() -> Resources {
    Resources {
        cpus: None,
        memory_mib: None,
        root_disk_mib: None,
        environment_disk_mib: None,
    }
}

fn target() -> Target {
    Target {
        allocation: allocation(),
        settings: Vec::new(),
        spec: SandboxSpec {
            resources: none(),
            size: None,
            image: None,
            network: NetworkPolicy::Enabled,
            system_packages: Vec::new(),
            lease_ms: None,
            more: Vec::new(),
        },
        native_id: None,
        budget_ms: 1000,
    }
}

fn bootstrap() -> Bootstrap {
    Bootstrap {
        path: "/berth/bootstrap.json".into(),
        program: "/opt/berth/bin/berth".into(),
        args: Vec::new(),
        artifact: ArtifactRef {
            name: "berth-runtime".into(),
            os: "linux".into(),
            arch: "x86_64".into(),
        },
        account: "agent".into(),
        uid: 1000,
        core_url: "http://127.0.0.1:8091".into(),
    }
}

fn selection(resources: Resources) -> Selection {
    Selection {
        settings: Vec::new(),
        resources,
        host_features: Vec::new(),
    }
}

fn create(host: &Fake, kind: CreateKind) -> Outcome {
    Local.create(host, &target(), kind, &bootstrap())
}

fn code(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Rejected(rejection) => &rejection.code,
        Outcome::Unknown(doubt) => &doubt.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_manifest_is_valid_and_names_exactly_the_system_folders_of_the_view() {
    let manifest = include_str!("../plugin.toml");
    let listed = manifest
        .lines()
        .find_map(|line| line.strip_prefix("system = "))
        .unwrap();
    assert_eq!(listed, format!("{:?}", view::SYSTEM));
}

// LOC-005, LOC-006, LOC-007
#[test]
fn only_workspace_home_state_and_memory_can_be_written() {
    let spec = view::spec(&none(), &bootstrap());
    let writable: Vec<_> = spec
        .view
        .iter()
        .filter(|mount| mount.writable)
        .map(|mount| mount.inside.as_str())
        .collect();
    assert_eq!(
        writable,
        ["/workspace", "/home/agent", "/berth", "/tmp", "/dev"]
    );
    let hosts = |source: &MountSource| {
        matches!(
            source,
            MountSource::System(_)
                | MountSource::Exposed
                | MountSource::Harnesses
                | MountSource::Other(_)
                | MountSource::OwnProgram
        )
    };
    assert!(
        spec.view
            .iter()
            .filter(|mount| hosts(&mount.source))
            .all(|mount| !mount.writable)
    );
    assert_eq!(
        (spec.account.as_str(), spec.uid, spec.network_off),
        ("agent", 1000, false)
    );
    assert!(spec.bootstrap_path.starts_with(view::STATE));
}

// LOC-003, SP-2.5
#[test]
fn the_declaration_says_what_this_machine_enforces() {
    let mut host = fake();
    let declared = Local.describe(&host, &selection(none())).unwrap();
    assert_eq!(
        (declared.resources.cpus, declared.resources.root_disk),
        (ResourceUse::Applied, ResourceUse::Refused)
    );
    let fact = |name: &str| {
        declared
            .facts
            .iter()
            .find(|fact| fact.name == name)
            .unwrap()
            .value
            .clone()
    };
    assert_eq!(
        (fact("isolation"), fact("enforced_limits")),
        (
            "namespaces".into(),
            "processes memory cpus open_files".into()
        )
    );
    assert!(!declared.abilities.suspend_cold && !declared.abilities.network_disabled);
    host.facts = facts(&["processes"]);
    assert_eq!(
        Local
            .describe(&host, &selection(none()))
            .unwrap()
            .resources
            .memory,
        ResourceUse::Refused
    );
    let wish = Resources {
        memory_mib: Some(1024),
        ..none()
    };
    assert_eq!(
        Local.describe(&host, &selection(wish)).unwrap_err().code,
        "limits_unsupported"
    );
    let mut with = selection(none());
    with.settings.push(Pair {
        name: "x".into(),
        value: "y".into(),
    });
    let refused = Local.describe(&host, &with).unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.effect),
        ("setting_unknown", Effect::None)
    );
}

// LOC-002, SP-12.1
#[test]
fn without_isolation_it_is_not_ready_and_says_why() {
    let mut host = fake();
    assert!(Local.check(&host, &selection(none())).ready);
    let wish = Resources {
        memory_mib: Some(9000),
        ..none()
    };
    assert_eq!(
        Local.check(&host, &selection(wish)).code.as_deref(),
        Some("capacity_insufficient")
    );
    host.facts.level = String::new();
    host.facts.problem = Some("namespaces_unavailable".into());
    let health = Local.check(&host, &selection(none()));
    assert_eq!(
        (health.ready, health.code.as_deref()),
        (false, Some("namespaces_unavailable"))
    );
    assert!(host.asked().is_empty(), "checking creates nothing");
}

#[test]
fn a_create_is_one_first_start() {
    let host = fake();
    *host.starts.lock().unwrap() = vec![Ok(status(true))];
    let Outcome::Done(found) = create(&host, CreateKind::New) else {
        panic!()
    };
    assert!(
        found.bootstrap_complete && found.create_settled && found.state == SandboxState::Running
    );
    assert_eq!(found.native_id.as_deref(), Some("berth-a"));
    assert_eq!(host.asked(), ["start First"]);
}

// LOC-022, SP-3.6: each refusal of the machine keeps its meaning.
#[test]
fn refusals_of_the_machine_become_the_six_results() {
    let host = fake();
    let with = |refusal, inspect: Vec<_>| {
        *host.starts.lock().unwrap() = vec![Err(refusal)];
        *host.inspects.lock().unwrap() = inspect;
        create(&host, CreateKind::New)
    };
    assert!(
        matches!(with(MachineRefusal::Exists, vec![Ok(status(false))]), Outcome::Exists(found) if found.state == SandboxState::Stopped)
    );
    assert!(matches!(
        with(MachineRefusal::NotOurs, vec![]),
        Outcome::NotOurs
    ));
    assert_eq!(
        code(&with(
            MachineRefusal::Refused("accounts_exhausted".into()),
            vec![]
        )),
        "accounts_exhausted"
    );
    let doubt = with(
        MachineRefusal::Unknown("init_lost".into()),
        vec![Ok(status(false))],
    );
    assert!(
        matches!(&doubt, Outcome::Unknown(doubt) if doubt.code == "init_lost" && doubt.evidence.is_some())
    );
    let blind = with(
        MachineRefusal::Exists,
        vec![Err(MachineRefusal::Unknown("x".into()))],
    );
    assert_eq!(code(&blind), "exists_unseen");
}

// SP-5.8, SP-6.3
#[test]
fn finishing_starts_what_is_there_and_never_creates() {
    let host = fake();
    *host.inspects.lock().unwrap() = vec![Ok(status(true))];
    assert!(matches!(
        create(&host, CreateKind::Finish),
        Outcome::Done(_)
    ));
    assert_eq!(host.asked(), ["inspect"]);
    *host.inspects.lock().unwrap() = vec![Ok(status(false))];
    *host.starts.lock().unwrap() = vec![Ok(status(true))];
    assert!(matches!(
        create(&host, CreateKind::Finish),
        Outcome::Done(_)
    ));
    assert_eq!(host.asked(), ["inspect", "start Again"]);
    *host.inspects.lock().unwrap() = vec![Err(MachineRefusal::NotFound)];
    assert!(matches!(
        create(&host, CreateKind::Finish),
        Outcome::NotFound
    ));
    assert_eq!(host.asked(), ["inspect"]);
}

// LOC-007, SP-3.1: what is not declared is rejected before any native call.
#[test]
fn what_is_not_declared_makes_no_native_call() {
    let mut host = fake();
    host.facts = facts(&["processes"]);
    type Change = fn(&mut SandboxSpec);
    let changes: [(&str, Change); 8] = [
        ("network_policy_unsupported", |spec| {
            spec.network = NetworkPolicy::Disabled
        }),
        ("network_policy_unsupported", |spec| {
            spec.network = NetworkPolicy::Restricted(AllowedHosts {
                hosts: vec!["a".into()],
            });
        }),
        ("size_mismatch", |spec| spec.size = Some("S".into())),
        ("image_mismatch", |spec| spec.image = Some("base".into())),
        ("system_packages_unsupported", |spec| {
            spec.system_packages = vec!["git".into()]
        }),
        ("lease_unsupported", |spec| spec.lease_ms = Some(1)),
        ("limits_unsupported", |spec| {
            spec.resources.memory_mib = Some(512)
        }),
        ("resource_unsupported", |spec| {
            spec.resources.root_disk_mib = Some(1024)
        }),
    ];
    for (expected, change) in changes {
        let mut on = target();
        change(&mut on.spec);
        assert_eq!(
            code(&Local.create(&host, &on, CreateKind::New, &bootstrap())),
            expected
        );
    }
    assert_eq!(
        code(&Local.suspend(&host, &target(), "op", false)),
        "unsupported_operation"
    );
    assert_eq!(
        code(&Local.resume(&host, &target(), "op")),
        "unsupported_operation"
    );
    assert!(host.asked().is_empty());
}

// LOC-023, SP-9.4
#[test]
fn killing_removes_everything_and_repeats() {
    let host = fake();
    *host.stops.lock().unwrap() = vec![
        Ok(()),
        Err(MachineRefusal::NotFound),
        Err(MachineRefusal::NotOurs),
        Err(MachineRefusal::Unknown("x".into())),
    ];
    *host.inspects.lock().unwrap() = vec![Ok(status(true))];
    for _ in 0..2 {
        let Outcome::Done(found) = Local.kill(&host, &target(), true) else {
            panic!()
        };
        assert!(found.state == SandboxState::Gone && found.create_settled);
    }
    assert!(matches!(
        Local.kill(&host, &target(), false),
        Outcome::NotOurs
    ));
    assert!(
        matches!(Local.kill(&host, &target(), false), Outcome::Unknown(doubt) if doubt.evidence.is_some())
    );
    assert!(
        host.asked()
            .iter()
            .filter(|asked| asked.starts_with("stop"))
            .all(|asked| asked == "stop Nothing")
    );
}

#[test]
fn listing_and_observing_only_look() {
    let host = fake();
    let page = Local
        .list_owned(&host, &selection(none()), "i", Some("c"))
        .unwrap();
    assert_eq!(
        (page.entries[0].native_id.as_str(), page.next.as_deref()),
        ("berth-a", Some("more"))
    );
    *host.inspects.lock().unwrap() = vec![
        Ok(status(true)),
        Err(MachineRefusal::NotFound),
        Ok(status(true)),
    ];
    let seen = Local.observe(&host, &[target(), target()]).unwrap();
    assert_eq!(
        (seen.len(), seen[0].memory_bytes, seen[0].cpu_milli),
        (1, Some(5), None)
    );
    assert!(matches!(Local.renew(&host, &target(), 1), Outcome::Done(_)));
    assert_eq!(
        host.asked(),
        ["owned i Some(\"c\")", "inspect", "inspect", "inspect"]
    );
}
