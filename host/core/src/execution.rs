//! The executing half of a Core: gateway, provider, engine host and scheduler, put together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use blobs::Blobs;
use domain::DeviceId;
use machine::sandbox::Sandboxes;
use protocol::bootstrap::socket_address;
use store::{Dialect, LeaseToken, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::deployment::{CHECK_EVERY, Deployment, Parts};
use crate::gateway::{Gateway, GatewaySettings};
use crate::issuers::{IssuerSettings, Issuers};
use crate::peer::Peers;
use crate::plugins::Shelf;
use crate::provider_memory::Records;
use crate::scheduler::engine_host::shared_device;
use crate::scheduler::{self, EngineHost, EngineHostSettings, Scheduler, SchedulerSettings, keep};

/// Folders of this half below the data folder.
const ENGINE_HOST: &str = "engine-host";
/// Private homes of the Sessions without an Environment; the daemon's own folder is hidden from them.
const ENGINE_HOMES: &str = "engine-homes";
/// What is reached through Core's socket.
const LINK: &str = "link";

/// Where the Core of a data folder is reached by whoever may enter that folder: its Runtimes and its operator.
#[must_use]
pub fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join(LINK).join(machine::socket::NAME)
}

/// What it is made from.
pub(crate) struct ExecutionSettings {
    /// Private folder of this Core.
    pub data_dir: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// Installed harness programs.
    pub harness_dir: PathBuf,
    /// The loaded plugins.
    pub plugins: Arc<Shelf>,
    /// Where plugins are.
    pub plugin_settings: plugin_host::Settings,
    /// Machine processes that a provider may be granted.
    pub sandboxes: machine::sandbox::Settings,
    /// Turns at the same time.
    pub concurrency: u16,
    /// Longest time of the drain.
    pub drain: Duration,
    /// How long a Runtime keeps an idle Executor.
    pub executor_idle: Duration,
    /// How long records of public writes are kept (OPS-066).
    pub write_audit_retention: Duration,
    /// Model providers may be on a Runtime's own machine (development and tests).
    pub loopback_models: bool,
    /// Core's address as a provider is told it; the Runtimes of this machine come through its socket.
    pub runtime_url: Url,
    /// Which OAuth issuers may be asked.
    pub issuers: IssuerSettings,
    /// Stands for the data folder, whose lock this process holds (D31).
    pub owner: domain::OwnerId,
}

/// Why it could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The selection of the sandbox provider.
    #[error("the deployment's sandbox provider cannot be read: {0}")]
    Deployment(#[from] store::StoreError),
    /// The client for OAuth issuers.
    #[error("OAuth grants could not be renewed")]
    Issuers(#[source] net::ClientError),
}

/// Gateway and scheduler of a running Core.
pub(crate) struct Execution {
    /// Live Runtimes.
    pub gateway: Arc<Gateway>,
    /// Hosted Environments can be made.
    pub hosts: Arc<AtomicBool>,
    /// The sandbox provider.
    pub deployment: Arc<Deployment>,
    /// The device of this Core's Runtime for Sessions without an Environment.
    pub engine_device: DeviceId,
    scheduler: JoinHandle<()>,
}

impl Execution {
    /// Builds everything and starts the scheduler, which owns nothing before it has the lease.
    pub(crate) async fn start(
        store: Store,
        blobs: Blobs,
        settings: ExecutionSettings,
        stop: CancellationToken,
    ) -> Result<Self, ExecutionError> {
        let installation = store.installation();
        let (owned, ownership) = watch::channel::<Option<LeaseToken>>(None);
        // Sockets outlive the drain: what is in flight ends through them.
        let sockets = CancellationToken::new();
        let gateway = Gateway::new(GatewaySettings {
            store: store.clone(),
            installation,
            public_url: settings.runtime_url.clone(),
            owned: ownership,
            executor_idle_ms: u64::try_from(settings.executor_idle.as_millis()).unwrap_or(u64::MAX),
            loopback_models: settings.loopback_models,
            stop: sockets.clone(),
        });
        let issuers = Issuers::new(&settings.issuers).map_err(ExecutionError::Issuers)?;
        let socket = socket(&settings.data_dir);
        let mut sandboxes = settings.sandboxes.clone();
        sandboxes.core = socket.parent().map(Path::to_owned);
        let hosts = Arc::new(AtomicBool::new(false));
        let parts = Parts {
            store: store.clone(),
            plugins: settings.plugins.clone(),
            sandboxes: Arc::new(Sandboxes::new(sandboxes)),
            memory: Arc::new(Records::new(store.clone())),
            installation,
            core_url: settings.runtime_url.to_string(),
            program: settings.program.clone(),
            check_every: CHECK_EVERY,
        };
        let deployment = Arc::new(Deployment::open(parts, hosts.clone()).await?);
        let (watched, until) = (deployment.clone(), stop.clone());
        tokio::spawn(async move {
            let begin = || watched.clone().watch(until.clone());
            keep("provider", &until, CHECK_EVERY, begin).await;
        });
        // With SQLite the database is in the folder, and its Core the only one.
        let node = (store.dialect() == Dialect::Postgres).then_some(settings.owner);
        let engine_device = shared_device(installation, node);
        let engine_host = Arc::new(EngineHost::new(
            EngineHostSettings {
                device: engine_device,
                home: settings.data_dir.join(ENGINE_HOST),
                program: settings.program.clone(),
                args: engine_args(&settings),
                installation,
                core_url: socket_address(&socket.to_string_lossy()),
            },
            store.clone(),
            gateway.clone() as Arc<dyn Peers>,
            sockets.clone(),
        ));
        let scheduler = Scheduler {
            store,
            peers: gateway.clone(),
            blobs,
            deployment: deployment.clone(),
            engine_host,
            issuers,
            settings: SchedulerSettings {
                concurrency: settings.concurrency,
                owner: settings.owner,
                node,
                drain: settings.drain,
                write_audit_retention: settings.write_audit_retention,
                installation,
                runtime_url: settings.runtime_url,
            },
        };
        let scheduler = tokio::spawn(scheduler::run(scheduler, owned, stop));
        Ok(Self {
            gateway,
            hosts,
            deployment,
            engine_device,
            scheduler,
        })
    }

    /// After `stop`: what is in flight ends, then the sockets close and their ends are recorded.
    pub(crate) async fn ended(self) {
        if let Err(error) = self.scheduler.await {
            tracing::error!(%error, "the scheduler ended badly");
        }
        // Also where this process never owned execution.
        self.gateway.shut_down().await;
    }
}

/// Arguments of the engine host's daemon, but for its bootstrap file.
fn engine_args(settings: &ExecutionSettings) -> Vec<String> {
    let mut args = vec![
        "daemon".to_owned(),
        "--harness-dir".to_owned(),
        settings.harness_dir.display().to_string(),
        "--engine-runs".to_owned(),
        settings.concurrency.to_string(),
        "--home".to_owned(),
        settings.data_dir.join(ENGINE_HOMES).display().to_string(),
    ];
    if let Some(folder) = &settings.plugin_settings.folder {
        args.extend(["--plugin-dir".to_owned(), folder.display().to_string()]);
    }
    if settings.plugin_settings.allow_native {
        args.push("--allow-native-plugins".to_owned());
    }
    if settings.plugin_settings.require_signed {
        args.push("--require-signed-plugins".to_owned());
    }
    args.push("--bootstrap".to_owned());
    args
}
