//! What every request may use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blobs::Blobs;
use domain::DeviceId;
use store::Store;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::api::Facts;
use crate::deployment::Deployment;
use crate::gateway::Gateway;
use crate::harnesses::Harnesses;
use crate::hub::Hub;
use crate::keys::StreamKeys;
use crate::plugins::Shelf;

/// A running Core, as handlers see it.
pub(crate) struct Core {
    /// The truth.
    pub store: Store,
    /// Stored bytes.
    pub blobs: Blobs,
    /// Bundles that may be received at the same time: each may take as much memory as its limits allow.
    pub uploads: Arc<Semaphore>,
    /// Bundles that may be unpacked at the same time: each may take as much memory again.
    pub bundles: Arc<Semaphore>,
    /// Hosted Environments can be made; else their admission is refused (SP-2.1, LOC-002).
    pub hosts: Arc<AtomicBool>,
    /// The sandbox provider; none where nothing is executed.
    pub deployment: Option<Arc<Deployment>>,
    /// The device of this Core's Runtime for Sessions without an Environment.
    pub engine_device: DeviceId,
    /// Live events.
    pub hub: Arc<Hub>,
    /// Validity of the keys of open streams.
    pub keys: StreamKeys,
    /// SHA-256 digests of the Core keys (OPS-003).
    pub core_keys: Vec<[u8; 32]>,
    /// The sockets of Runtimes.
    pub gateway: Arc<Gateway>,
    /// What may run.
    pub harnesses: Harnesses,
    /// The loaded plugins.
    pub plugins: Arc<Shelf>,
    /// Admit plain `http` model URLs on loopback addresses.
    pub allow_loopback_model_urls: bool,
    /// What a start fixes and an operator may see.
    pub facts: Facts,
    /// Cancelled when the drain begins: waits are given up, no stream is opened.
    pub stop: CancellationToken,
    /// Cancelled when nothing more will be committed: streams end after the last event.
    pub drained: CancellationToken,
}

impl Core {
    /// Whether hosted Environments can be made now.
    pub(crate) fn hosts(&self) -> bool {
        self.hosts.load(Ordering::Acquire)
    }
}

/// Places of [`Core::uploads`].
pub(crate) const UPLOADS: usize = 16;
/// Places of [`Core::bundles`].
pub(crate) const BUNDLES: usize = 2;
