//! Puts the parts of a Core together and runs them until told to stop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use blobs::{BlobError, Blobs};
use domain::InstallationId;
use futures_util::future::BoxFuture;
use seal::{KeyRing, SealError};
use store::{Location, Store, StoreError, StoreSettings};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::api::{Api, Facts};
use crate::execution::{Execution, ExecutionError, ExecutionSettings, socket};
use crate::first_start::{self, FirstStartError};
use crate::harnesses::{Harnesses, UnknownHarness};
use crate::http::accept::{Limits, accept};
use crate::hub::Hub;
use crate::keys::StreamKeys;
use crate::plugins::Shelf;
use crate::rotation::{self, Unfinished};
use crate::settings::{CoreSettings, Database};
use crate::state::{BUNDLES, Core, UPLOADS};

/// Name of the SQLite file in the data folder.
const DATABASE_FILE: &str = "berth.db";
/// Name of the folder of stored bytes in the data folder.
pub(crate) const BLOBS: &str = "blobs";

/// What a caller learns once requests are accepted.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Address that is listened on.
    pub address: SocketAddr,
    /// Public origin (settings, or derived from the address).
    pub public_url: Url,
    /// Whether this start made the first Project's key.
    pub made_first_key: bool,
}

/// Why a Core could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on (taken, not local, forbidden).
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The socket for the Runtimes of this machine.
    #[error("the socket for Runtimes of this machine cannot be made in the data folder: {0}")]
    Socket(#[source] std::io::Error),
    /// The address of the listener is no URL.
    #[error("the listener's address {0} cannot be written as a URL")]
    Address(SocketAddr),
    /// The service key is not one.
    #[error("the service key cannot be used")]
    ServiceKey(#[source] SealError),
    /// The database cannot be opened, or failed for good.
    #[error("the database cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The folder of stored bytes cannot be used.
    #[error("the folder of stored bytes cannot be used: {0}")]
    Blobs(#[from] BlobError),
    /// A linked plugin cannot be used.
    #[error("a plugin cannot be used: {0}")]
    Plugin(#[from] plugin_host::PluginError),
    /// Gateway, provider or scheduler could not be put together.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// A setting names a harness that is not there.
    #[error(transparent)]
    Harness(#[from] UnknownHarness),
    /// The first Project could not be made.
    #[error("the first Project could not be made: {0}")]
    FirstStart(#[from] FirstStartError),
}

/// Runs a Core: settings, store, recovery of the lease, gateway, then requests. Calls `ready` once, when the first request
/// can be answered. Returns after `stop` is cancelled and everything has drained, or on a failure that ends the Core.
///
/// # Errors
/// [`ServeError`] says what failed in words an operator can act on.
pub fn serve<'a>(
    settings: CoreSettings,
    stop: CancellationToken,
    ready: impl FnOnce(&Ready) + Send + 'a,
) -> BoxFuture<'a, Result<(), ServeError>> {
    Box::pin(async move {
        let started = start(settings, stop).await?;
        ready(&started.ready);
        started.run().await
    })
}

/// A Core whose parts stand and whose socket is bound; requests wait in its queue.
struct Started {
    ready: Ready,
    core: Arc<Core>,
    execution: Execution,
    listener: TcpListener,
    /// Held, not served.
    other_loopback: Option<TcpSocket>,
    /// Where the Runtimes of this machine come in.
    machine: UnixListener,
    limits: Limits,
    unfinished_rotation: Option<Unfinished>,
}

/// Builds the parts in their order. Boxed like [`Started::run`]: what they wait for does not depend on the caller.
fn start(
    settings: CoreSettings,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Started, ServeError>> {
    Box::pin(async move {
        let harnesses = harnesses(&settings)?;
        let store = open(&settings).await?;
        if !settings.allow_loopback_model_urls {
            warn_of_defaults(&store).await?;
        }
        let plugins = Arc::new(Shelf::new(
            settings.plugins,
            settings.plugin_settings.clone(),
        ));
        let listener = listen(settings.listen).await?;
        let address = listener.local_addr().map_err(|source| ServeError::Listen {
            address: settings.listen,
            source,
        })?;
        let other_loopback = hold_other_loopback(address);
        let machine = listen_locally(&settings.data_dir)?;
        let public_url = match settings.public_url {
            Some(url) => url,
            None => loopback(address)?,
        };
        let made_first_key = match settings.first_project {
            Some(first) => first_start::ensure(store.clone(), first).await?,
            None => false,
        };
        let runtime_url = loopback(address)?;
        let blobs = Blobs::on_disk(&settings.data_dir.join(BLOBS), store.keys().clone())?;
        let execution = Execution::start(
            store.clone(),
            blobs.clone(),
            ExecutionSettings {
                data_dir: settings.data_dir,
                program: settings.program,
                harness_dir: settings.harness_dir,
                plugins: plugins.clone(),
                plugin_settings: settings.plugin_settings,
                sandboxes: settings.sandboxes,
                concurrency: settings.execution_concurrency,
                drain: settings.drain,
                executor_idle: settings.executor_idle,
                write_audit_retention: settings.write_audit_retention,
                loopback_models: settings.allow_loopback_model_urls,
                runtime_url,
                issuers: settings.issuers,
                owner: settings.owner,
            },
            stop.clone(),
        )
        .await?;
        let facts = Facts {
            public_url: public_url.clone(),
            settings: settings.shown,
        };
        let core = Arc::new(Core {
            facts,
            gateway: execution.gateway.clone(),
            blobs,
            uploads: Arc::new(Semaphore::new(UPLOADS)),
            bundles: Arc::new(Semaphore::new(BUNDLES)),
            hosts: execution.hosts.clone(),
            deployment: Some(execution.deployment.clone()),
            engine_device: execution.engine_device,
            hub: Hub::new(store.clone()),
            store,
            keys: StreamKeys::default(),
            core_keys: settings.core_key_digests,
            harnesses,
            plugins,
            allow_loopback_model_urls: settings.allow_loopback_model_urls,
            stop,
            drained: CancellationToken::new(),
        });
        Ok(Started {
            ready: Ready {
                address,
                public_url,
                made_first_key,
            },
            core,
            execution,
            listener,
            other_loopback,
            machine,
            limits: Limits::new(settings.max_connections),
            unfinished_rotation: settings.unfinished_rotation,
        })
    })
}

impl Started {
    /// Answers requests until the drain is over.
    fn run(self) -> BoxFuture<'static, Result<(), ServeError>> {
        Box::pin(async move {
            let _held = self.other_loopback;
            let (store, stop) = (self.core.store.clone(), self.core.stop.clone());
            let drained = self.core.drained.clone();
            let closed = CancellationToken::new();
            let following = tokio::spawn(self.core.hub.clone().run(closed.clone()));
            let rotating = self.unfinished_rotation.map(|unfinished| {
                let blobs = self.core.blobs.clone();
                let (store, stop) = (store.clone(), stop.clone());
                tokio::spawn(rotation::in_background(store, blobs, unfinished, stop))
            });
            let api = Arc::new(Api::new(self.core));
            // What is in flight is settled and the last observations are written; readers see them, then they end.
            let (stopping, settled) = (stop.clone(), drained.clone());
            let settling = tokio::spawn(async move {
                stopping.cancelled().await;
                self.execution.ended().await;
                settled.cancel();
            });
            let locally = accept(
                self.machine,
                self.limits,
                api.clone(),
                stop.clone(),
                drained.clone(),
            );
            let accepting = accept(self.listener, self.limits, api, stop.clone(), drained);
            let accepting = async { tokio::join!(accepting, locally) };
            let outcome = tokio::select! {
                ((), ()) = accepting => Ok(()),
                error = store.failed() => Err(error.into()),
            };
            stop.cancel();
            if outcome.is_err() {
                // Nothing can be settled without a store: the next start does that, and the sooner the better.
                settling.abort();
                return outcome;
            }
            if let Err(error) = settling.await {
                tracing::error!(%error, "the drain ended badly");
            }
            closed.cancel();
            if let Some(rotating) = rotating
                && let Err(error) = rotating.await
            {
                tracing::error!(%error, "the rotation of the service key ended badly");
            }
            // The hub only reads; there is nothing of it to lose.
            let _ = following.await;
            store.close().await;
            outcome
        })
    }
}

fn harnesses(settings: &CoreSettings) -> Result<Harnesses, ServeError> {
    let declared = settings
        .plugins
        .harnesses()?
        .into_iter()
        .map(|harness| harness.declaration)
        .collect();
    let enabled = settings.enabled_harnesses.as_deref();
    Ok(Harnesses::new(
        declared,
        enabled,
        settings.default_harness.as_deref(),
    )?)
}

pub(crate) async fn open(settings: &CoreSettings) -> Result<Store, ServeError> {
    let former = settings.unfinished_rotation.as_ref();
    let former = former.map(|unfinished| &unfinished.former_key);
    let ring = Arc::new(rotation::ring(&settings.credential_key, former)?);
    database(
        &settings.data_dir,
        &settings.database,
        ring,
        settings.installation,
    )
    .await
}

/// Opens the database of a data folder.
pub(crate) async fn database(
    data_dir: &Path,
    database: &Database,
    ring: Arc<KeyRing>,
    installation: InstallationId,
) -> Result<Store, ServeError> {
    let location = match database {
        Database::Sqlite => Location::File(data_dir.join(DATABASE_FILE)),
        Database::Postgres { url, password } => Location::Server {
            url: url.clone(),
            password: password.clone(),
        },
    };
    let mut store = StoreSettings::new(location, ring);
    store.installation = Some(installation);
    Ok(Store::open(store).await?)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen { address, source })
}

/// `localhost` is two addresses, and clients ask both. Where we listen on one, nobody else gets the other: it is bound without
/// listening, so whoever asks there is refused at once and goes on to ours.
/// Default models that an earlier start admitted and this one will not use.
async fn warn_of_defaults(store: &Store) -> Result<(), ServeError> {
    let defaults = store.read().model_defaults().await?;
    let unusable = defaults
        .iter()
        .filter(|default| default.provider.needs_loopback_switch());
    for default in unusable {
        tracing::warn!(
            harness = default.harness,
            "its default model is at a plain http address of this machine, so its Turns will fail: \
             start with --allow-loopback-model-urls, or give it another one with `berth model set`"
        );
    }
    Ok(())
}

fn hold_other_loopback(address: SocketAddr) -> Option<TcpSocket> {
    let (socket, other) = match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => (TcpSocket::new_v6(), Ipv6Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => (TcpSocket::new_v4(), Ipv4Addr::LOCALHOST.into()),
        _ => return None,
    };
    let other = SocketAddr::new(other, address.port());
    let held = socket.and_then(|socket| socket.bind(other).map(|()| socket));
    match held {
        Ok(socket) => Some(socket),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            tracing::warn!(
                "another program has {other}: a client that asks for `localhost` may reach it and send it keys"
            );
            None
        }
        // A machine without the other family.
        Err(_) => None,
    }
}

fn listen_locally(data_dir: &Path) -> Result<UnixListener, ServeError> {
    let listener = machine::socket::listen(&socket(data_dir)).map_err(ServeError::Socket)?;
    listener.set_nonblocking(true).map_err(ServeError::Socket)?;
    UnixListener::from_std(listener).map_err(ServeError::Socket)
}

/// The origin of a listener without a configured public URL.
fn loopback(address: SocketAddr) -> Result<Url, ServeError> {
    let ip = if address.ip().is_unspecified() {
        Ipv4Addr::LOCALHOST.into()
    } else {
        address.ip()
    };
    let text = format!("http://{}/", SocketAddr::new(ip, address.port()));
    Url::parse(&text).map_err(|_| ServeError::Address(address))
}
