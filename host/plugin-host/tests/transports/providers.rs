//! What a provider and a resolver can do wrong while they run: the answer of that one call, over both transports.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::Secret;
use domain::provider::{AllocationRef, NetworkPolicy, Resources, SandboxSpec};
use kit::provider::{Case, FakeHost};
use plugin_host::contract::common::{Effect, Pair};
use plugin_host::contract::manifest::Capability;
use plugin_host::contract::mcp_types::ResolveRequest;
use plugin_host::contract::sandbox_types::{CreateKind, Outcome, Target as Plain};
use plugin_host::contract::{
    Clock, Host, Http, Log, Machine, McpResolver, Program, Random, SandboxProvider, State,
};
use plugin_host::load::{Grants, PluginFile};
use plugin_host::providers::{ProviderHandle, ProviderMemory, RememberError, Scope, Target};
use plugin_host::{Driver, Plugin, Plugins, Settings};

const OPERATIONS: [&str; 10] = [
    "describe",
    "check",
    "create",
    "inspect",
    "renew",
    "suspend",
    "resume",
    "kill",
    "list-owned",
    "observe",
];

fn provider(plugin: &Plugin) -> Arc<dyn SandboxProvider> {
    match &plugin.driver {
        Driver::Sandbox(provider) => Arc::clone(provider),
        _ => panic!("{plugin:?} is no provider"),
    }
}

fn resolver(plugin: &Plugin) -> &dyn McpResolver {
    match &plugin.driver {
        Driver::Resolver(resolver) => &**resolver,
        _ => panic!("{plugin:?} is no resolver"),
    }
}

fn settings(operation: &str, fault: &str) -> Vec<Pair> {
    [("operation", operation), ("fault", fault)]
        .map(|(name, value)| Pair {
            name: name.into(),
            value: value.into(),
        })
        .into()
}

fn said(outcome: Outcome) -> (String, Effect) {
    match outcome {
        Outcome::Rejected(rejection) => (rejection.code, Effect::None),
        Outcome::Unknown(doubt) => (doubt.code, Effect::Unknown),
        other => panic!("{other:?}"),
    }
}

/// Lets an operation do something, and gives its code and what is known about its effect.
fn call(
    provider: &dyn SandboxProvider,
    host: &dyn Host,
    operation: &str,
    fault: &str,
) -> (String, Effect) {
    let case = Case::plain(settings(operation, fault));
    let on = Plain {
        budget_ms: 2_000,
        ..case.target
    };
    match operation {
        "describe" => {
            let failure = provider.describe(host, &case.selection).unwrap_err();
            (failure.code, failure.effect)
        }
        "check" => {
            let health = provider.check(host, &case.selection);
            assert!(!health.ready);
            (health.code.unwrap(), Effect::None)
        }
        "create" => said(provider.create(host, &on, CreateKind::New, &case.bootstrap)),
        "inspect" => said(provider.inspect(host, &on)),
        "renew" => said(provider.renew(host, &on, 1)),
        "suspend" => said(provider.suspend(host, &on, "o", false)),
        "resume" => said(provider.resume(host, &on, "o")),
        "kill" => said(provider.kill(host, &on, false)),
        "list-owned" => {
            let listed = provider.list_owned(host, &case.selection, "i", None);
            let failure = listed.unwrap_err();
            (failure.code, failure.effect)
        }
        "observe" => {
            let failure = provider.observe(host, &[on]).unwrap_err();
            (failure.code, failure.effect)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_operation_of_a_provider_may_crash() {
    for path in crate::files("faulty-provider") {
        for operation in OPERATIONS {
            // A fresh load: five faults are quarantine.
            let loaded = crate::load(&path);
            let provider = provider(&loaded);
            let host = FakeHost::default();
            let crashed = call(&*provider, &host, operation, "panic");
            let reads = ["describe", "check"].contains(&operation);
            let effect = if reads { Effect::None } else { Effect::Unknown };
            assert_eq!(
                crashed,
                ("plugin_crashed".to_owned(), effect),
                "{operation}"
            );
            assert_eq!(loaded.health.faults(), 1);
            // The next call is answered.
            let fine = call(&*provider, &host, operation, "none");
            assert_eq!(fine, ("fine".to_owned(), Effect::None), "{operation}");
        }
    }
}

#[test]
fn a_provider_in_a_component_is_bounded() {
    let [component, _] = crate::files("faulty-provider");
    for (fault, code) in [
        ("loop", "plugin_deadline"),
        ("memory", "plugin_memory"),
        ("output", "plugin_memory"),
        ("recursion", "plugin_crashed"),
    ] {
        let loaded = crate::load(&component);
        let provider = provider(&loaded);
        let host = FakeHost::default();
        let broken = call(&*provider, &host, "create", fault);
        assert_eq!(broken, (code.to_owned(), Effect::Unknown), "{fault}");
        let fine = call(&*provider, &host, "inspect", "none");
        assert_eq!(fine.0, "fine");
    }
}

#[test]
fn a_library_that_says_too_much_is_cut_off() {
    let [_, library] = crate::files("faulty-provider");
    let loaded = crate::load(&library);
    let provider = provider(&loaded);
    let host = FakeHost::default();
    let broken = call(&*provider, &host, "create", "output");
    assert_eq!(broken, ("plugin_output".to_owned(), Effect::Unknown));
    assert_eq!(call(&*provider, &host, "create", "none").0, "fine");
}

#[test]
fn a_flood_of_log_lines_of_a_provider_does_not_hold_anybody() {
    for loaded in &crate::both("faulty-provider") {
        let said = call(&*provider(loaded), &FakeHost::default(), "inspect", "log");
        // Done within the deadline or ended by it; never a crash of the host.
        let known = ["fine", "plugin_deadline"];
        assert!(known.contains(&said.0.as_str()), "{said:?}");
    }
}

#[test]
fn a_resolver_that_breaks_breaks_one_call() {
    let request = |fault: &str| ResolveRequest {
        declared: Vec::new(),
        plugins: Vec::new(),
        origins: Vec::new(),
        variables: vec![fault.to_owned()],
        credentials: Vec::new(),
        abilities: Vec::new(),
        host_features: Vec::new(),
    };
    let [component, library] = crate::files("faulty-resolver");
    for (path, fault, code) in [
        (&component, "panic", "plugin_crashed"),
        (&component, "recursion", "plugin_crashed"),
        (&component, "memory", "plugin_memory"),
        (&component, "output", "plugin_memory"),
        (&component, "loop", "plugin_deadline"),
        (&library, "panic", "plugin_crashed"),
        (&library, "output", "plugin_output"),
    ] {
        let loaded = crate::load(path);
        let refusal = resolver(&loaded).resolve(&request(fault)).unwrap_err();
        assert_eq!(refusal.code, code, "{fault}");
        assert_eq!(resolver(&loaded).resolve(&request("none")), Ok(Vec::new()));
    }
}

/// A host whose clock asks the provider again, as deep as it is told.
struct Reentrant {
    provider: Arc<dyn SandboxProvider>,
    depth: AtomicU64,
    inner: FakeHost,
}

impl Clock for Reentrant {
    fn now_ms(&self) -> u64 {
        let depth = self.depth.fetch_add(1, Ordering::SeqCst);
        if depth < 8 {
            let inner = call(&*self.provider, self, "inspect", "clock");
            assert_eq!(inner.1, Effect::None, "{inner:?}");
        }
        self.depth.load(Ordering::SeqCst)
    }
    fn sleep_ms(&self, _ms: u32) {}
}

impl Host for Reentrant {
    fn log(&self) -> &dyn Log {
        self.inner.log()
    }
    fn clock(&self) -> &dyn Clock {
        self
    }
    fn random(&self) -> &dyn Random {
        self.inner.random()
    }
    fn state(&self) -> &dyn State {
        self.inner.state()
    }
    fn http(&self) -> &dyn Http {
        self.inner.http()
    }
    fn program(&self) -> &dyn Program {
        self.inner.program()
    }
    fn machine(&self) -> &dyn Machine {
        self.inner.machine()
    }
}

#[test]
fn a_provider_may_be_called_from_within_its_own_call() {
    for loaded in &crate::both("faulty-provider") {
        let provider = provider(loaded);
        let host = Reentrant {
            provider: Arc::clone(&provider),
            depth: AtomicU64::new(0),
            inner: FakeHost::default(),
        };
        let outer = call(&*provider, &host, "inspect", "clock");
        assert_eq!(outer, ("9".to_owned(), Effect::None));
        assert_eq!(loaded.health.faults(), 0);
    }
}

/// What was really stored.
#[derive(Default)]
struct Remembered(Mutex<Vec<String>>);

impl ProviderMemory for Remembered {
    fn get(&self, _: &str, _: Scope, _: &str) -> Result<Option<Secret>, RememberError> {
        Ok(None)
    }
    fn put(
        &self,
        provider: &str,
        _: Scope,
        key: &str,
        _: Option<Secret>,
    ) -> Result<(), RememberError> {
        let mut stored = self.0.lock().unwrap();
        stored.push(format!("{provider}/{key}"));
        Ok(())
    }
}

fn target(fault: &str) -> Target {
    let uuid = "0f0e0d0c-0b0a-4908-8706-050403020100";
    let pairs = settings("inspect", fault);
    Target {
        allocation: AllocationRef {
            installation: uuid.parse().unwrap(),
            project: uuid.parse().unwrap(),
            session: uuid.parse().unwrap(),
            environment: "env_0f0e0d0c0b0a49088706050403020100".parse().unwrap(),
            id: uuid.parse().unwrap(),
            generation: 1,
        },
        settings: pairs
            .into_iter()
            .map(|pair| (pair.name, pair.value))
            .collect(),
        spec: SandboxSpec {
            resources: Resources::default(),
            size: None,
            image: None,
            network: NetworkPolicy::Enabled,
            lease_ms: None,
        },
        native_id: None,
        budget: Duration::from_secs(60),
    }
}

/// The provider of a folder with only this file, which was granted everything that it asks for.
fn opened(path: &std::path::Path) -> plugin_host::providers::Provider {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(path, folder.path().join(path.file_name().unwrap())).unwrap();
    let file = PluginFile::read(path).unwrap();
    let mut grants = Grants::default();
    grants.grant(&file.digest, file.asked());
    grants.write(folder.path()).unwrap();
    let plugins = Plugins::open(&Settings {
        folder: Some(folder.path().to_owned()),
        allow_native: true,
        ..Settings::default()
    });
    plugins.unwrap().provider("faulty-provider").unwrap()
}

// Through the host that Core really lends.
#[tokio::test]
async fn a_provider_cannot_leave_its_records_nor_use_what_it_has_not() {
    for path in crate::files("faulty-provider") {
        let provider = opened(&path);
        let memory = Arc::new(Remembered::default());
        let all = provider.granted.clone();
        let handle = ProviderHandle::new(provider.clone(), &all, memory.clone(), None);
        let code = |outcome| match outcome {
            domain::provider::Outcome::Rejected { code, .. } => code,
            other => panic!("{other:?}"),
        };
        for key in [
            "../../escape",
            "/etc/passwd",
            "a/b",
            "",
            "a\0b",
            "A",
            "ä",
            &"x".repeat(65),
        ] {
            let said = code(handle.inspect(target(&format!("state {key}"))).await);
            assert_eq!(said, "key_invalid", "{key:?}");
        }
        assert!(memory.0.lock().unwrap().is_empty());
        assert_eq!(
            code(handle.inspect(target("state a-key_1")).await),
            "stored"
        );
        assert_eq!(*memory.0.lock().unwrap(), ["faulty-provider/a-key_1"]);

        // It never asked for a machine.
        let refused = code(handle.inspect(target("machine")).await);
        assert!(refused.starts_with("permission_"), "{refused}");
        // What the operator takes back is refused, although it is linked.
        let clock = BTreeSet::from([Capability::Clock]);
        let handle = ProviderHandle::new(provider, &clock, memory.clone(), None);
        let refused = code(handle.inspect(target("state a-key_1")).await);
        assert_eq!(refused, "permission_state");
    }
}
