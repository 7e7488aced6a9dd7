//! A PostgreSQL server for one test process, where the test run has not started a common one.

#![allow(clippy::expect_used, clippy::panic)]

use std::{
    net::TcpListener,
    os::unix::process::CommandExt,
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

/// Folders of such servers, each with the number of the process that it was made for.
const FOLDER: &str = "berth-store-postgres-";

/// Waits for the end of the process at the other end of its standard input, however it ends; then the server goes, and its folder.
const KEEPER: &str =
    r#"folder=$1; shift; "$@" </dev/null & read -r _; kill -QUIT $!; wait; rm -rf "$folder""#;

/// Removes what processes left whose keeper was killed with them.
fn sweep(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(FOLDER));
        let of = of.and_then(|of| of.parse::<u32>().ok());
        if of.is_some_and(|of| !Path::new("/proc").join(of.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Starts a private cluster without fsync; the server ends with this process, and nothing of it stays.
fn start() -> String {
    let programs = programs();
    let parent = std::env::temp_dir();
    sweep(&parent);
    let folder = parent.join(format!("{FOLDER}{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let root = id(&["-u"]) == "0";
    if root {
        run(Command::new("chown").args(["-R", "postgres"]).arg(&folder));
    }
    let data = folder.join("data");
    let mut user = vec!["setpriv".to_owned()];
    if root {
        let group = id(&["-g", "postgres"]);
        user.extend(
            ["--reuid", "postgres", "--regid", &group, "--clear-groups"].map(str::to_owned),
        );
    }
    user.extend(["--pdeathsig", "KILL", "--"].map(str::to_owned));
    let mut init = Command::new(&user[0]);
    init.args(&user[1..])
        .arg(programs.join("initdb"))
        .current_dir(&folder);
    run(init.arg("-D").arg(&data).args([
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
    let keeper = Command::new("sh")
        .args(["-c", KEEPER, "keeper"])
        .arg(&folder)
        .args(&user)
        .arg(programs.join("postgres"))
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
        .args(["-c", "fsync=off", "-c", "max_connections=300", "-c"])
        .arg(format!("unix_socket_directories={}", folder.display()))
        .current_dir(&folder)
        // Who ends a test ends its group.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("PostgreSQL starts");
    // Its input is open until this process is gone.
    std::mem::forget(keeper);
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
