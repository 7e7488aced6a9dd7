//! The one Runtime for Sessions without an Environment (architecture 10): a daemon that Core supervises as its own child,
//! with the same link and the same adapters as everywhere. Started when such a Session has work or is to be released, ended
//! with Core.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::run::HarnessId;
use domain::{DeviceId, InstallationId, OwnerId};
use machine::process::{Order, Output, Spawner};
use store::Store;
use store::units::device::PutSharedDevice;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::bootstrap;
use super::tasks::{AFTER_A_FAULT, keep};
use crate::peer::Peers;

/// Waits between restarts of the daemon.
const RESTART: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Time that the daemon gets to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// Where the daemon lives and how it is started.
#[derive(Debug, Clone)]
pub struct EngineHostSettings {
    /// Its own private folder below the data folder.
    pub home: PathBuf,
    /// Our own program.
    pub program: PathBuf,
    /// Arguments before the path of the bootstrap file.
    pub args: Vec<String>,
    /// The device that it is.
    pub device: DeviceId,
    /// This installation.
    pub installation: InstallationId,
    /// Core's address as the daemon dials it.
    pub core_url: String,
}

/// The supervised daemon.
pub struct EngineHost {
    settings: EngineHostSettings,
    store: Store,
    peers: Arc<dyn Peers>,
    started: Mutex<bool>,
    stop: CancellationToken,
}

/// Why it could not be started.
#[derive(Debug, thiserror::Error)]
enum EngineHostError {
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error("the credential could not be derived")]
    Seal(#[from] seal::SealError),
    #[error("its folder or bootstrap file could not be written")]
    Io(#[from] std::io::Error),
}

/// The device of a Core's shared Runtime: one for each Core of the database, because the native histories of its Sessions are
/// in its data folder, and another Core's Runtime must never be taken for it (RP-17.3).
pub(crate) fn shared_device(installation: InstallationId, node: Option<OwnerId>) -> DeviceId {
    DeviceId::new(node.map_or(installation.uuid(), OwnerId::uuid))
}

impl EngineHost {
    /// Nothing is started before the first [`EngineHost::device`].
    pub fn new(
        settings: EngineHostSettings,
        store: Store,
        peers: Arc<dyn Peers>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            settings,
            store,
            peers,
            started: Mutex::new(false),
            stop,
        }
    }

    /// The device of the shared Runtime; stable for the life of the data folder.
    pub fn device_id(&self) -> DeviceId {
        self.settings.device
    }

    /// The device if its daemon is connected and offers the harness. Starts the daemon when there is none.
    pub(super) async fn device(&self, harness: &HarnessId) -> Option<DeviceId> {
        let device = self.device_id();
        if let Some(peer) = self.peers.of(device) {
            return peer.can_run(harness).then_some(device);
        }
        self.ensure_started().await;
        None
    }

    /// Starts the daemon if it was not started by this process.
    pub async fn ensure_started(&self) {
        let mut started = self.started.lock().await;
        if *started || self.stop.is_cancelled() {
            return;
        }
        match self.prepare().await {
            Ok(file) => {
                *started = true;
                let (settings, stop) = (self.settings.clone(), self.stop.clone());
                tokio::spawn(async move {
                    let begin = || supervise(settings.clone(), file.clone(), stop.clone());
                    keep("engine host", &stop, AFTER_A_FAULT, begin).await;
                });
            }
            Err(error) => {
                tracing::error!(%error, "the Runtime for Sessions without an Environment could not be started")
            }
        }
    }

    /// The device row and the bootstrap file, in this order: a daemon never dials with an unknown credential.
    async fn prepare(&self) -> Result<PathBuf, EngineHostError> {
        let device = self.device_id();
        let credential = bootstrap::credential(self.store.fingerprints(), device)?;
        let unit = PutSharedDevice {
            device,
            credential: bootstrap::digest(&credential),
        };
        match self.store.write(unit).await {
            Ok(()) => {}
            Err(store::WriteError::Refused(never)) => match never {},
            Err(store::WriteError::Store(error)) => return Err(error.into()),
        }
        let content = bootstrap::file(
            &self.settings.core_url,
            self.settings.installation,
            device,
            &credential,
            None,
            None,
        );
        let path = self.settings.home.join("bootstrap.json");
        write_private(&self.settings.home, &path, content.expose())?;
        Ok(path)
    }
}

#[cfg(unix)]
fn write_private(
    folder: &std::path::Path,
    path: &std::path::Path,
    bytes: &[u8],
) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let beside = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

/// Repeats what the daemon says in our own log. An output that nobody reads would stop the daemon when its pipe is full.
async fn repeat(output: Output) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::info!(target: "berth::shared_runtime", "{line}");
    }
}

/// Keeps one daemon running until Core ends. Its supervisor ends it with us, also when we are killed (architecture 8).
async fn supervise(settings: EngineHostSettings, bootstrap: PathBuf, stop: CancellationToken) {
    let spawner = Spawner::new(&settings.program);
    let mut wait = RESTART.0;
    while !stop.is_cancelled() {
        let mut args = settings.args.clone();
        args.push(bootstrap.display().to_string());
        let order = Order::new(&settings.program, &settings.home).args(args);
        match spawner.start(order).await {
            Ok(mut child) => {
                for output in [child.stdout.take(), child.stderr.take()]
                    .into_iter()
                    .flatten()
                {
                    tokio::spawn(repeat(output));
                }
                let began = tokio::time::Instant::now();
                tokio::select! {
                    ended = child.wait() => tracing::warn!(?ended, "the shared Runtime ended; it is started again"),
                    () = stop.cancelled() => {
                        child.stop(GRACE).await;
                        return;
                    }
                }
                if began.elapsed() > RESTART.1 {
                    wait = RESTART.0;
                }
            }
            Err(error) => tracing::error!(%error, "the shared Runtime could not be started"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(RESTART.1);
    }
}
