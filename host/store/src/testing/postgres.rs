//! A PostgreSQL server for one test process, where the test run has not started a common one.

#![allow(clippy::expect_used, clippy::panic)]

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Names a server to use instead; a superuser URL without a password.
const VARIABLE: &str = "BERTH_TEST_POSTGRES_URL";

/// The server's URL, with a trailing database that always exists.
pub(super) fn url() -> String {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| std::env::var(VARIABLE).unwrap_or_else(|_| start()))
        .clone()
}

/// Starts a private cluster without fsync; the server dies with this process and leaves only its temporary folder.
fn start() -> String {
    let programs = programs();
    let folder = std::env::temp_dir().join(format!("berth-store-postgres-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let root = id(&["-u"]) == "0";
    if root {
        run(Command::new("chown").args(["-R", "postgres"]).arg(&folder));
    }
    let data = folder.join("data");
    let as_user = |program: &str| {
        let mut command = Command::new("setpriv");
        if root {
            command.args([
                "--reuid",
                "postgres",
                "--regid",
                &id(&["-g", "postgres"]),
                "--clear-groups",
            ]);
        }
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(programs.join(program))
            .current_dir(&folder);
        command
    };
    run(as_user("initdb").arg("-D").arg(&data).args([
        "-U",
        "berth",
        "--auth=trust",
        "--no-sync",
        "--encoding=UTF8",
        "--locale=C",
    ]));
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let log = std::fs::File::create(folder.join("log")).expect("a log");
    // The parent-death signal belongs to the thread that spawns, so that thread must live as long as the process.
    let (ready, wait) = std::sync::mpsc::channel();
    let mut server = as_user("postgres");
    server
        .arg("-D")
        .arg(&data)
        .args([
            "-p",
            &port.to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
        ])
        .args(["-c", "max_connections=300", "-c"])
        .arg(format!("unix_socket_directories={}", folder.display()))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log);
    std::thread::spawn(move || {
        let mut child = server.spawn().expect("PostgreSQL starts");
        let _ = ready.send(());
        let _ = child.wait();
        std::thread::park();
    });
    wait.recv().expect("PostgreSQL starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    let probe = || {
        Command::new(programs.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()])
            .status()
            .is_ok_and(|status| status.success())
    };
    while !probe() {
        assert!(Instant::now() < deadline, "PostgreSQL does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    format!("postgres://berth@127.0.0.1:{port}/postgres")
}

fn programs() -> PathBuf {
    let packaged = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<PathBuf> = packaged
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| bin.join("initdb").is_file())
        .collect();
    found.sort();
    found
        .pop()
        .or_else(|| {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path)
                .find(|folder: &PathBuf| Path::new(folder).join("initdb").is_file())
        })
        .unwrap_or_else(|| panic!("PostgreSQL is not installed: install it, or set {VARIABLE}"))
}

fn id(arguments: &[&str]) -> String {
    let output = Command::new("id")
        .args(arguments)
        .output()
        .expect("`id` runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn run(command: &mut Command) {
    let output = command.output().expect("the command runs");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
