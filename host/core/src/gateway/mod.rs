//! The sockets of Runtimes: who is connected, and the pump that moves one socket's messages through `protocol::core_end`.
//!
//! [`routes`] are the machine routes; they check a device's credential before anything is upgraded. [`pump`] owns one socket:
//! it registers the connection in the store before it says `welcome`, authenticates again at every heartbeat, and records the
//! end. [`live`] is the handle that the scheduler works with. Nothing here decides what a Session does.

mod live;
mod pump;
pub(crate) mod routes;
mod signals;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{ConnectionId, DeviceId, Digest, InstallationId};
use futures_util::future::BoxFuture;
use protocol::wire::CloseReason;
use store::read::DeviceRecord;
use store::{LeaseToken, Store, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::peer::{Peer, Peers};
use live::LivePeer;

/// What a gateway works with.
pub(crate) struct GatewaySettings {
    /// The truth.
    pub store: Store,
    /// This installation.
    pub installation: InstallationId,
    /// Core's address as Runtimes dial it; never taken from a request (RP-3.1).
    pub public_url: Url,
    /// Whether this process owns execution, and since which epoch. No socket is accepted before (SC-9.5).
    pub owned: watch::Receiver<Option<LeaseToken>>,
    /// How long a Runtime keeps an idle Executor, in milliseconds.
    pub executor_idle_ms: u64,
    /// Model providers may be on a Runtime's own machine.
    pub loopback_models: bool,
    /// Cancelled when the process drains: sockets close as `core_shutdown`.
    pub stop: CancellationToken,
}

/// The live connections of this process (SC-9.4).
pub(crate) struct Gateway {
    settings: GatewaySettings,
    live: Mutex<HashMap<DeviceId, Arc<LivePeer>>>,
    /// Every socket from before its registration to after the record of its end.
    here: Mutex<HashSet<ConnectionId>>,
    changes: watch::Sender<u64>,
    tasks: TaskTracker,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("connected", &self.live().len())
            .finish()
    }
}

impl Gateway {
    /// A gateway without connections.
    pub(crate) fn new(settings: GatewaySettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            live: Mutex::default(),
            here: Mutex::default(),
            changes: watch::Sender::new(0),
            tasks: TaskTracker::new(),
        })
    }

    /// The address that a daemon dials, from Core's public address only (RP-3.1).
    fn socket_url(&self) -> String {
        let mut url = self.settings.public_url.clone();
        // A public address is http or https, so both changes succeed.
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        let _ = url.set_scheme(scheme);
        let path = format!("{}{}", url.path().trim_end_matches('/'), routes::SOCKET);
        url.set_path(&path);
        url.into()
    }

    /// The device is connected under the current owner, and its heartbeats come: a silent one is closed (RP-3.10).
    fn is_online(&self, device: DeviceId) -> bool {
        self.live().contains_key(&device)
    }

    /// This process's lease, once its recovery is complete.
    fn owner(&self) -> Option<LeaseToken> {
        *self.settings.owned.borrow()
    }

    /// The device of a credential, if it may connect (EC-1.3). Revoked devices and ended Sessions may not.
    async fn device(&self, credential: Digest) -> Result<Option<DeviceRecord>, StoreError> {
        let record = self.settings.store.read().device(credential).await?;
        Ok(record.filter(|record| record.device.revoked_at.is_none()))
    }

    /// Whether a device that is connected may stay. One that is revoked stays for the receipt of a cancel only (RP-3.12, D42).
    async fn may_stay(&self, credential: Digest) -> Result<bool, StoreError> {
        let Some(record) = self.settings.store.read().device(credential).await? else {
            return Ok(false);
        };
        if record.device.revoked_at.is_none() {
            return Ok(true);
        }
        match record.session {
            Some(session) => {
                let wait = self.settings.store.read().receipt_wait(session).await?;
                Ok(wait.is_some())
            }
            None => Ok(false),
        }
    }

    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<DeviceId, Arc<LivePeer>>> {
        // The map is consistent after every statement, so a panic elsewhere leaves nothing half done.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here(&self) -> std::sync::MutexGuard<'_, HashSet<ConnectionId>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the device's place; whoever had it is told to go (RP-3.7).
    fn enter(&self, peer: Arc<LivePeer>) {
        let former = self.live().insert(peer.device(), peer);
        if let Some(former) = former {
            former.close(CloseReason::Replaced);
        }
        self.changed();
    }

    /// Retires the connection that a newer one of the device replaces, before that one is registered (SC-9.2).
    fn retire(&self, device: DeviceId) {
        let former = self.live().remove(&device);
        if let Some(former) = former {
            former.close(CloseReason::Replaced);
            self.changed();
        }
    }

    /// The socket is gone.
    fn leave(&self, device: DeviceId, connection: ConnectionId) {
        let mut live = self.live();
        if live
            .get(&device)
            .is_some_and(|peer| peer.connection() == connection)
        {
            live.remove(&device);
            drop(live);
            self.changed();
        }
    }

    fn changed(&self) {
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Peers for Gateway {
    fn of(&self, device: DeviceId) -> Option<Arc<dyn Peer>> {
        self.live()
            .get(&device)
            .map(|peer| peer.clone() as Arc<dyn Peer>)
    }

    fn connected(&self) -> Vec<Arc<dyn Peer>> {
        self.live()
            .values()
            .map(|peer| peer.clone() as Arc<dyn Peer>)
            .collect()
    }

    fn is_here(&self, connection: ConnectionId) -> bool {
        self.here().contains(&connection)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn close(&self, device: DeviceId, reason: CloseReason) {
        let peer = self.live().get(&device).cloned();
        if let Some(peer) = peer {
            peer.close(reason);
        }
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.settings.stop.cancel();
            self.tasks.close();
            self.tasks.wait().await;
        })
    }

    fn revoke(&self, connection: ConnectionId) {
        let peer = self
            .live()
            .values()
            .find(|peer| peer.connection() == connection)
            .cloned();
        if let Some(peer) = peer {
            peer.close(CloseReason::Revoked);
        }
    }
}
