//! What all Sessions of one daemon share.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use domain::run::{DeclarationHash, HarnessId};
use net::LoopbackHttp;
use protocol::wire::Capacity;

use super::seats::Seats;
use crate::{
    harness::{Catalogue, Ready},
    place::Machine,
    prepare::Store,
};

/// What Core's `welcome` decides for all Sessions.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// An Executor without work is closed after this time; the declaration's own limit wins if smaller.
    pub executor_idle: Duration,
    /// Whether model providers may be on this machine.
    pub loopback_models: LoopbackHttp,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            executor_idle: Duration::from_secs(600),
            loopback_models: LoopbackHttp::Refused,
        }
    }
}

/// The last two discoveries.
#[derive(Debug)]
struct Catalogues {
    now: Arc<Catalogue>,
    before: Arc<Catalogue>,
}

/// Shared by all Sessions of one daemon.
#[derive(Debug)]
pub struct Shared {
    /// The machine.
    pub machine: Machine,
    /// The one workspace of a dedicated Runtime; none for an engine host (RP-8.2).
    pub workspace: Option<PathBuf>,
    /// Initialization state.
    pub store: Store,
    /// Who holds what, and what can be held (RP-10.13).
    pub(super) seats: Seats,
    catalogues: RwLock<Catalogues>,
    limits: RwLock<Limits>,
}

impl Shared {
    /// With nothing in use.
    #[must_use]
    pub fn new(
        machine: Machine,
        workspace: Option<PathBuf>,
        store: Store,
        capacity: Capacity,
        catalogue: Catalogue,
    ) -> Self {
        Self {
            machine,
            workspace,
            store,
            seats: Seats::new(capacity),
            catalogues: RwLock::new(Catalogues {
                now: Arc::new(catalogue),
                before: Arc::default(),
            }),
            limits: RwLock::default(),
        }
    }

    /// The harnesses that are installed now.
    #[must_use]
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogues().now)
    }

    /// The harness that declared exactly this: as it is now, or as it was before the last discovery, which Core may not have
    /// heard of yet (RP-7.5).
    #[must_use]
    pub fn declared(&self, id: &HarnessId, hash: &DeclarationHash) -> Option<Ready> {
        let catalogues = self.catalogues();
        let found = [&catalogues.now, &catalogues.before]
            .into_iter()
            .filter_map(|catalogue| catalogue.ready(id))
            .find(|ready| ready.harness.declaration.hash() == *hash);
        found.cloned()
    }

    /// After a new discovery. Executors keep what they were made with (RP-7.5).
    pub fn set_catalogue(&self, catalogue: Catalogue) {
        let mut catalogues = self
            .catalogues
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        catalogues.before = std::mem::replace(&mut catalogues.now, Arc::new(catalogue));
    }

    fn catalogues(&self) -> RwLockReadGuard<'_, Catalogues> {
        self.catalogues
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What Core decided.
    #[must_use]
    pub fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a `welcome`.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }
}
