//! Puts a daemon together and runs it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use domain::{InstanceId, run::Placement};
use machine::process::{Spawner, forbid_inspection};
use plugin_host::{Harness, Plugins};
use protocol::{
    bootstrap::BootstrapFile,
    runtime_end::{Command, Identity, RuntimeEnd},
    wire::{Capacity, HELLO_AGAIN, WorkspaceFacts},
};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::settings::{DaemonError, Settings};
use crate::{
    bind::Shared,
    harness::Catalogue,
    link::{Dialer, Link, LinkSettings, Refused, Router},
    place::Machine,
    prepare::Store,
    relay::Relay,
};

/// How often the harness folder is looked at.
const RESCAN: Duration = Duration::from_secs(5);

/// Runs the daemon until `stop` is cancelled and everything of it has ended.
///
/// # Errors
/// See [`DaemonError`]; nothing was dialled then.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<(), DaemonError> {
    let bootstrap = read_bootstrap(&settings.bootstrap)?;
    let state = settings
        .bootstrap
        .parent()
        .map(Path::to_owned)
        .unwrap_or_else(|| "/".into());
    // Before anything is dialled: a second daemon of this home must not exist (RP-3.17).
    let _lock = lock(&state)?;
    forbid_inspection().map_err(DaemonError::Processes)?;
    crash::arm_from_folder(&settings.harness_dir, &state).map_err(DaemonError::CrashPoint)?;
    let workspace = bootstrap
        .workspace
        .as_ref()
        .map(|path| open_workspace(path))
        .transpose()?;
    let homes = settings
        .home
        .clone()
        .unwrap_or_else(|| state.with_file_name("home"));
    private_folder(&homes).map_err(|error| DaemonError::State(homes.clone(), error))?;

    let core = bootstrap.core_socket().and_then(Path::parent);
    let core = core.filter(|folder| !folder.starts_with(&state));
    let hidden = [Some(state.as_path()), core].into_iter().flatten();
    let spawner = Spawner::new(&settings.own_program).hiding(hidden.map(Path::to_owned));
    spawner.adopt_orphans().map_err(DaemonError::Processes)?;
    let plugins = Plugins::open(&settings.plugins)?;
    let linked = plugins.harnesses()?;
    let placement = if workspace.is_some() {
        Placement::Hosted
    } else {
        Placement::None
    };
    let catalogue = Catalogue::discover(&linked, &settings.harness_dir, placement, &spawner).await;
    let offers = catalogue.offers().to_vec();

    let relay = Arc::new(Relay::start().await?);
    let machine = Machine {
        spawner: spawner.clone(),
        relay,
        homes,
        diagnostics: state.join("diagnostics"),
    };
    let capacity = match workspace {
        Some(_) => Capacity {
            runs: 1,
            executors: 1,
            preparing: 1,
        },
        None => engine_capacity(settings.engine_runs),
    };
    let store = Store::new(state.join("initialization"));
    let shared = Arc::new(Shared::new(
        machine,
        workspace.clone(),
        store,
        capacity,
        catalogue,
    ));

    let (out, commands) = mpsc::unbounded_channel();
    let identity = identity(&settings, &bootstrap, workspace.as_deref(), capacity);
    let end = RuntimeEnd::new(identity, offers);
    let router = Router::new(Arc::clone(&shared), out.clone());
    let dialer = Dialer::new(
        &bootstrap.core_url,
        bootstrap.device_id,
        bootstrap.credential.clone(),
    )?;
    drop(bootstrap);

    let rescan = Rescan {
        plugins,
        harnesses: linked,
        settings: settings.plugins,
        folder: settings.harness_dir,
        placement,
        spawner,
        shared,
        out,
    };
    let rescan = tokio::spawn(rescan.run());
    let link = Link::new(LinkSettings {
        end,
        dialer,
        router,
        commands,
        stop,
        refused: if workspace.is_some() {
            Refused::Parks
        } else {
            Refused::Ends
        },
    });
    Box::pin(link.run()).await;
    rescan.abort();
    Ok(())
}

fn read_bootstrap(path: &Path) -> Result<BootstrapFile, DaemonError> {
    let bytes = fs::read(path).map_err(|error| DaemonError::Bootstrap(path.to_owned(), error))?;
    Ok(BootstrapFile::read(&bytes)?)
}

fn lock(state: &Path) -> Result<File, DaemonError> {
    let unusable = |error| DaemonError::State(state.to_owned(), error);
    let path = state.join("daemon.lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DaemonError::Taken(state.to_owned())),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

fn open_workspace(path: &Path) -> Result<PathBuf, DaemonError> {
    let usable = path.canonicalize().and_then(|path| {
        if path.is_dir() {
            Ok(path)
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    });
    usable.map_err(|error| DaemonError::Workspace(path.to_owned(), error))
}

fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn engine_capacity(runs: u32) -> Capacity {
    // Idle Executors are kept for their next Turn, so there are more of them than Runs.
    Capacity {
        runs,
        executors: runs.saturating_mul(8),
        preparing: runs,
    }
}

fn identity(
    settings: &Settings,
    bootstrap: &BootstrapFile,
    workspace: Option<&Path>,
    capacity: Capacity,
) -> Identity {
    let hash = |path: &Path| hex::encode(Sha256::digest(path.as_os_str().as_encoded_bytes()));
    Identity {
        build: settings.build.clone(),
        installation_id: bootstrap.installation_id,
        device_id: bootstrap.device_id,
        instance_id: InstanceId::new(Uuid::new_v4()),
        dedicated: bootstrap.environment_id,
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        features: vec![HELLO_AGAIN.to_owned()],
        capacity,
        workspace: WorkspaceFacts {
            bound: workspace.is_some(),
            canonical_hash: workspace.map(hash),
            home_removal: true,
        },
    }
}

/// Looks for harnesses and plugins that were installed, changed or removed while the daemon runs. Sessions that are open
/// keep the adapter they have.
struct Rescan {
    plugins: Plugins,
    harnesses: Vec<Harness>,
    settings: plugin_host::Settings,
    folder: PathBuf,
    placement: Placement,
    spawner: Spawner,
    shared: Arc<Shared>,
    out: mpsc::UnboundedSender<Command>,
}

impl Rescan {
    async fn run(mut self) {
        let mut retry = Retry::default();
        let mut quarantined = self.quarantined();
        loop {
            tokio::time::sleep(RESCAN).await;
            let reloaded = self.plugins.is_stale(&self.settings);
            if reloaded && let Err(error) = self.reload().await {
                tracing::error!(%error, "the plugins are not loaded again");
            }
            let catalogue = self.shared.catalogue();
            let before = std::mem::replace(&mut quarantined, self.quarantined());
            let changed = reloaded || before != quarantined;
            let (harnesses, folder) = (&self.harnesses, &self.folder);
            let found = if changed || catalogue.is_stale(harnesses, folder) {
                retry = Retry::default();
                let found =
                    Catalogue::discover(harnesses, folder, self.placement, &self.spawner).await;
                Some(found)
            } else if catalogue.is_undecided() && retry.is_due() {
                catalogue
                    .retried(harnesses, folder, self.placement, &self.spawner)
                    .await
            } else {
                None
            };
            let Some(found) = found else { continue };
            let offers = found.offers().to_vec();
            self.shared.set_catalogue(found);
            if self.out.send(Command::Offers(offers)).is_err() {
                return;
            }
        }
    }

    async fn reload(&mut self) -> Result<(), DaemonError> {
        let settings = self.settings.clone();
        // Compiling takes seconds.
        let opened = tokio::task::spawn_blocking(move || Plugins::open(&settings)).await;
        if let Ok(opened) = opened {
            self.plugins = opened?;
            self.harnesses = self.plugins.harnesses()?;
        }
        Ok(())
    }

    fn quarantined(&self) -> Vec<bool> {
        let out = |harness: &Harness| harness.health.quarantine().is_some();
        self.harnesses.iter().map(out).collect()
    }
}

/// When a probe is repeated, in looks at the folder: at the first, then after twice as many each time.
#[derive(Debug)]
struct Retry {
    after: u32,
    left: u32,
}

/// The longest pause: ten minutes.
const RARELY: u32 = 120;

impl Default for Retry {
    fn default() -> Self {
        Self { after: 1, left: 1 }
    }
}

impl Retry {
    /// One more look.
    fn is_due(&mut self) -> bool {
        self.left -= 1;
        let due = self.left == 0;
        if due {
            self.after = self.after.saturating_mul(2).min(RARELY);
            self.left = self.after;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_repeated_soon_and_then_rarely() {
        let mut retry = Retry::default();
        let due: Vec<u32> = (1..=500).filter(|_| retry.is_due()).collect();
        assert_eq!(due, [1, 3, 7, 15, 31, 63, 127, 247, 367, 487]);
    }
}
