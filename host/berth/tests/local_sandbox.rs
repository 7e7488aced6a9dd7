//! The provider `local` from end to end, without a server: plugin host, plugin, sandbox init, a daemon and a supervised
//! harness tree in it. One executable plays all of them, as `berth` does. The tree searches for planted sentinels with
//! everything that a full-access agent has (LOC-001, LOC-009, SP-1.6).
//!
//! `BERTH_TEST_HARNESSES` names the folder of installed harnesses (default `target/test-tools/harnesses`); with Codex in
//! it, the real program runs inside too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails loudly")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::provider::{
    AllocationRef, NativeState, NetworkPolicy, Outcome, Resources, SandboxInfo, SandboxSpec,
};
use domain::{Secret, SessionId};
use machine::process::{Order, Spawner, forbid_inspection};
use machine::sandbox::{Isolation, Keep, Level, Sandboxes, Seen, Settings};
use plugin_host::Plugins;
use plugin_host::contract::manifest::Capability;
use plugin_host::providers::{
    DaemonStart, ProviderHandle, ProviderMemory, RememberError, Scope, Target,
};
use sandbox_local as _;
use tokio::io::AsyncReadExt;

/// Set for the whole run, so that Core's own environment holds something worth finding.
const CANARY: &str = "BERTH_CANARY";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("supervise") => return machine::supervisor::main(),
        Some("sandbox-init") => return machine::init::main(&args[1..]),
        Some("daemon") => return daemon(&args),
        // What a test runner asks of any test program.
        Some("--list") => {
            if !args.iter().any(|arg| arg == "--ignored") {
                println!("local_sandbox: test");
            }
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    if std::env::var_os(CANARY).is_none() {
        let again = Command::new(std::env::current_exe().unwrap())
            .args(args)
            .env(CANARY, "sentinel-environment")
            .status();
        return if again.unwrap().success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(scenarios());
    println!("local_sandbox: ok");
    ExitCode::SUCCESS
}

/// A daemon that keeps its secrets to itself: it runs one harness tree, which sees neither its state nor its process.
#[tokio::main(flavor = "current_thread")]
async fn daemon(args: &[String]) -> ExitCode {
    forbid_inspection().unwrap();
    let path = PathBuf::from(args.last().unwrap());
    let bootstrap: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let workspace = bootstrap["workspace"].as_str().unwrap();
    let harnesses = &args[args.iter().position(|arg| arg == "--harness-dir").unwrap() + 1];
    let key = String::from("sentinel-model-key");
    let state = path.parent().unwrap().to_owned();
    let spawner = Spawner::new(std::env::current_exe().unwrap()).hiding([state]);
    spawner.adopt_orphans().unwrap();
    let mut order =
        Order::new("/bin/sh", workspace).args(["-c", bootstrap["script"].as_str().unwrap()]);
    for (name, value) in [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HARNESSES", harnesses),
    ] {
        order = order.env(name, value);
    }
    order = order
        .env("HOME", std::env::var("HOME").unwrap())
        .env("DAEMON", std::process::id().to_string());
    let mut child = spawner.start(order).await.unwrap();
    let mut output = String::new();
    child.stderr = None;
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .await
        .unwrap();
    child.wait().await;
    std::fs::write(
        Path::new(workspace).join("report"),
        format!("{output}reported\n"),
    )
    .unwrap();
    std::future::pending::<()>().await;
    drop(key);
    ExitCode::SUCCESS
}

struct NoMemory;

impl ProviderMemory for NoMemory {
    fn get(&self, _: &str, _: Scope, _: &str) -> Result<Option<Secret>, RememberError> {
        Err(RememberError::Unavailable)
    }
    fn put(&self, _: &str, _: Scope, _: &str, _: Option<Secret>) -> Result<(), RememberError> {
        Err(RememberError::Unavailable)
    }
}

/// A Core's data folder and its provider.
struct Core {
    data: tempfile::TempDir,
    provider: ProviderHandle,
    sandboxes: Arc<Sandboxes>,
}

impl Drop for Core {
    /// A failed test leaves nothing running.
    fn drop(&mut self) {
        let installation = target(0).allocation.installation.to_string();
        let Ok(page) = self.sandboxes.owned(&installation, None) else {
            return;
        };
        for (whose, _) in page.entries {
            let _ = self.sandboxes.stop(&whose, Keep::Nothing);
        }
    }
}

fn harnesses() -> Option<PathBuf> {
    let folder = std::env::var_os("BERTH_TEST_HARNESSES").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/harnesses")
    });
    folder
        .join("codex")
        .exists()
        .then(|| folder.canonicalize().unwrap())
}

/// Puts a file or folder there by hard links, or by a copy on another disk.
fn share(from: &Path, to: &Path) {
    let copy = |how: &str| {
        let mut command = Command::new("cp");
        let done = command.arg(how).args([from, to]).output().unwrap();
        done.status.success()
    };
    if !copy("-al") {
        let _ = std::fs::remove_dir_all(to);
        assert!(copy("-a"), "{} cannot be copied", from.display());
    }
}

impl Core {
    fn new(level: Level) -> Self {
        let data = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("credential.key", "sentinel-service-key"),
            ("berth.db", "sentinel-database"),
        ] {
            std::fs::write(data.path().join(name), text).unwrap();
        }
        // At the level of Landlock an account of its own has to reach its folder by a path.
        std::fs::set_permissions(
            data.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o711),
        )
        .unwrap();
        // And may not enter the folder that we were built in.
        let [program, installed] = ["program", "harnesses"].map(|name| data.path().join(name));
        share(&std::env::current_exe().unwrap(), &program);
        if let Some(harnesses) = harnesses() {
            share(&harnesses, &installed);
        }
        let mut settings = Settings::new(data.path().join("sessions"), program, installed);
        settings.isolation = Isolation::Only(level);
        let granted = BTreeSet::from([Capability::Machine]);
        let local = Plugins::built_in().unwrap().provider("local").unwrap();
        let sandboxes = Arc::new(Sandboxes::new(settings));
        let provider =
            ProviderHandle::new(local, &granted, Arc::new(NoMemory), Some(sandboxes.clone()));
        Self {
            data,
            provider,
            sandboxes,
        }
    }

    fn workspace(&self, on: &Target) -> PathBuf {
        let allocation = &on.allocation;
        let sessions = self
            .data
            .path()
            .join("sessions")
            .join(allocation.project.to_string());
        sessions
            .join(allocation.session.to_string())
            .join("workspace")
    }

    async fn create(&self, on: &Target, script: &str) -> Outcome {
        let script = script.to_owned();
        let file = move |seen: &Seen<'_>| {
            let file = serde_json::json!({
                "workspace": seen.workspace, "script": script, "credential": "sentinel-device-credential",
            });
            Secret::from(file.to_string())
        };
        let daemon = DaemonStart {
            file: Arc::new(file),
            core_url: "http://127.0.0.1:1".to_owned(),
        };
        self.provider.create(on.clone(), daemon).await
    }

    async fn report(&self, on: &Target) -> String {
        let path = self.workspace(on).join("report");
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(report) = text.strip_suffix("reported\n") {
                return report.to_owned();
            }
            let log = self.workspace(on).join("../state/daemon.log");
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "no report; {:?}",
                std::fs::read_to_string(log)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn target(session: u128) -> Target {
    let uuid = "0f0e0d0c-0b0a-4908-8706-050403020100";
    let session = SessionId::new(uuid::Uuid::from_u128(session));
    Target {
        allocation: AllocationRef {
            installation: uuid.parse().unwrap(),
            project: uuid.parse().unwrap(),
            session,
            environment: domain::EnvironmentId::new(session.uuid()),
            id: domain::AllocationId::new(session.uuid()),
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
        budget: Duration::from_secs(60),
    }
}

fn done(outcome: Outcome) -> SandboxInfo {
    match outcome {
        Outcome::Done(info) => info,
        other => panic!("{other:?}"),
    }
}

async fn scenarios() {
    for level in [Level::Namespaces, Level::Landlock] {
        let core = Core::new(level);
        let declared = core.provider.describe().await.unwrap();
        assert!(
            declared
                .facts
                .contains(&("isolation".to_owned(), level.name().to_owned()))
        );
        assert!(core.provider.check().await.ready);
        lives_and_ends(&core).await;
        finds_nothing(&core, level).await;
        if level == Level::Namespaces {
            runs_the_real_program(&core).await;
        }
    }
}

// SP-3.6, SP-4.3, SP-9.4, LOC-022, LOC-023
async fn lives_and_ends(core: &Core) {
    let on = target(1);
    assert_eq!(core.provider.inspect(on.clone()).await, Outcome::NotFound);
    let begun = Instant::now();
    let made = done(core.create(&on, "sleep 77.125 & echo started").await);
    println!("create to started daemon: {:?}", begun.elapsed());
    assert!(made.bootstrap_complete && made.state == NativeState::Running);
    assert_eq!(core.report(&on).await, "started\n");
    assert!(matches!(core.create(&on, "true").await, Outcome::Exists(_)));
    let (listed, _) = core
        .provider
        .list_owned(on.allocation.installation, None)
        .await
        .unwrap();
    let labels = (
        on.allocation.id,
        on.allocation.project,
        on.allocation.environment,
    );
    assert_eq!(
        listed
            .iter()
            .map(|owned| owned.allocation)
            .collect::<Vec<_>>(),
        [Some(labels)]
    );
    for _ in 0..2 {
        assert_eq!(
            done(core.provider.kill(on.clone(), true).await).state,
            NativeState::Gone
        );
    }
    assert!(!core.workspace(&on).parent().unwrap().exists());
    assert_eq!(
        core.provider
            .list_owned(on.allocation.installation, None)
            .await
            .unwrap()
            .0,
        []
    );
}

// LOC-001, LOC-009
async fn finds_nothing(core: &Core, level: Level) {
    let other = target(2);
    done(
        core.create(
            &other,
            "echo sentinel-other-workspace > secret; echo started",
        )
        .await,
    );
    core.report(&other).await;
    let on = target(3);
    let data = core.data.path().display();
    let script = format!(
        "exec 2>/dev/null; me=$(id -u); \
         cat {data}/credential.key {data}/berth.db {other}/secret {other}/../state/bootstrap.json; \
         grep -rs sentinel- /berth /opt/berth/bin/x /home /workspace /tmp /dev/shm /run {data} \"$HOME\" ../state . | head -5; \
         for p in /proc/[0-9]*; do \
           [ $p = /proc/$$ ] && continue; \
           tr '\\0' '\\n' < $p/environ | grep sentinel-; \
           [ \"$(cat $p/stat | cut -d' ' -f4)\" = $$ ] && continue; \
           grep -z sentinel- $p/cmdline && echo cmdline; \
           head -c 1 $p/mem >/dev/null && echo \"memory of $p\"; \
           ls $p/root/ $p/cwd/; \
         done; \
         kill -9 $DAEMON && echo 'killed the daemon'; kill -9 $PPID && echo 'killed the supervisor'; \
         kill -9 {core} && echo 'killed Core'; \
         [ $me = 0 ] && echo root; ls ../state; echo searched",
        other = core.workspace(&other).display(),
        core = std::process::id(),
    );
    done(core.create(&on, &script).await);
    assert_eq!(core.report(&on).await, "searched\n", "{level:?}");
    for on in [on, other] {
        assert_eq!(
            done(core.provider.kill(on, false).await).state,
            NativeState::Gone
        );
    }
}

// Native programs look the account up; files land with it (LOC-006).
async fn runs_the_real_program(core: &Core) {
    if harnesses().is_none() {
        let required = std::env::var_os("CI").is_some();
        assert!(
            !required,
            "Codex is not installed; `cargo xtask test` installs it"
        );
        println!("Codex is not installed: the real program was left out");
        return;
    }
    let on = target(4);
    let script = "id -un; getent passwd \"$(id -u)\"; codex=$(find $HARNESSES/codex/ -path '*vendor*' -name codex -type f | head -1); \
                  CODEX_HOME=$HOME/c; mkdir $CODEX_HOME; export CODEX_HOME; $codex --version; touch made; ls -ln made | cut -d' ' -f3; \
                  $codex debug 2>/dev/null >/dev/null; echo end";
    done(core.create(&on, script).await);
    let report = core.report(&on).await;
    let lines: Vec<_> = report.lines().collect();
    assert_eq!(
        lines[..2],
        ["agent", "agent:x:1000:1000::/home/agent:/bin/sh"],
        "{report}"
    );
    assert!(lines[2].starts_with("codex-cli "), "{report}");
    assert_eq!(lines[3..], ["1000", "end"], "{report}");
    done(core.provider.kill(on, false).await);
}
