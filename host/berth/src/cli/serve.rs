//! `berth serve`: the Core, from an empty folder to a drained end.

use super::{check_config, database, log, shown};
use crate::data_dir::{self, HARNESSES, Lock, PLUGINS, Recorded, Secrets, read_secret, rotation};
use anyhow::{Context, bail};
use berth_core::{CoreSettings, FirstProject, Ready, Unfinished};
use clap::{Args, ValueEnum};
use machine::sandbox::{Sandboxes, Settings};
use sha2::{Digest, Sha256};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Project of a first start (OPS-140).
const FIRST_PROJECT: &str = "default";

/// Settings of a Core. Each is also a variable (`BERTH_…`) and a key under `[serve]` in the settings file.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Private folder of the Core; made on the first start.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    pub data_dir: PathBuf,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8091", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// PostgreSQL (`postgres://user@host/name`, no password in it) instead of SQLite in the data folder.
    #[arg(long, value_name = "URL")]
    pub database_url: Option<url::Url>,
    /// File with the database password.
    #[arg(long, value_name = "FILE", requires = "database_url")]
    pub database_password_file: Option<PathBuf>,
    /// Origin under which clients and Runtimes reach this Core; the listener when left out, which must then be loopback.
    #[arg(long, value_name = "URL")]
    pub public_url: Option<url::Url>,
    /// How strictly Environments on this machine are separated from it: `auto` takes the best that this machine can do and never none.
    #[arg(long, default_value = "auto")]
    pub local_isolation: Isolation,
    /// Offer Environments on this machine although others can reach the listener: several tenants then share one kernel.
    #[arg(long)]
    pub allow_local_provider_on_network: bool,
    /// A further path of this machine that Environments may read.
    #[arg(long, value_name = "PATH")]
    pub local_expose: Vec<PathBuf>,
    /// Accept plain http model addresses on loopback. For development and tests.
    #[arg(long)]
    pub allow_loopback_model_urls: bool,
    /// An HTTPS origin (`https://host:port`) whose OAuth token endpoints may be on a private network.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub oauth_trusted_origin: Vec<String>,
    /// File with certificates (PEM) of further authorities for OAuth token endpoints.
    #[arg(long, value_name = "FILE")]
    pub oauth_ca_file: Option<PathBuf>,
    /// Harness ids that may be used; every installed one when left out.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub harnesses: Vec<String>,
    /// Harness for Agents that choose none.
    #[arg(long, value_name = "ID")]
    pub default_harness: Option<String>,
    /// Load native plugins too. They run with all rights of this Core and without limits: only for code that you trust.
    #[arg(long)]
    pub allow_native_plugins: bool,
    /// Load only plugin files that a trusted key signed (`berth plugin trust`); what is linked in needs no signature.
    #[arg(long)]
    pub require_signed_plugins: bool,
    /// Turns that run at the same time.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub execution_concurrency: u16,
    /// Seconds until an idle harness process is closed; the next Turn resumes its history.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub executor_idle_seconds: u64,
    /// Hours until a record of a public write is removed; records of creations stay.
    #[arg(long, default_value_t = 2160, value_name = "HOURS", value_parser = clap::value_parser!(u32).range(1..))]
    pub write_audit_retention_hours: u32,
    /// Seconds that running work has after SIGTERM.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    pub drain_seconds: u64,
    /// Client connections at the same time.
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub max_connections: usize,
    #[command(flatten)]
    pub log: log::Logging,
}

impl Options {
    /// What the command line without any flag, variable or file means.
    ///
    /// # Errors
    /// Never, unless a default of ours is invalid.
    pub fn defaults() -> anyhow::Result<Self> {
        let command = Self::augment_args(clap::Command::new("berth"));
        let matches = command.try_get_matches_from(["berth"])?;
        Ok(<Self as clap::FromArgMatches>::from_arg_matches(&matches)?)
    }
}

/// LOC-002.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Isolation {
    /// The best that a probe at the start proves.
    Auto,
    /// User, mount, pid, ipc and uts namespaces.
    Namespaces,
    /// An allow-list of paths.
    Landlock,
    /// None: whatever runs there can read what this Core can.
    None,
}

impl Isolation {
    /// As it is written on the command line.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn chosen(self) -> machine::sandbox::Isolation {
        use machine::sandbox::{Isolation as Chosen, Level};
        match self {
            Self::Auto => Chosen::Auto,
            Self::Namespaces => Chosen::Only(Level::Namespaces),
            Self::Landlock => Chosen::Only(Level::Landlock),
            Self::None => Chosen::Only(Level::None),
        }
    }
}

/// Root of the workspaces (LOC-010, API-020).
pub(super) fn sessions_dir(folder: &Path) -> PathBuf {
    match std::env::var_os("APIPI_SESSIONS_DIR") {
        Some(root) if !root.is_empty() => PathBuf::from(root),
        _ => folder.join("sessions"),
    }
}

fn sandbox_settings(options: &Options, folder: &Path) -> anyhow::Result<Settings> {
    let program = std::env::current_exe().context("cannot find our own program")?;
    let mut settings = Settings::new(sessions_dir(folder), program, folder.join(HARNESSES));
    settings.isolation = options.local_isolation.chosen();
    settings.exposed.clone_from(&options.local_expose);
    Ok(settings)
}

/// The sandboxes of the Core that these settings mean, running or not.
///
/// # Errors
/// Our own program cannot be found.
pub fn sandboxes(options: &Options, folder: &Path) -> anyhow::Result<Sandboxes> {
    Ok(Sandboxes::new(sandbox_settings(options, folder)?))
}

/// A Core that was started inside this process.
pub struct Running {
    /// Where it answers.
    pub ready: Ready,
    /// File of the first Project's key.
    pub api_key_file: PathBuf,
    /// Whose sandboxes its Sessions have.
    pub installation: domain::InstallationId,
    /// Cancel to drain and end.
    pub stop: CancellationToken,
    /// Ends when the Core has ended.
    pub task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

/// Runs a Core until SIGTERM or Ctrl-C.
///
/// # Errors
/// It could not start, or had to stop; the sentence says what to do.
pub async fn run(options: Options) -> anyhow::Result<()> {
    options.log.start()?;
    let folder = options.data_dir.clone();
    // Before anything else: a signal while starting is a wish to end too.
    let stop = CancellationToken::new();
    drain_on_signal(stop.clone())?;
    let running = start(options, stop).await?;
    say!("berth is ready on {}", origin(&running.ready));
    if running.ready.made_first_key {
        first_start_notes(&folder, &running.api_key_file)?;
    }
    running.task.await.context("the Core broke")?
}

/// Starts a Core in this process and returns once it accepts requests. It drains and ends when `stop` is cancelled.
///
/// # Errors
/// A setting is wrong, the folder is in use, the port is taken, or the database cannot be opened.
pub async fn start(options: Options, stop: CancellationToken) -> anyhow::Result<Running> {
    check_config::check(&options)?;
    if let Err(error) = machine::process::raise_open_files() {
        tracing::warn!(%error, "the limit of open files is not raised");
    }
    let folder = data_dir::open(&options.data_dir)?;
    let lock = Lock::take(&folder)?;
    let secrets = Secrets::open(&folder, options.database_url.is_none())?;
    if options.database_url.is_some() {
        data_dir::place::check(&folder, secrets.owner)?;
    }
    let api_key_file = secrets.api_key_file.clone();
    let (installation, isolation) = (secrets.installation, options.local_isolation);
    let listen = options.listen;
    let settings = settings(options, &folder, secrets)?;

    let (sender, receiver) = tokio::sync::oneshot::channel();
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        let announce = |ready: &Ready| {
            let at = Recorded {
                url: origin(ready),
                pid: std::process::id(),
                local_isolation: isolation.name(),
            };
            if let Err(error) = data_dir::record(&lock, &at) {
                tracing::warn!(%error, "commands with --data-dir will not find this Core");
            }
            let _ = sender.send(ready.clone());
        };
        let result = berth_core::serve(settings, stopped, announce).await;
        drop(lock);
        result.map_err(|error| explain(error, listen))
    });
    match receiver.await {
        Ok(ready) => Ok(Running {
            ready,
            api_key_file,
            installation,
            stop,
            task,
        }),
        // It ended before it was ready, so the task holds the reason.
        Err(_) => match task.await.context("the Core broke while starting")? {
            Ok(()) => bail!("the Core stopped while starting"),
            Err(error) => Err(error),
        },
    }
}

/// Says what to do about a failure, where we know.
fn explain(error: berth_core::ServeError, listen: SocketAddr) -> anyhow::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if inner
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
        {
            return anyhow::anyhow!(
                "{listen} is taken by another program; choose another address with --listen (port 0 takes a free one)"
            );
        }
        cause = inner.source();
    }
    anyhow::Error::new(error)
}

/// Settings of a Core on a folder that has had its first start, without taking the folder.
///
/// # Errors
/// A setting is wrong, or a secret is missing.
#[cfg(feature = "crash-points")]
pub fn settings_of(options: Options) -> anyhow::Result<CoreSettings> {
    check_config::check(&options)?;
    let folder = data_dir::open(&options.data_dir)?;
    let secrets = Secrets::open(&folder, options.database_url.is_none())?;
    settings(options, &folder, secrets)
}

fn settings(options: Options, folder: &Path, secrets: Secrets) -> anyhow::Result<CoreSettings> {
    if options.allow_loopback_model_urls {
        tracing::warn!(
            "plain http model addresses on loopback are accepted (--allow-loopback-model-urls); this is for development and tests"
        );
    }
    if options.local_isolation == Isolation::None {
        tracing::warn!(
            "Environments on this machine are NOT isolated (--local-isolation none): an agent can read whatever this Core can read, its keys included"
        );
    }
    let database = options.database_url.as_ref();
    if database::is_open(database, options.database_password_file.as_deref()) {
        tracing::warn!(
            "the database is on loopback and no --database-password-file is given: if it asks for no password, agents in Environments on this machine can read and change it; give its account a password, or use its Unix socket (?host=/run/postgresql)"
        );
    }
    let shown = shown::shown(&options, &Options::defaults()?);
    let issuers = check_config::issuers(&options)?;
    let mut sandboxes = sandbox_settings(&options, folder)?;
    let harness_dir = folder.join(HARNESSES);
    plugin_host::load::folder::prepare(&harness_dir)
        .with_context(|| format!("cannot make {}", harness_dir.display()))?;
    let plugin_dir = folder.join(PLUGINS);
    plugin_host::load::folder::prepare(&plugin_dir)
        .with_context(|| format!("cannot make {}", plugin_dir.display()))?;
    let plugin_settings = plugin_host::Settings {
        folder: Some(plugin_dir),
        allow_native: options.allow_native_plugins,
        require_signed: options.require_signed_plugins,
    };
    sandboxes.plugins.clone_from(&plugin_settings.folder);
    // After `daemon`; the bootstrap file comes last.
    if options.allow_native_plugins {
        let flag = "--allow-native-plugins".to_owned();
        sandboxes.daemon_args.insert(1, flag);
    }
    if options.require_signed_plugins {
        let flag = "--require-signed-plugins".to_owned();
        sandboxes.daemon_args.insert(1, flag);
    }
    let place = "--plugin-dir={plugins}".to_owned();
    sandboxes.daemon_args.insert(1, place);
    let plugins = plugin_host::Plugins::open(&plugin_settings)?;
    check_config::exposes(&options, folder, &plugins)?;
    let password = options.database_password_file.as_deref();
    let database = database::of(options.database_url, password)?;
    let unfinished_rotation = secrets.former_key.map(|former_key| {
        let folder = folder.to_path_buf();
        Unfinished {
            former_key,
            complete: Box::new(move || rotation::complete(&folder)),
        }
    });
    Ok(CoreSettings {
        shown,
        listen: options.listen,
        public_url: options.public_url,
        data_dir: folder.to_path_buf(),
        database,
        credential_key: secrets.credential_key,
        unfinished_rotation,
        core_key_digests: vec![Sha256::digest(secrets.core_key.expose()).into()],
        installation: secrets.installation,
        first_project: secrets.api_key.map(|key| FirstProject {
            name: FIRST_PROJECT.to_owned(),
            key,
        }),
        enabled_harnesses: if options.harnesses.is_empty() {
            None
        } else {
            Some(options.harnesses)
        },
        default_harness: options.default_harness,
        execution_concurrency: options.execution_concurrency,
        executor_idle: Duration::from_secs(options.executor_idle_seconds),
        write_audit_retention: Duration::from_secs(
            3600 * u64::from(options.write_audit_retention_hours),
        ),
        allow_loopback_model_urls: options.allow_loopback_model_urls,
        issuers,
        drain: Duration::from_secs(options.drain_seconds),
        max_connections: options.max_connections,
        harness_dir,
        plugins,
        plugin_settings,
        program: sandboxes.own_program.clone(),
        sandboxes,
        owner: secrets.owner,
    })
}

/// The address that this machine reaches the Core under.
pub fn origin(ready: &Ready) -> String {
    let ip = if ready.address.ip().is_unspecified() {
        std::net::Ipv4Addr::LOCALHOST.into()
    } else {
        ready.address.ip()
    };
    format!("http://{}", SocketAddr::new(ip, ready.address.port()))
}

/// The key itself goes to a terminal only: elsewhere it would stay in a log.
fn first_start_notes(folder: &Path, api_key_file: &Path) -> anyhow::Result<()> {
    say!(
        "this is the first start on {}; it made the Project `{FIRST_PROJECT}` and these private files:",
        folder.display()
    );
    if std::io::stdout().is_terminal() {
        let key = read_secret(api_key_file)?;
        say!(
            "  API key   {}  (in {})",
            key.as_str().unwrap_or_default(),
            api_key_file.display()
        );
    } else {
        say!("  API key   in {}", api_key_file.display());
    }
    let core_key = api_key_file.with_file_name(data_dir::CORE_KEY);
    say!("  Core key  in {}", core_key.display());
    Ok(())
}

/// Two signals within so long are one.
const ONE_INTENTION: Duration = Duration::from_secs(1);

/// The first signal drains, one that comes a second or more later ends at once.
pub fn drain_on_signal(stop: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut first: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            match first {
                None => {
                    first = Some(Instant::now());
                    tracing::info!("draining: no new work, running work is settled");
                    stop.cancel();
                }
                // Whoever ends a whole process group (`timeout`, a terminal) reaches us twice with one intention.
                Some(at) if at.elapsed() < ONE_INTENTION => {}
                Some(_) => {
                    tell!("berth: ended at once by a second signal");
                    std::process::exit(1);
                }
            }
        }
    });
    Ok(())
}
