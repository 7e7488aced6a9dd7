//! Who moves work forward (scheduler.md). One process owns execution by the lease; it recovers what a former owner left,
//! then runs the loops of this room until it loses the lease or is told to stop.
//!
//! - [`ownership`]: the lease, recovery, and starting and stopping everything below;
//! - [`tick`]: due reservations and the scans that find Sessions with work (SC-3.1 to SC-3.4);
//! - [`actors`], [`actor`], [`perform`], [`journal`], [`capture`]: one Session from waiting input to the end of its Turn;
//!   [`again`]: what is asked of the database a second time;
//! - [`authorize`]: the Credentials of its MCP servers, opened and renewed before a preparation;
//! - [`connections`]: what a Runtime is told as soon as it connects: releases it owes, the binding of its Environment;
//! - [`initialize`]: the one preparation of an Environment; [`allocate`]: hosted compute; [`sweep`]: deleted Sessions;
//! - [`tasks`]: at most one task for each thing, and loops that outlive a fault;
//! - [`engine_host`]: the one Runtime for Sessions without an Environment.

mod actor;
mod actors;
mod again;
mod allocate;
mod authorize;
mod bootstrap;
mod capture;
mod configuration;
mod connections;
pub(crate) mod engine_host;
mod facts;
mod hosting;
mod initialize;
mod journal;
mod ownership;
mod perform;
mod slots;
mod sweep;
mod tasks;
#[cfg(test)]
mod tests;
mod tick;

use std::sync::Arc;
use std::time::Duration;

use blobs::Blobs;
use domain::{InstallationId, OwnerId};
use store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::deployment::Deployment;
use crate::peer::Peers;
use actors::Actors;
use authorize::Authorizer;
use slots::Slots;

pub(crate) use configuration::misfit;
pub use engine_host::{EngineHost, EngineHostSettings};
pub use hosting::{Hosting, NotHosting};
pub use ownership::{Ownership, Scheduler, SchedulerSettings, run};
pub(crate) use tasks::keep;

/// What the tasks of one ownership share.
struct Shared {
    store: Store,
    peers: Arc<dyn Peers>,
    blobs: Blobs,
    deployment: Arc<Deployment>,
    engine_host: Arc<EngineHost>,
    installation: InstallationId,
    node: Option<OwnerId>,
    /// How long records of public writes are kept (OPS-066).
    write_audit_retention: Duration,
    /// Core's address as Runtimes dial it.
    runtime_url: Url,
    /// Cancelled when nothing may be written any more, or the process drains.
    stop: CancellationToken,
    /// The process drains but still owns the lease: what is in flight may be settled (SC-2.9).
    draining: CancellationToken,
    authorizer: Authorizer,
    slots: Slots,
    initializing: Slots,
    /// Wakes of the loops.
    scan: Notify,
    initialize: Notify,
    allocate: Notify,
    connect: Notify,
}

impl Shared {
    /// Acts on a hint: an id and nothing else; whoever is woken reads the store (SC-3.3).
    fn hint(self: &Arc<Self>, actors: &Arc<Actors>, hint: domain::Hint) {
        use domain::Hint;
        match hint {
            Hint::Session(session) => actors.wake(self, session),
            Hint::Queued(session) if self.slots.has_place() => actors.wake(self, session),
            // A freed place asks for a scan, which finds it.
            Hint::Queued(_) => {}
            // The waiting request listens by itself.
            Hint::Settled(_) => {}
            Hint::Initialize(_) => self.initialize.notify_one(),
            Hint::Provision(_) | Hint::Allocation(_) => self.allocate.notify_one(),
            Hint::Release(_) => self.connect.notify_one(),
            Hint::CloseConnection { connection_id } => self.peers.revoke(connection_id),
        }
    }
}
