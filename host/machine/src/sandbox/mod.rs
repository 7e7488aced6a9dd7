//! Isolated, long-lived daemons on this machine: the capability `machine` that the provider `local` stands on
//! (LOC-001 to LOC-025).
//!
//! [`Sandboxes`] is the capability: probe, start, inspect, stop, owned. Each sandbox is a folder (`record`) and an init
//! process ([`crate::init`]) that outlives us. Nothing is remembered in memory: folder and process table are the truth,
//! so a new Core finds running sandboxes as an old one left them (LOC-024). All calls block.

mod accounts;
mod cgroup;
mod handshake;
mod places;
mod record;
mod start;
mod status;
mod stop;
mod types;
mod view;

use std::sync::OnceLock;

pub use types::{
    Enforced, Facts, Identity, Isolation, Keep, Kind, Level, Limits, Mount, OwnedPage, Refusal,
    Seen, Settings, Source, Spec, Status,
};

/// The sandboxes below one folder.
pub struct Sandboxes {
    settings: Settings,
    facts: OnceLock<Facts>,
}

/// The bytes of a bootstrap file, made when its places are known.
pub type BootstrapFile<'a> = &'a dyn Fn(&Seen<'_>) -> domain::Secret;

impl Sandboxes {
    /// Opens nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            facts: OnceLock::new(),
        }
    }

    /// What this machine can do, proved by doing it once (LOC-002).
    pub fn probe(&self) -> &Facts {
        self.facts.get_or_init(|| start::probe(&self.settings))
    }

    /// Starts the init and the daemon (LOC-020).
    ///
    /// # Errors
    /// [`Refusal::Exists`] for a first start whose folder is there (LOC-022).
    pub fn start(
        &self,
        whose: &Identity,
        spec: &Spec,
        bootstrap: BootstrapFile<'_>,
        kind: Kind,
    ) -> Result<Status, Refusal> {
        start::start(&self.settings, self.probe(), whose, spec, bootstrap, kind)
    }

    /// What is there; changes nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn inspect(&self, whose: &Identity) -> Result<Status, Refusal> {
        let folder = places::Place::of(&self.settings, whose)?;
        folder.record_of(whose)?;
        status::of(&folder)
    }

    /// Ends the init and everything in it, and with [`Keep::Nothing`] removes its folders; repeatable (LOC-023).
    ///
    /// # Errors
    /// See [`Refusal`]; [`Refusal::NotFound`] when nothing of it is there.
    pub fn stop(&self, whose: &Identity, keep: Keep) -> Result<(), Refusal> {
        stop::stop(&self.settings, whose, keep)
    }

    /// The sandboxes of an installation, at most 100 a page.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn owned(&self, installation: &str, cursor: Option<&str>) -> std::io::Result<OwnedPage> {
        status::owned(&self.settings, installation, cursor)
    }
}
