mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contract::common::{Effect, Failure};
use contract::manifest::Capability;
use contract::sandbox_types::{self as theirs, Selection};
use contract::{Host, SandboxProvider};
use domain::Secret;
use domain::provider::{AllocationRef, NetworkPolicy, Outcome, Resources, SandboxSpec};

use super::{DaemonStart, Provider, ProviderHandle, ProviderMemory, RememberError, Scope, Target};

const MANIFEST: &str = r#"
id = "odd"
version = "1.0.0"
name = "Odd"
license = "Apache-2.0"
kind = "sandbox-provider"
contract = "0.2.0"
[permissions]
state = "to remember"
clock = "to wait"
"#;

/// Does in each operation one thing that a provider may do wrong, and counts what was called.
#[derive(Default)]
struct Odd {
    inspections: AtomicUsize,
    seen: Mutex<Vec<String>>,
    /// What the next inspection does instead.
    act: Mutex<Option<Act>>,
}

type Act = Box<dyn FnOnce(&dyn Host) + Send>;

fn rejected(code: String) -> theirs::Outcome {
    theirs::Outcome::Rejected(theirs::Rejection {
        code,
        remains: None,
    })
}

impl SandboxProvider for Odd {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }
    fn describe(
        &self,
        _: &dyn Host,
        _: &Selection,
    ) -> Result<theirs::ProviderDeclaration, Failure> {
        Err(Failure {
            code: "Native text: 10.0.0.1".into(),
            detail: String::new(),
            effect: Effect::None,
        })
    }
    fn check(&self, _: &dyn Host, _: &Selection) -> theirs::Health {
        panic!("a mistake of the plugin")
    }
    fn create(
        &self,
        host: &dyn Host,
        on: &theirs::Target,
        _: theirs::CreateKind,
        _: &theirs::Bootstrap,
    ) -> theirs::Outcome {
        let mut codes = vec![host.machine().probe().problem.unwrap_or_default()];
        let command = contract::host_types::Command {
            program: "x".into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            timeout_ms: 1,
            max_output_bytes: 1,
        };
        codes.push(host.program().run(&command).unwrap_err().code);
        codes.push(format!("{:?}", host.random().bytes(4)));
        let stored = host
            .state()
            .put(contract::state::Scope::Allocation, "key", b"value")
            .map_err(|failure| failure.code);
        codes.push(format!("{stored:?}"));
        codes.push(
            host.state()
                .put(contract::state::Scope::Plugin, "Bad Key", b"")
                .unwrap_err()
                .code,
        );
        codes.push(format!(
            "{:?}",
            host.state()
                .get(contract::state::Scope::Allocation, "key")
                .unwrap()
        ));
        codes.push(on.allocation.name.clone());
        *self.seen.lock().unwrap() = codes;
        rejected("seen".into())
    }
    fn inspect(&self, host: &dyn Host, _: &theirs::Target) -> theirs::Outcome {
        if let Some(act) = self.act.lock().unwrap().take() {
            act(host);
            return rejected("acted".into());
        }
        let before = self.inspections.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        rejected(format!("inspection_{before}"))
    }
    fn renew(&self, _: &dyn Host, _: &theirs::Target, _: u64) -> theirs::Outcome {
        panic!("a mistake of the plugin")
    }
    fn suspend(&self, _: &dyn Host, _: &theirs::Target, _: &str, _: bool) -> theirs::Outcome {
        rejected("unsupported_operation".into())
    }
    fn resume(&self, _: &dyn Host, _: &theirs::Target, _: &str) -> theirs::Outcome {
        rejected("unsupported_operation".into())
    }
    fn kill(&self, _: &dyn Host, _: &theirs::Target, _: bool) -> theirs::Outcome {
        rejected("Native text".into())
    }
    fn list_owned(
        &self,
        _: &dyn Host,
        _: &Selection,
        _: &str,
        _: Option<&str>,
    ) -> Result<theirs::OwnedPage, Failure> {
        Ok(theirs::OwnedPage {
            entries: Vec::new(),
            next: None,
        })
    }
    fn observe(
        &self,
        _: &dyn Host,
        _: &[theirs::Target],
    ) -> Result<Vec<theirs::Measurement>, Failure> {
        Ok(Vec::new())
    }
}

#[derive(Default)]
struct Remembered(Mutex<BTreeMap<String, Vec<u8>>>);

impl ProviderMemory for Remembered {
    fn get(
        &self,
        provider: &str,
        scope: Scope,
        key: &str,
    ) -> Result<Option<Secret>, RememberError> {
        let found = self
            .0
            .lock()
            .unwrap()
            .get(&format!("{provider} {scope:?} {key}"))
            .cloned();
        Ok(found.map(Secret::new))
    }
    fn put(
        &self,
        provider: &str,
        scope: Scope,
        key: &str,
        value: Option<Secret>,
    ) -> Result<(), RememberError> {
        let value = value.ok_or(RememberError::Fenced)?;
        self.0.lock().unwrap().insert(
            format!("{provider} {scope:?} {key}"),
            value.expose().to_vec(),
        );
        Ok(())
    }
}

fn handle() -> (Arc<Odd>, ProviderHandle) {
    let odd = Arc::new(Odd::default());
    let provider = Provider::new(odd.clone(), MANIFEST).unwrap();
    let granted = BTreeSet::from([
        Capability::State,
        Capability::Clock,
        Capability::Random,
        Capability::Program,
    ]);
    (
        odd,
        ProviderHandle::new(provider, &granted, Arc::new(Remembered::default()), None),
    )
}

fn target(budget: u64) -> Target {
    let uuid = "0f0e0d0c-0b0a-4908-8706-050403020100";
    Target {
        allocation: AllocationRef {
            installation: uuid.parse().unwrap(),
            project: uuid.parse().unwrap(),
            session: uuid.parse().unwrap(),
            environment: "env_0f0e0d0c0b0a49088706050403020100".parse().unwrap(),
            id: uuid.parse().unwrap(),
            generation: 1,
        },
        settings: Vec::new(),
        spec: SandboxSpec {
            resources: Resources::default(),
            size: None,
            image: None,
            network: NetworkPolicy::Enabled,
            lease_ms: None,
        },
        native_id: None,
        budget: Duration::from_millis(budget),
    }
}

fn daemon() -> DaemonStart {
    DaemonStart {
        file: Arc::new(|_| Secret::new("{}")),
        core_url: "http://127.0.0.1:1".into(),
    }
}

fn code(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rejected { code, .. } | Outcome::Unknown { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

// Architecture property 6: only what the manifest asks for and the operator granted; the refusal names the permission.
#[tokio::test]
async fn a_provider_reaches_only_what_it_was_granted() {
    let (odd, handle) = handle();
    assert_eq!(code(handle.create(target(5000), daemon()).await), "seen");
    let seen = odd.seen.lock().unwrap().clone();
    let expected = [
        "permission_machine",
        "permission_program",
        // Granted by the operator, and not asked for.
        "[]",
        "Ok(())",
        "key_invalid",
        "Some([118, 97, 108, 117, 101])",
        "berth-0f0e0d0c-0f0e0d0c0b0a49088706050403020100",
    ];
    assert_eq!(seen, expected);
}

// A panic is an unknown result, and the provider can be called again.
#[tokio::test]
async fn a_panic_is_an_unknown_result() {
    let (_, handle) = handle();
    let renewed = handle
        .renew(target(5000), domain::Timestamp::from_millis(1))
        .await;
    assert_eq!(
        renewed,
        Outcome::Unknown {
            code: "panicked".into(),
            evidence: None
        }
    );
    let health = handle.check().await;
    assert_eq!(
        (health.ready, health.code.as_deref()),
        (false, Some("panicked"))
    );
    assert_eq!(code(handle.inspect(target(5000)).await), "inspection_0");
}

// SP-3.4, SP-3.5: giving up ends the wait and not the call, and the next call waits for it.
#[tokio::test]
async fn a_call_that_ran_out_of_time_keeps_its_allocation() {
    let (odd, handle) = handle();
    let given_up = handle.inspect(target(50)).await;
    assert_eq!(
        given_up,
        Outcome::Unknown {
            code: "deadline_exceeded".into(),
            evidence: None
        }
    );
    let second = handle.inspect(target(50)).await;
    assert_eq!(
        second,
        Outcome::Unknown {
            code: "busy".into(),
            evidence: None
        }
    );
    assert_eq!(
        odd.inspections.load(Ordering::SeqCst),
        1,
        "the second was never made"
    );
    assert_eq!(code(handle.inspect(target(5000)).await), "inspection_1");
}

// SP-3.7
#[tokio::test]
async fn native_text_never_leaves_a_provider() {
    let (_, handle) = handle();
    assert_eq!(code(handle.kill(target(5000), false).await), "invalid_code");
    assert_eq!(handle.describe().await.unwrap_err().code, "invalid_code");
}
