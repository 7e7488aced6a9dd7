//! The real program under load: `berth serve` on a data folder of its own, with the scripted harness in the place of Codex.

use crate::http::{Connection, Events};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use harness_codex as _;
use hyper::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The model that Sessions name; nobody calls it.
pub const MODEL: &str = "scripted-1";
/// A start, an end or a release takes no longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs that take part.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `berth`.
    pub berth: PathBuf,
    /// `berth-scripted`.
    pub scripted: PathBuf,
    /// Folder of plugin files.
    pub plugins: PathBuf,
    /// This program, for ceilings that are processes of their own.
    pub bench: PathBuf,
    /// Where data folders are made: the disk that is measured.
    pub disk: PathBuf,
}

impl Programs {
    /// A folder on the disk that is measured, gone with the value.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn folder(&self) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix("berth-bench-")
            .tempdir_in(&self.disk)
            .with_context(|| format!("cannot make a folder in {}", self.disk.display()))
    }
}

/// A disk whose every fsync takes this much longer, by `strace`.
#[must_use]
pub fn on_a_slow_disk(program: &Path, delay: Duration) -> Command {
    let mut command = Command::new("strace");
    command
        .args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"])
        .args(["-e", "trace=fsync,fdatasync", "-e"])
        .arg(format!(
            "inject=fsync,fdatasync:delay_exit={}",
            delay.as_micros()
        ))
        .arg(program);
    command
}

/// Settings of a Core under load.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Turns at the same time.
    pub concurrency: u16,
    /// What each fsync takes longer.
    pub fsync_delay: Option<Duration>,
}

/// A Core that runs.
pub struct Server {
    folder: TempDir,
    programs: Programs,
    options: Options,
    child: Child,
    /// Its own process, also below `strace`.
    pub pid: u32,
    /// From the start of the process until it accepts requests.
    pub ready_after: Duration,
    address: SocketAddr,
    key: String,
}

impl Server {
    /// The first start on a new folder; a default model is set.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(programs: &Programs, options: Options) -> Result<Self> {
        let folder = programs.folder()?;
        install(&programs.scripted, &folder.path().join("d/harnesses"))?;
        let server = Self::launch(folder, programs.clone(), options).await?;
        let data = server.data();
        let key = data.join("model-key");
        std::fs::write(&key, "sk-nobody-asks")?;
        private(&key, 0o600)?;
        let set = Command::new(&programs.berth)
            .args(["model", "set", "--harness", "codex"])
            .args(["--protocol", "responses", "--model", MODEL])
            .args(["--base-url", "http://127.0.0.1:9/v1", "--api-key-file"])
            .arg(&key)
            .arg("--data-dir")
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .await?;
        ensure!(set.success(), "the default model could not be set");
        Ok(server)
    }

    /// The same folder again.
    ///
    /// # Errors
    /// It does not end or start.
    pub async fn restart(self) -> Result<Self> {
        let (folder, programs, options) = self.end().await?;
        Self::launch(folder, programs, options).await
    }

    /// Drains it and removes its folder.
    ///
    /// # Errors
    /// It does not end well.
    pub async fn stop(self) -> Result<()> {
        let (folder, ..) = self.end().await?;
        Ok(folder.close()?)
    }

    async fn end(mut self) -> Result<(TempDir, Programs, Options)> {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid)?).context("no pid")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .context("the Core does not end")??;
        ensure!(status.success(), "the Core ended with {status}");
        Ok((self.folder, self.programs, self.options))
    }

    async fn launch(folder: TempDir, programs: Programs, options: Options) -> Result<Self> {
        let data = folder.path().join("d");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(folder.path().join("core.log"))?;
        let mut command = match options.fsync_delay {
            Some(delay) => on_a_slow_disk(&programs.berth, delay),
            None => Command::new(&programs.berth),
        };
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--allow-loopback-model-urls", "--log-format", "json"])
            .args(["--executor-idle-seconds", "30", "--execution-concurrency"])
            .arg(options.concurrency.to_string())
            .arg("--data-dir")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let begun = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let output = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line())
            .await
            .context("the Core does not start")??;
        let ready_after = begun.elapsed();
        let Some(address) = line
            .as_deref()
            .and_then(|line| line.strip_prefix("berth is ready on http://"))
        else {
            let log = std::fs::read_to_string(folder.path().join("core.log"))?;
            bail!("the Core did not start: {line:?}\n{log}");
        };
        let address = address.parse()?;
        // What a first start says more must find a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let recorded: Value = serde_json::from_slice(&std::fs::read(data.join("server.json"))?)?;
        let pid = u32::try_from(recorded["pid"].as_u64().context("no pid in server.json")?)?;
        let key = std::fs::read_to_string(data.join("api-key"))?;
        Ok(Self {
            folder,
            programs,
            options,
            child,
            pid,
            ready_after,
            address,
            key: key.trim().to_owned(),
        })
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("d")
    }

    /// The API key of its first Project.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection to it.
    ///
    /// # Errors
    /// It is gone.
    pub async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, &self.key).await
    }

    /// A key of a Project of its own.
    ///
    /// # Errors
    /// It cannot be made.
    pub async fn stranger(&self) -> Result<String> {
        let core_key = std::fs::read_to_string(self.data().join("core-key"))?;
        let mut core = Connection::open(self.address, core_key.trim()).await?;
        let name = || Bytes::from_static(br#"{"name":"stranger"}"#);
        let made = core.ask(Method::POST, "/core/v1/projects", name()).await?;
        let project: Value = serde_json::from_slice(&made)?;
        let id = project["id"].as_str().context("a Project without an id")?;
        let path = format!("/core/v1/projects/{id}/keys");
        let issued: Value = serde_json::from_slice(&core.ask(Method::POST, &path, name()).await?)?;
        let key = issued["key"].as_str().context("a key without its text")?;
        Ok(key.to_owned())
    }

    /// Makes a Session and follows its first Turn from creation on.
    ///
    /// # Errors
    /// It is refused.
    pub async fn create(&self, placement: &str, message: &str) -> Result<Events> {
        let mut body = creation(placement, message);
        body["stream"] = json!(true);
        let path = "/v1/agents/sessions";
        self.connect()
            .await?
            .stream(Method::POST, path, &body)
            .await
    }

    /// Makes a Session whose first Turn has ended; its id.
    ///
    /// # Errors
    /// The Turn fails.
    pub async fn warm(&self, placement: &str) -> Result<String> {
        let message = crate::harness::timeline(&json!([{"say": "ready"}]));
        let mut events = self.create(placement, &message).await?;
        let created = events.until(&["session.created"]).await?;
        events.until(&["session.idle"]).await?;
        let id = created.data["session"]["id"].as_str();
        Ok(id.context("a Session without an id")?.to_owned())
    }

    /// Follows a Session from now on.
    ///
    /// # Errors
    /// It is gone.
    pub async fn follow(&self, session: &str) -> Result<Events> {
        let path = format!("/v1/agents/sessions/{session}/events");
        self.connect()
            .await?
            .stream(Method::GET, &path, &Value::Null)
            .await
    }

    /// Sends a message to a Session.
    ///
    /// # Errors
    /// It is refused.
    pub async fn say(&self, on: &mut Connection, session: &str, message: &str) -> Result<()> {
        let path = format!("/v1/agents/sessions/{session}/events");
        let content = json!([{"type": "input_text", "text": message}]);
        let input = json!([{"role": "user", "content": content}]);
        let event = json!({"type": "agent.session.input.message", "input": input});
        let body = serde_json::to_vec(&json!({"events": [event]}))?;
        on.ask(Method::POST, &path, body.into()).await?;
        Ok(())
    }

    /// Deletes a Session and waits until its machine is gone.
    ///
    /// # Errors
    /// It stays.
    pub async fn delete(&self, session: &str) -> Result<()> {
        let path = format!("/v1/agents/sessions/{session}");
        let mut connection = self.connect().await?;
        connection
            .ask(Method::DELETE, &path, bytes::Bytes::new())
            .await?;
        let end = Instant::now() + PATIENCE;
        while self.has_folder(session) {
            ensure!(
                Instant::now() < end,
                "the machine of {session} is not released"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn has_folder(&self, session: &str) -> bool {
        let projects = std::fs::read_dir(self.data().join("sessions"));
        projects
            .into_iter()
            .flatten()
            .flatten()
            .any(|project| project.path().join(session).exists())
    }

    /// Memory that it holds, in megabytes of a million bytes.
    ///
    /// # Errors
    /// It is gone.
    pub fn resident_mb(&self) -> Result<f64> {
        resident_mb(self.pid)
    }

    /// The most memory that it held since [`Server::forget_peak`].
    ///
    /// # Errors
    /// It is gone.
    pub fn peak_mb(&self) -> Result<f64> {
        memory_mb(self.pid, "VmHWM:")
    }

    /// Lets the peak begin at what it holds now.
    ///
    /// # Errors
    /// It is gone, or the kernel does not let us.
    pub fn forget_peak(&self) -> Result<()> {
        Ok(std::fs::write(
            format!("/proc/{}/clear_refs", self.pid),
            "5",
        )?)
    }
}

/// Memory that a process holds, in megabytes of a million bytes.
///
/// # Errors
/// It is gone.
pub fn resident_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "VmRSS:")
}

fn memory_mb(pid: u32, name: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .with_context(|| format!("no {name}"))?
        .parse()?;
    Ok(kib * 1024.0 / 1e6)
}

/// The body of a creation.
#[must_use]
pub fn creation(placement: &str, message: &str) -> Value {
    json!({"agent": {"model": MODEL}, "environment": {"type": placement}, "input": message})
}

/// Puts the scripted harness where the adapter's manifest looks for Codex.
fn install(scripted: &Path, folder: &Path) -> Result<()> {
    let harnesses = plugin_host::Plugins::built_in()?.harnesses()?;
    let codex = harnesses.first().context("no harness is linked")?;
    let install = &codex.install;
    let system = install
        .systems
        .iter()
        .find(|system| system.os == std::env::consts::OS && system.arch == std::env::consts::ARCH)
        .context("Codex is not there for this machine")?;
    let home = folder.join(&install.id).join(&install.pin);
    for program in system.programs.values() {
        let program = home.join(program);
        std::fs::create_dir_all(program.parent().context("a program without a folder")?)?;
        std::fs::copy(scripted, &program)
            .with_context(|| format!("cannot copy {}", scripted.display()))?;
    }
    for path in &system.path {
        std::fs::create_dir_all(home.join(path))?;
    }
    private(folder.parent().context("no data folder")?, 0o700)
}

fn private(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        path,
        std::fs::Permissions::from_mode(mode),
    )?)
}
