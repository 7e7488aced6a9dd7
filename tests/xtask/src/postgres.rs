//! One private PostgreSQL server for one test run: installed if missing, started as an unprivileged user on a free port, gone with us.

use crate::shell::{on_path, program, quietly};
use crate::tools::{apt_install, is_root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a fresh cluster may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running server; dropping it stops the server and removes its files.
pub struct Postgres {
    server: Child,
    folder: PathBuf,
    /// `postgres://berth@127.0.0.1:PORT/postgres`, a superuser: suites make a database of their own for each test.
    pub url: String,
}

/// Installs PostgreSQL where it is missing. Separate from [`start`] so that it can run beside the build.
pub fn install() -> Result<PathBuf> {
    if let Some(folder) = programs() {
        return Ok(folder);
    }
    apt_install(&["postgresql"])?;
    programs().context("PostgreSQL was installed, but its `initdb` is nowhere under /usr/lib/postgresql or on the search path")
}

/// The folder with `initdb` and `postgres`, newest version first.
fn programs() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin"),
            ))
        })
        .filter(|(_, folder)| folder.join("initdb").is_file())
        .collect();
    versions.sort();
    let packaged = versions.pop().map(|(_, folder)| folder);
    packaged.or_else(|| {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .find(|folder| folder.join("initdb").is_file())
    })
}

/// Starts a new cluster without durability: tests kill our processes, not the machine.
pub fn start(programs: &Path) -> Result<Postgres> {
    let user = if is_root()? {
        Some(unprivileged_user()?)
    } else {
        None
    };
    // Not under `target`: the unprivileged user may not be able to enter a home folder.
    let folder = std::env::temp_dir().join(format!("berth-test-postgres-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    if let Some(user) = &user {
        quietly(program("chown").arg(user).arg(&folder))?;
    }
    let data = folder.join("data");
    let run = |name: &str| -> Command { as_user(user.as_deref(), &programs.join(name), &folder) };
    quietly(run("initdb").arg("-D").arg(&data).args([
        "-U",
        "berth",
        "--auth=trust",
        "--no-sync",
        "--encoding=UTF8",
        "--locale=C",
    ]))?;

    let port = free_port()?;
    let log = std::fs::File::create(folder.join("log"))?;
    let server = run("postgres")
        .arg("-D")
        .arg(&data)
        .args([
            "-p",
            &port.to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
            "-c",
            "full_page_writes=off",
        ])
        .args([
            "-c",
            "max_connections=300",
            "-c",
            "shared_buffers=64MB",
            "-c",
        ])
        .arg(format!("unix_socket_directories={}", folder.display()))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start PostgreSQL")?;
    let mut postgres = Postgres {
        server,
        folder,
        url: format!("postgres://berth@127.0.0.1:{port}/postgres"),
    };

    let deadline = Instant::now() + READY_WITHIN;
    loop {
        if let Some(status) = postgres.server.try_wait()? {
            bail!("PostgreSQL ended with {status}:\n{}", postgres.log());
        }
        if quietly(Command::new(programs.join("pg_isready")).args([
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
        ]))
        .is_ok()
        {
            println!("PostgreSQL is ready on port {port}");
            return Ok(postgres);
        }
        if Instant::now() > deadline {
            bail!(
                "PostgreSQL did not answer within {} s:\n{}",
                READY_WITHIN.as_secs(),
                postgres.log()
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Postgres {
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT is "fast shutdown"; after that nothing of it is wanted.
        let _ = Command::new("kill")
            .args(["-INT", &self.server.id().to_string()])
            .status();
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.server.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// PostgreSQL refuses to run as root.
fn unprivileged_user() -> Result<String> {
    ["postgres", "nobody"]
        .into_iter()
        .find(|user| quietly(program("id").args(["-u", user])).is_ok())
        .map(str::to_owned)
        .context("this machine has neither a user `postgres` nor a user `nobody` to run PostgreSQL as; run the tests as an ordinary user")
}

/// The command, as `user` if we are root, and with a parent-death signal where `setpriv` can give one: a killed test run leaves no server.
fn as_user(user: Option<&str>, command: &Path, folder: &Path) -> Command {
    let mut outer = Command::new(if on_path("setpriv") { "setpriv" } else { "su" });
    match (on_path("setpriv"), user) {
        (true, Some(user)) => {
            outer
                .args(["--reuid", user, "--regid"])
                .arg(group_of(user))
                .args(["--clear-groups", "--pdeathsig", "QUIT", "--"])
                .arg(command);
        }
        (true, None) => {
            outer.args(["--pdeathsig", "QUIT", "--"]).arg(command);
        }
        (false, Some(user)) => {
            outer
                .args(["-s", "/bin/sh", user, "-c", "exec \"$0\" \"$@\""])
                .arg(command);
        }
        (false, None) => outer = Command::new(command),
    }
    outer.current_dir(folder);
    outer
}

fn group_of(user: &str) -> String {
    quietly(program("id").args(["-g", user]))
        .map_or_else(|_| user.to_owned(), |group| group.trim().to_owned())
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}
