//! Sandboxes of this machine, at each level and as root and as an ordinary user (LOC-001 to LOC-024). The daemon is a
//! shell script that leaves what it saw in the workspace.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use berth_machine::sandbox::{
    Identity, Isolation, Keep, Kind, Level, Limits, Mount, Refusal, Sandboxes, Seen, Settings,
    Source, Spec, Status,
};
use domain::Secret;
use tempfile::TempDir;

/// Where the fixture is, if not where it was built.
const FIXTURE: &str = "MACHINE_FIXTURE";

fn fixture() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_machine-fixture"));
    std::env::var_os(FIXTURE).map_or_else(built, PathBuf::from)
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn identity(session: &str) -> Identity {
    Identity {
        installation: "inst".into(),
        tenant: "proj".into(),
        session: session.into(),
        environment: format!("env-{session}"),
        allocation: format!("alloc-{session}"),
        generation: 1,
        name: format!("b-{}-{session}", std::process::id()),
    }
}

fn mount(inside: &str, source: Source, writable: bool) -> Mount {
    Mount {
        inside: inside.into(),
        source,
        writable,
    }
}

fn spec() -> Spec {
    let system = |path: &str| mount(path, Source::System(path.into()), false);
    Spec {
        view: vec![
            system("/usr"),
            system("/bin"),
            system("/lib"),
            system("/lib64"),
            system("/etc"),
            mount("/etc/passwd", Source::Generated("passwd".into()), false),
            mount("/etc/group", Source::Generated("group".into()), false),
            mount("/etc/hosts", Source::Generated("hosts".into()), false),
            mount("/opt/berth/harnesses", Source::Harnesses, false),
            mount("/opt/berth/bin/berth", Source::OwnProgram, false),
            mount("", Source::Exposed, false),
            mount("/workspace", Source::Workspace, true),
            mount("/home/agent", Source::Home, true),
            mount("/berth", Source::State, true),
            mount("/tmp", Source::Scratch(16), true),
            mount("/proc", Source::Proc, false),
            mount("/dev", Source::Devices, true),
        ],
        account: "agent".into(),
        uid: 1000,
        limits: Limits::default(),
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("HOME".into(), "/home/agent".into()),
        ],
        bootstrap_path: "/berth/bootstrap.json".into(),
    }
}

/// A place for sandboxes that an ordinary account could reach, with sentinels beside them.
struct Ground {
    root: TempDir,
    settings: Settings,
    sandboxes: Sandboxes,
}

impl Ground {
    fn new(isolation: Isolation) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o711)).unwrap();
        // Readable for everybody: only the sandbox stands between them and what runs inside.
        for name in ["credential.key", "harnesses/codex/program", "exposed/tool"] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("sentinel {name}")).unwrap();
        }
        // An account of a sandbox without mounts may not enter the folder that we were built in.
        let program = root.path().join("program");
        if std::fs::hard_link(fixture(), &program).is_err() {
            std::fs::copy(fixture(), &program).unwrap();
        }
        let mut settings = Settings::new(
            root.path().join("sessions"),
            program,
            root.path().join("harnesses"),
        );
        settings.exposed = vec![root.path().join("exposed")];
        settings.isolation = isolation;
        Self {
            sandboxes: Sandboxes::new(settings.clone()),
            settings,
            root,
        }
    }

    fn start(&self, session: &str, kind: Kind, script: &str) -> Result<Status, Refusal> {
        self.sandboxes
            .start(&identity(session), &spec(), &|_| Secret::new(script), kind)
    }

    fn folder(&self, session: &str) -> PathBuf {
        self.root.path().join("sessions/proj").join(session)
    }

    /// What the daemon left in its workspace, once it is complete.
    fn left(&self, session: &str, name: &str) -> String {
        let path = self.folder(session).join("workspace").join(name);
        let mut text = String::new();
        wait_until(name, || {
            text = std::fs::read_to_string(&path).unwrap_or_default();
            text.ends_with("end\n")
        });
        text
    }

    fn end(&self, session: &str) {
        self.sandboxes
            .stop(&identity(session), Keep::Nothing)
            .unwrap();
        assert!(!self.folder(session).exists());
    }
}

impl Drop for Ground {
    /// A failed test leaves nothing running either.
    fn drop(&mut self) {
        for installation in ["inst", "another"] {
            let Ok(page) = self.sandboxes.owned(installation, None) else {
                continue;
            };
            for (whose, _) in page.entries {
                let _ = self.sandboxes.stop(&whose, Keep::Nothing);
            }
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

const LEVELS: [Level; 3] = [Level::Namespaces, Level::Landlock, Level::None];

// LOC-002
#[test]
fn the_probe_proves_the_best_level_and_never_falls_to_none() {
    let best = Ground::new(Isolation::Auto);
    let facts = best.sandboxes.probe();
    assert_eq!(
        (facts.level, facts.problem),
        (Some(Level::Namespaces), None)
    );
    assert!(facts.enforced.processes && facts.cpus > 0 && facts.memory_mib > 0);
    for level in LEVELS {
        assert_eq!(
            Ground::new(Isolation::Only(level)).sandboxes.probe().level,
            Some(level)
        );
    }
    let mut settings = Settings::new(
        best.root.path().join("sessions"),
        best.root.path().join("no-program"),
        best.root.path().join("no-harness"),
    );
    settings.isolation = Isolation::Auto;
    let broken = Sandboxes::new(settings);
    assert_eq!(broken.probe().level, None);
    assert_eq!(broken.probe().problem, Some("namespaces_unavailable"));
    let refused = broken.start(
        &identity("none"),
        &spec(),
        &|_| Secret::new("x"),
        Kind::First,
    );
    assert!(
        matches!(refused, Err(Refusal::Refused("namespaces_unavailable"))),
        "{refused:?}"
    );
    assert!(!best.folder("none").exists(), "a refusal makes nothing");
}

// LOC-005, LOC-006, LOC-008
#[test]
fn inside_are_the_account_the_view_and_the_limits() {
    let ground = Ground::new(Isolation::Only(Level::Namespaces));
    let script = "exec > seen; pwd; id -u; id -un; id -gn; echo $HOME; ls /; cat /etc/passwd; hostname; ulimit -n; ulimit -c; \
                  cat /opt/berth/harnesses/codex/program; echo; ls /opt/berth/bin; ls /dev; echo \"$@\"; \
                  touch /usr/x /x /etc/x /opt/berth/harnesses/x /dev/x 2>/dev/null && echo written; \
                  touch /tmp/x /home/agent/x /dev/shm/x && echo ok; \
                  grep -E 'NoNewPrivs|CapEff|CapPrm' /proc/self/status; tr '\\0' '\\n' </proc/1/environ; \
                  ls -d /proc/[0-9]* | wc -l; echo end; sleep 600";
    let status = ground.start("view", Kind::First, script).unwrap();
    assert!(status.running && status.bootstrapped && status.level == Level::Namespaces);
    let seen = ground.left("view", "seen");
    let name = identity("view").name;
    let expected = format!(
        "/workspace\n1000\nagent\nagent\n/home/agent\nberth\nbin\ndev\netc\nhome\nlib\nlib64\nopt\nproc\ntmp\nusr\nworkspace\n\
         agent:x:1000:1000::/home/agent:/bin/sh\n{name}\n4096\n0\nsentinel harnesses/codex/program\nberth\n\
         fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n\
         --harness-dir /opt/berth/harnesses --home /home/agent --bootstrap /berth/bootstrap.json\nok\n\
         CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n"
    );
    let (view, rest) = seen.split_at(expected.len().min(seen.len()));
    assert_eq!(view, expected);
    assert!(!rest.contains('='), "process 1 has no environment: {rest}");
    let owner = std::fs::metadata(ground.folder("view").join("workspace/seen"))
        .unwrap()
        .uid();
    if is_root() {
        assert!((61184..=65519).contains(&owner));
    } else {
        assert_eq!(owner, rustix::process::geteuid().as_raw());
    }
    ground.end("view");
}

// LOC-006, LOC-008: processes are counted for each account, so two Cores of one machine never share one, even where both
// begin at the same place of the range.
#[test]
fn two_cores_of_one_machine_give_their_sandboxes_different_accounts() {
    if !is_root() {
        return;
    }
    let grounds = [(); 2].map(|()| Ground::new(Isolation::Only(Level::Namespaces)));
    let owners = grounds.each_ref().map(|ground| {
        ground
            .start("one", Kind::First, "echo end > seen; exec sleep 600")
            .unwrap();
        ground.left("one", "seen");
        let workspace = ground.folder("one").join("workspace");
        std::fs::metadata(workspace).unwrap().uid()
    });
    assert_ne!(owners[0], owners[1]);
    for ground in &grounds {
        ground.end("one");
    }
}

// LOC-001, LOC-009: everything that a full-access agent could try, against sentinels readable for everybody.
#[test]
fn nothing_of_core_or_of_another_sandbox_can_be_read_from_inside() {
    for level in LEVELS {
        let ground = Ground::new(Isolation::Only(level));
        let at = ground.root.path().display();
        let core = std::process::id();
        ground
            .start(
                "other",
                Kind::First,
                "echo sentinel > secret; echo end > seen; exec sleep 600",
            )
            .unwrap();
        ground.left("other", "seen");
        let other = ground.folder("other");
        let script = format!(
            "exec > seen 2>/dev/null; cat {at}/credential.key {other}/workspace/secret {other}/state/bootstrap.json \
             {other}/sandbox.json {other}/init.json; ls {other} {other}/home; cat /proc/*/root{at}/credential.key; \
             for p in /proc/[0-9]*; do case $p in */$$) continue;; esac; cat $p/environ | tr '\\0' '\\n' | grep sentinel; \
             head -c 1 $p/mem; ls $p/root/; done; timeout 1 cat /proc/{core}/fd/* | grep -a sentinel; [ {level} = x ] || kill -9 {core} && echo killed; [ {level} = l ] && kill -9 1 && echo killed; \
             chmod 777 {at}/credential.key {other}/workspace/secret {other}; \
             echo x > {at}/new; ln {at}/credential.key stolen && echo linked; \
             cat {at}/exposed/tool; echo; cat /etc/shadow; echo end; exec sleep 600",
            other = other.display(),
            level = match level {
                Level::Namespaces => "n",
                Level::Landlock => "l",
                Level::None => "x",
            },
        );
        ground.start("spy", Kind::First, &script).unwrap();
        // The exposed folder is what the operator wanted to be seen.
        let seen = ground.left("spy", "seen");
        if level == Level::None {
            // The control: where nothing stands between them, the same search finds it.
            assert!(seen.contains("sentinel credential.key"), "{seen}");
            ground.end("spy");
            ground.end("other");
            continue;
        }
        assert!(!ground.root.path().join("new").exists());
        // Landlock knows no right to a mode, so there an account of its own must keep a sandbox from it.
        if level == Level::Namespaces || is_root() {
            let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
            assert_eq!(mode(&other), 0o711, "{level:?}");
            let untouched = [
                ground.root.path().join("credential.key"),
                other.join("workspace/secret"),
            ];
            assert!(
                untouched.iter().all(|path| mode(path) & 0o111 == 0),
                "{level:?}"
            );
        }
        assert!(
            !seen.contains("credential") && !seen.contains("killed"),
            "{level:?}: {seen}"
        );
        assert_eq!(seen, "sentinel exposed/tool\nend\n", "{level:?}");
        ground.end("spy");
        ground.end("other");
    }
}

/// A service that says so to whoever can connect to it.
fn tells<L: Send + 'static>(
    listener: L,
    accept: impl Fn(&L) -> std::io::Result<std::os::unix::net::UnixStream> + Send + 'static,
) {
    std::thread::spawn(move || {
        while let Ok(mut client) = accept(&listener) {
            let _ = std::io::Write::write_all(&mut client, b"sentinel");
        }
    });
}

// LOC-001, LOC-002: a database that trusts an account, the user's own systemd, a container engine: each is a socket.
#[test]
fn no_service_of_this_machine_is_reached_through_a_unix_socket() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
    for level in LEVELS {
        let ground = Ground::new(Isolation::Only(level));
        let at = ground.root.path().display();
        let (stream, datagram) = (
            ground.root.path().join("stream"),
            ground.root.path().join("datagram"),
        );
        let abstracted = format!("berth-sentinel-{}-{}", std::process::id(), level.name());
        let nameless = SocketAddr::from_abstract_name(&abstracted).unwrap();
        tells(UnixListener::bind(&stream).unwrap(), |listener| {
            Ok(listener.accept()?.0)
        });
        tells(UnixListener::bind_addr(&nameless).unwrap(), |listener| {
            Ok(listener.accept()?.0)
        });
        let datagrams = UnixDatagram::bind(&datagram).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        for path in [&stream, &datagram] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        }
        let program = match level {
            Level::Namespaces => "/opt/berth/bin/berth".to_owned(),
            _ => format!("{at}/program"),
        };
        let asks = format!("{program} sockets {at}/stream {abstracted} {at}/datagram");
        // As a harness has it; the control is without a supervisor, too.
        let asks = match level {
            Level::None => asks,
            _ => format!("{program} hide '{asks}'"),
        };
        let script = format!("{asks} > seen; echo end >> seen; exec sleep 600");
        ground.start("spy", Kind::First, &script).unwrap();
        let seen = ground.left("spy", "seen");
        let mut received = [0; 8];
        let received = datagrams.recv(&mut received).is_ok();
        if level == Level::None {
            // The control.
            let all = "stream sentinel\nabstract sentinel\ndatagram sent\npair works\nnetwork works\nend\n";
            assert_eq!((seen.as_str(), received), (all, true));
        } else {
            assert_eq!(
                (seen.as_str(), received),
                ("pair works\nnetwork works\nend\n", false),
                "{level:?}"
            );
        }
        ground.end("spy");
    }
}

// LOC-011: however long the path of the data folder is, the daemon is told where Core waits, and it is there.
#[test]
fn the_daemon_finds_the_socket_of_its_core_in_its_own_folder() {
    for level in LEVELS {
        let mut ground = Ground::new(Isolation::Only(level));
        let link = ground.root.path().join("long".repeat(40)).join("link");
        let _first = berth_machine::socket::listen(&link.join("core.sock")).unwrap();
        ground.settings.core = Some(link.clone());
        ground.sandboxes = Sandboxes::new(ground.settings.clone());
        let script = |seen: &Seen<'_>| {
            let path = seen.core.unwrap();
            assert_eq!(
                path == "/berth/core/core.sock",
                level == Level::Namespaces,
                "{path}"
            );
            let until = format!(
                "[ ! -e again ]; do sleep 0.02; done; [ -S {path} ] && stat -c %i {path} > seen; echo end >> seen"
            );
            Secret::new(format!(
                "stat -c %i {path} > before; touch {path}.x 2>/dev/null; echo end >> before; while {until}; exec sleep 600"
            ))
        };
        ground
            .sandboxes
            .start(&identity("one"), &spec(), &script, Kind::First)
            .unwrap();
        let number = || {
            format!(
                "{}\nend\n",
                std::fs::metadata(link.join("core.sock")).unwrap().ino()
            )
        };
        assert_eq!(ground.left("one", "before"), number());
        // Another Core makes another socket, which a running sandbox sees.
        let _second = berth_machine::socket::listen(&link.join("core.sock")).unwrap();
        std::fs::write(ground.folder("one").join("workspace/again"), "").unwrap();
        assert_eq!(ground.left("one", "seen"), number());
        if level != Level::None {
            assert_eq!(
                std::fs::read_dir(&link).unwrap().count(),
                1,
                "{level:?}: nothing can be put beside it"
            );
        }
        ground.end("one");
    }
}

// LOC-001, LOC-002: terminals and shared memory of this machine are somebody's, and without namespaces there are no others.
#[test]
fn no_terminal_and_no_shared_memory_of_this_machine_can_be_opened_from_inside() {
    let memory = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    std::fs::write(memory.path(), "sentinel in memory").unwrap();
    std::fs::set_permissions(memory.path(), PermissionsExt::from_mode(0o666)).unwrap();
    let name = memory.path().to_str().unwrap();
    let master = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/ptmx")
        .unwrap();
    let about = format!(
        "/proc/self/fdinfo/{}",
        std::os::fd::AsRawFd::as_raw_fd(&master)
    );
    let about = std::fs::read_to_string(about).unwrap();
    let terminal = about
        .lines()
        .find_map(|line| line.strip_prefix("tty-index:"))
        .unwrap();
    let terminal = format!("/dev/pts/{}", terminal.trim());
    // The control: who sees them may open them, and a terminal then says that it is locked.
    std::fs::File::open(name).unwrap();
    let locked = std::fs::File::open(&terminal).unwrap_err();
    assert_eq!(
        locked.raw_os_error(),
        Some(rustix::io::Errno::IO.raw_os_error())
    );
    let script = format!(
        "exec > seen 2>&1; cat {name}; echo x >> {name}; cat {terminal}; echo x > /dev/null; head -c 1 /dev/zero | wc -c; \
         echo end; exec sleep 600"
    );
    for level in [Level::Namespaces, Level::Landlock] {
        let ground = Ground::new(Isolation::Only(level));
        ground.start("devices", Kind::First, &script).unwrap();
        let seen = ground.left("devices", "seen");
        assert!(!seen.contains("sentinel"), "{level:?}: {seen}");
        // A terminal that is locked says so only to those who may open it.
        assert!(!seen.contains("Input/output"), "{level:?}: {seen}");
        assert!(seen.ends_with("1\nend\n"), "{level:?}: {seen}");
        assert_eq!(
            std::fs::read_to_string(name).unwrap(),
            "sentinel in memory",
            "{level:?}"
        );
        ground.end("devices");
    }
}

// LOC-011: without a mount namespace the daemon is told the real places.
#[test]
fn without_a_mount_namespace_the_daemon_gets_real_paths() {
    for level in [Level::Landlock, Level::None] {
        let ground = Ground::new(Isolation::Only(level));
        let script = "exec > seen; pwd; echo $HOME; echo \"$@\"; echo end; exec sleep 600";
        let told = std::cell::RefCell::new(String::new());
        let bootstrap = |seen: &Seen<'_>| {
            let workspace = seen.workspace;
            told.replace(workspace.to_owned());
            Secret::new(script)
        };
        ground
            .sandboxes
            .start(&identity("real"), &spec(), &bootstrap, Kind::First)
            .unwrap();
        let here = ground.folder("real").canonicalize().unwrap();
        let (here, root) = (here.display(), ground.root.path().canonicalize().unwrap());
        assert_eq!(
            ground.left("real", "seen"),
            format!(
                "{here}/workspace\n{here}/home\n--harness-dir {}/harnesses --home {here}/home --bootstrap {here}/state/bootstrap.json\nend\n",
                root.display()
            )
        );
        assert_eq!(*told.borrow(), format!("{here}/workspace"));
        ground.end("real");
    }
}

// LOC-022
#[test]
fn a_second_create_finds_the_first_and_changes_nothing() {
    let ground = Ground::new(Isolation::Auto);
    ground
        .start("twice", Kind::First, "echo end > seen; exec sleep 600")
        .unwrap();
    ground.left("twice", "seen");
    for kind in [Kind::First, Kind::Again] {
        let again = ground.start("twice", kind, "echo end > other; exec sleep 600");
        assert!(matches!(again, Err(Refusal::Exists)), "{again:?}");
    }
    let mut foreign = identity("twice");
    foreign.allocation = "another".into();
    let start = ground
        .sandboxes
        .start(&foreign, &spec(), &|_| Secret::new("true"), Kind::First);
    assert!(matches!(start, Err(Refusal::NotOurs)), "{start:?}");
    assert!(matches!(
        ground.sandboxes.inspect(&foreign),
        Err(Refusal::NotOurs)
    ));
    assert!(matches!(
        ground.sandboxes.stop(&foreign, Keep::Nothing),
        Err(Refusal::NotOurs)
    ));
    assert!(
        ground
            .sandboxes
            .inspect(&identity("twice"))
            .unwrap()
            .running
    );
    assert!(!ground.folder("twice").join("workspace/other").exists());
    ground.end("twice");
    assert!(matches!(
        ground.sandboxes.inspect(&identity("twice")),
        Err(Refusal::NotFound)
    ));
    assert!(matches!(
        ground.sandboxes.stop(&identity("twice"), Keep::Nothing),
        Err(Refusal::NotFound)
    ));
}

// LOC-020: the daemon dies, the sandbox does not.
#[test]
fn a_dead_daemon_is_started_again_with_the_same_bootstrap() {
    for level in LEVELS {
        let ground = Ground::new(Isolation::Only(level));
        ground
            .start("again", Kind::First, "echo x >> starts; kill -9 $$")
            .unwrap();
        let starts = ground.folder("again").join("workspace/starts");
        wait_until("three starts", || {
            std::fs::read(&starts).is_ok_and(|starts| starts.len() >= 6)
        });
        let status = ground.sandboxes.inspect(&identity("again")).unwrap();
        assert!(
            status.running && status.restarts >= 2,
            "{level:?}: {status:?}"
        );
        ground.end("again");
    }
}

// LOC-020: nor does an agent keep its daemon from coming back by what it makes of the workspace.
#[test]
fn a_closed_workspace_keeps_no_daemon_from_starting() {
    for level in LEVELS {
        let ground = Ground::new(Isolation::Only(level));
        let mark = format!("612.{}{}", std::process::id(), level as u8);
        let script =
            format!("[ \"$(pwd)\" = / ] && exec sleep {mark}; chmod 0 \"$(pwd)\"; kill -9 $$");
        ground.start("closed", Kind::First, &script).unwrap();
        wait_until("it runs", || processes_with(&mark) == 1);
        ground.end("closed");
    }
}

fn processes_with(argument: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    arguments
        .filter(|line| {
            line.split(|byte| *byte == 0)
                .any(|part| part == argument.as_bytes())
        })
        .count()
}

// LOC-023
#[test]
fn stopping_ends_everything_and_keeps_or_removes_the_folders() {
    for level in LEVELS {
        let ground = Ground::new(Isolation::Only(level));
        let mark = format!("611.{}{}", std::process::id(), level as u8);
        let script = format!(
            "trap '' TERM; setsid sh -c 'sleep {mark} & sleep {mark}' & (setsid sleep {mark} &); mkdir locked; \
             echo x > locked/x; chmod 0 locked; odd=$(printf '\\377'); ln -s /bin/sh $odd; \
             ./$odd -c 'cat /proc/$$/comm > name; sleep {mark}; :' & \
             while [ ! -s name ]; do sleep 0.01; done; echo end > seen; sleep {mark}"
        );
        let status = ground.start("stop", Kind::First, &script).unwrap();
        assert!(status.memory_bytes.is_some());
        ground.left("stop", "seen");
        // A process chooses its own name, any bytes.
        let name = std::fs::read(ground.folder("stop").join("workspace/name")).unwrap();
        assert_eq!(name, b"\xff\n");
        wait_until("all run", || processes_with(&mark) >= 5);
        ground
            .sandboxes
            .stop(&identity("stop"), Keep::Folders)
            .unwrap();
        assert_eq!(processes_with(&mark), 0, "{level:?}");
        let status = ground.sandboxes.inspect(&identity("stop")).unwrap();
        assert!(!status.running && !status.bootstrapped);
        ground
            .sandboxes
            .stop(&identity("stop"), Keep::Folders)
            .unwrap();
        assert!(ground.folder("stop").join("workspace/seen").exists());
        ground
            .start("stop", Kind::Again, "cat seen > second; exec sleep 600")
            .unwrap();
        ground.left("stop", "second");
        ground.end("stop");
        assert!(
            !ground.root.path().join("sessions/proj").exists(),
            "the last one takes the tenant's folder"
        );
        // A removal that was interrupted at its very end; it is repeated.
        let left = ground.root.path().join("sessions/proj/.new-stop");
        std::fs::create_dir_all(left.join("workspace")).unwrap();
        assert!(matches!(
            ground.sandboxes.stop(&identity("stop"), Keep::Nothing),
            Err(Refusal::NotFound)
        ));
        assert!(!ground.root.path().join("sessions/proj").exists());
    }
}

// LOC-021: a killed init takes everything with it and is seen as stopped, not as another process.
#[test]
fn a_killed_init_leaves_its_folders_and_no_process() {
    let ground = Ground::new(Isolation::Only(Level::Namespaces));
    let mark = format!("612.{}", std::process::id());
    ground
        .start(
            "init",
            Kind::First,
            &format!("setsid sleep {mark} & echo end > seen; exec sleep {mark}"),
        )
        .unwrap();
    ground.left("init", "seen");
    let record = ground.folder("init").join("init.json");
    let init: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    assert!(
        Command::new("/bin/kill")
            .args(["-9", &init["pid"].to_string()])
            .status()
            .unwrap()
            .success()
    );
    wait_until("nothing runs", || processes_with(&mark) == 0);
    // An init ends after the last process of its namespace.
    wait_until("it is seen as stopped", || {
        !ground.sandboxes.inspect(&identity("init")).unwrap().running
    });
    // The number now belongs to a process of ours; its record must not authorize anything.
    let mut bystander = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    let mut stale = init;
    stale["pid"] = bystander.id().into();
    std::fs::write(&record, serde_json::to_vec(&stale).unwrap()).unwrap();
    assert!(!ground.sandboxes.inspect(&identity("init")).unwrap().running);
    ground.end("init");
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

// LOC-008: the limit holds for the whole sandbox, and another one is not touched by it.
#[test]
fn a_fork_bomb_stops_at_the_limit_of_its_sandbox() {
    let ground = Ground::new(Isolation::Only(Level::Namespaces));
    let mut limited = spec();
    limited.limits.processes = Some(40);
    let script = "i=0; while [ $i -lt 100 ]; do sleep 600 2>/dev/null & i=$((i+1)); done; echo unlimited > unlimited";
    let bomb = identity("bomb");
    ground
        .sandboxes
        .start(&bomb, &limited, &|_| Secret::new(script), Kind::First)
        .unwrap();
    // A shell that cannot fork ends, and the init starts it again.
    wait_until("the limit ends the daemon", || {
        ground.sandboxes.inspect(&bomb).unwrap().restarts > 0
    });
    assert!(!ground.folder("bomb").join("workspace/unlimited").exists());
    ground
        .start(
            "calm",
            Kind::First,
            "true && true; (true); echo end > seen; exec sleep 600",
        )
        .unwrap();
    ground.left("calm", "seen");
    ground.end("bomb");
    ground.end("calm");
}

#[test]
fn owned_lists_the_records_of_an_installation_in_pages() {
    let ground = Ground::new(Isolation::Only(Level::None));
    for session in ["a", "b"] {
        ground
            .start(session, Kind::First, "exec sleep 600")
            .unwrap();
    }
    let mut foreign = identity("c");
    foreign.installation = "another".into();
    ground
        .sandboxes
        .start(
            &foreign,
            &spec(),
            &|_| Secret::new("exec sleep 600"),
            Kind::First,
        )
        .unwrap();
    let page = ground.sandboxes.owned("inst", None).unwrap();
    let sessions: Vec<_> = page
        .entries
        .iter()
        .map(|(whose, status)| (whose.session.as_str(), status.running))
        .collect();
    assert_eq!(
        (sessions, page.next),
        (vec![("a", true), ("b", true)], None)
    );
    let rest = ground.sandboxes.owned("inst", Some("proj/a")).unwrap();
    assert_eq!(rest.entries.len(), 1);
    ground.sandboxes.stop(&foreign, Keep::Nothing).unwrap();
    ground.end("a");
    ground.end("b");
}

// LOC-022, LOC-023: what an interrupted making left is no sandbox, and goes with the Session all the same.
#[test]
fn stopping_removes_what_an_interrupted_making_left() {
    let ground = Ground::new(Isolation::Only(Level::None));
    let tenant = ground.root.path().join("sessions/proj");
    std::fs::create_dir_all(tenant.join(".new-half/home")).unwrap();
    std::fs::write(tenant.join(".new-half/home/x"), "x").unwrap();
    std::fs::create_dir_all(tenant.join(".new-other")).unwrap();
    let half = identity("half");
    let missing = |answer| matches!(answer, Err(Refusal::NotFound));
    assert!(missing(ground.sandboxes.inspect(&half).map(drop)));
    assert!(missing(ground.sandboxes.stop(&half, Keep::Nothing)));
    assert!(!tenant.join(".new-half").exists() && tenant.join(".new-other").exists());
    let other = identity("other");
    assert!(missing(ground.sandboxes.stop(&other, Keep::Nothing)));
    assert!(!tenant.exists(), "the last one takes the tenant's folder");
    assert!(missing(ground.sandboxes.stop(&other, Keep::Nothing)));
}

// SP-3.6: before a sandbox has its name, a failure has changed nothing and says so.
#[test]
fn a_start_that_fails_before_its_first_effect_is_refused() {
    let ground = Ground::new(Isolation::Only(Level::None));
    let refused = || match ground.start("first", Kind::First, "exec sleep 600") {
        Err(Refusal::Refused(code)) => code,
        other => panic!("{other:?}"),
    };
    // The probe makes the folder of all sandboxes.
    ground.sandboxes.probe();
    let sessions = ground.root.path().join("sessions");
    std::os::unix::fs::symlink("nowhere", sessions.join("proj")).unwrap();
    assert_eq!(refused(), "folder_failed");
    std::fs::remove_file(sessions.join("proj")).unwrap();
    let lock = sessions.join(".lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    assert_eq!(refused(), "accounts_unreadable");
    std::fs::remove_dir(&lock).unwrap();
    ground
        .start("first", Kind::First, "exec sleep 600")
        .unwrap();
    ground.end("first");
}

// LOC-006: one broken record keeps no other sandbox from being made, and no account is given twice.
#[test]
fn a_broken_record_costs_only_its_own_sandbox() {
    let ground = Ground::new(Isolation::Only(Level::Namespaces));
    let begin = |session| ground.start(session, Kind::First, "exec sleep 600");
    begin("broken").unwrap();
    let path = ground.folder("broken").join("sandbox.json");
    let record = std::fs::read(&path).unwrap();
    std::fs::write(&path, "no record").unwrap();
    begin("whole").unwrap();
    let account = |session| {
        let workspace = ground.folder(session).join("workspace");
        std::fs::metadata(workspace).unwrap().uid()
    };
    assert_eq!(is_root(), account("broken") != account("whole"));
    ground.end("whole");
    std::fs::write(&path, record).unwrap();
    ground.end("broken");
}

// LOC-006, LOC-007: what cannot be kept is refused before anything is made.
#[test]
fn an_impossible_specification_makes_nothing() {
    let ground = Ground::new(Isolation::Auto);
    let refused = |change: &dyn Fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        match ground.sandboxes.start(
            &identity("bad"),
            &spec,
            &|_| Secret::new("true"),
            Kind::First,
        ) {
            Err(Refusal::Refused(code)) => code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        refused(&|spec| spec.view[0].writable = true),
        "mount_not_writable"
    );
    assert_eq!(refused(&|spec| spec.uid = 0), "account_invalid");
    assert_eq!(
        refused(&|spec| spec.account = "a:b".into()),
        "account_invalid"
    );
    assert_eq!(
        refused(&|spec| spec.view[0].inside = "usr".into()),
        "mount_invalid"
    );
    assert_eq!(
        refused(&|spec| spec.bootstrap_path = "/tmp/x".into()),
        "bootstrap_path_invalid"
    );
    let mut outside = identity("bad");
    outside.session = "../x".into();
    let start = ground
        .sandboxes
        .start(&outside, &spec(), &|_| Secret::new("true"), Kind::First);
    assert!(matches!(start, Err(Refusal::Refused("identity_invalid"))));
    assert!(!ground.folder("bad").exists());
}

/// The same tests as an ordinary user: once, from the run as root.
#[test]
fn all_of_this_holds_for_an_ordinary_user() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    // Whoever we become may not enter the folder that we were built in.
    let [tests, program] = ["tests", "fixture"].map(|name| folder.path().join(name));
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::copy(fixture(), &program).unwrap();
    let status = Command::new("/usr/bin/setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(tests)
        .arg("--test-threads=1")
        .env(FIXTURE, program)
        .env("TMPDIR", folder.path())
        .env("RUST_BACKTRACE", "0")
        .current_dir(Path::new("/"))
        .output()
        .unwrap();
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stdout)
    );
}
