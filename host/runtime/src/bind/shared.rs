//! What all Sessions of one daemon share.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use domain::SessionId;
use net::LoopbackHttp;
use protocol::wire::{Active, Capacity};

use crate::{harness::Catalogue, place::Machine, prepare::Store};

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

/// What one Session holds at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Occupancy {
    pub(super) preparing: bool,
    pub(super) executor: bool,
    pub(super) closing: bool,
    pub(super) run: bool,
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
    /// What it can hold at once (RP-10.21).
    pub capacity: Capacity,
    catalogue: RwLock<Arc<Catalogue>>,
    limits: RwLock<Limits>,
    board: Mutex<HashMap<SessionId, Occupancy>>,
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
            capacity,
            catalogue: RwLock::new(Arc::new(catalogue)),
            limits: RwLock::default(),
            board: Mutex::default(),
        }
    }

    /// The harnesses that are installed now.
    #[must_use]
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(
            &self
                .catalogue
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// After a new discovery. Executors keep what they were made with (RP-7.5).
    pub fn set_catalogue(&self, catalogue: Catalogue) {
        *self
            .catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(catalogue);
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

    /// The counters of a heartbeat: a hint (RP-10.21).
    #[must_use]
    pub fn active(&self) -> Active {
        let board = self.board();
        let count = |pick: fn(&Occupancy) -> bool| {
            u32::try_from(board.values().filter(|o| pick(o)).count()).unwrap_or(u32::MAX)
        };
        Active {
            runs: count(|o| o.run),
            executors: count(|o| o.executor),
            preparing: count(|o| o.preparing),
            closing: count(|o| o.closing),
        }
    }

    /// Takes the right to prepare a new Executor; closing and uncertain ones count (RP-10.13).
    pub(super) fn may_prepare(&self, session: SessionId) -> bool {
        let active = self.active();
        let mine = self.board().get(&session).copied().unwrap_or_default();
        let others = active.executors - u32::from(mine.executor);
        others < self.capacity.executors && active.preparing < self.capacity.preparing
    }

    /// Whether one more Run fits.
    pub(super) fn may_run(&self) -> bool {
        self.active().runs < self.capacity.runs
    }

    /// Records what a Session holds; true if that is news.
    pub(super) fn occupy(&self, session: SessionId, occupancy: Occupancy) -> bool {
        self.board().insert(session, occupancy) != Some(occupancy)
    }

    pub(super) fn vacate(&self, session: SessionId) {
        self.board().remove(&session);
    }

    fn board(&self) -> MutexGuard<'_, HashMap<SessionId, Occupancy>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
