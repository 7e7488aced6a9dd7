//! Which harnesses this machine offers (RP-7.1, RP-7.2, HAR-001 to HAR-004).
//!
//! A harness is *configured* when its folder exists below the harness folder: `<folder>/<install id>/<version>/…`, as the
//! installer lays it out. Of the versions there, the pin wins, then the newest in the qualified range. The program is probed
//! once; the result means availability only. A probe that may succeed another time is repeated, less and less often.

mod probe;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use domain::run::{Capability, HarnessId, HarnessOffer, Placement};
use machine::process::Spawner;
use plugin_host::Harness;

use crate::execute::Programs;

/// What the Runtime adds to every adapter's abilities.
const OF_RUNTIME: [Capability; 3] = [
    Capability::DurableTurns,
    Capability::DurableInputReceipts,
    Capability::Preparation,
];
/// And where it has a workspace.
const WITH_WORKSPACE: [Capability; 2] = [
    Capability::LocalEnvironment,
    Capability::WorkspaceOutputExport,
];

/// Why the harness of an offer fails although it is there: its plugin is not called any more.
const QUARANTINED: &str = "plugin_quarantined";

/// A harness that can be run here.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Adapter and declaration.
    pub harness: Harness,
    /// What the probe found.
    pub version: String,
    /// Its programs.
    pub programs: Programs,
}

/// The harnesses of one daemon.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    ready: BTreeMap<HarnessId, Ready>,
    offers: Vec<HarnessOffer>,
    /// What was found on disk, to see that it changed.
    found: Vec<PathBuf>,
    /// Harnesses whose probe may succeed another time.
    undecided: BTreeSet<HarnessId>,
}

impl Catalogue {
    /// Looks for `linked` harnesses below `folder` and probes each that is there.
    pub async fn discover(
        linked: &[Harness],
        folder: &Path,
        placement: Placement,
        spawner: &Spawner,
    ) -> Self {
        let mut catalogue = Self {
            found: installed(linked, folder),
            ..Self::default()
        };
        for harness in linked {
            catalogue.probe(harness, folder, placement, spawner).await;
        }
        catalogue
    }

    /// Probes again what could not be decided. None if nothing has changed by it.
    pub async fn retried(
        &self,
        linked: &[Harness],
        folder: &Path,
        placement: Placement,
        spawner: &Spawner,
    ) -> Option<Self> {
        let mut catalogue = self.clone();
        for harness in linked {
            if catalogue.undecided.remove(&harness.declaration.id) {
                catalogue.probe(harness, folder, placement, spawner).await;
            }
        }
        (catalogue.offers != self.offers).then_some(catalogue)
    }

    async fn probe(
        &mut self,
        harness: &Harness,
        folder: &Path,
        placement: Placement,
        spawner: &Spawner,
    ) {
        let Some(home) = chosen(harness, folder) else {
            return;
        };
        let id = &harness.declaration.id;
        let mut offer = offer(harness, placement);
        match probe::probe(harness, &home, spawner).await {
            Ok(probed) => {
                offer.version.clone_from(&probed.version);
                offer.available = true;
                offer.reason = harness.health.quarantine().map(|_| QUARANTINED.to_owned());
                probed
                    .withheld
                    .iter()
                    .for_each(|ability| offer.capabilities.set(*ability, false));
                let ready = Ready {
                    harness: harness.clone(),
                    version: probed.version,
                    programs: probed.programs,
                };
                self.ready.insert(id.clone(), ready);
            }
            Err(failure) => {
                let (reason, lasting) = (failure.reason, failure.lasting);
                tracing::warn!(harness = %id, reason, lasting, "a harness is installed and cannot be used");
                offer.reason = Some(reason);
                if !lasting {
                    self.undecided.insert(id.clone());
                }
            }
        }
        match self.offers.iter_mut().find(|before| before.id == *id) {
            Some(before) => *before = offer,
            None => self.offers.push(offer),
        }
    }

    /// Whether a probe may succeed another time.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Whether other folders are there than at the last discovery.
    #[must_use]
    pub fn is_stale(&self, linked: &[Harness], folder: &Path) -> bool {
        self.found != installed(linked, folder)
    }

    /// A harness that can be run.
    #[must_use]
    pub fn ready(&self, id: &HarnessId) -> Option<&Ready> {
        self.ready.get(id)
    }

    /// What `hello` says.
    #[must_use]
    pub fn offers(&self) -> &[HarnessOffer] {
        &self.offers
    }
}

fn offer(harness: &Harness, placement: Placement) -> HarnessOffer {
    let mut of_runtime = OF_RUNTIME.to_vec();
    if placement != Placement::None {
        of_runtime.extend(WITH_WORKSPACE);
    }
    HarnessOffer {
        id: harness.declaration.id.clone(),
        version: String::new(),
        contract: harness.contract.clone(),
        declaration_hash: harness.declaration.hash(),
        plugin: Some(harness.plugin.clone()),
        available: false,
        reason: None,
        capabilities: harness.declaration.flags(placement, &of_runtime),
    }
}

/// Every version folder of every linked harness.
fn installed(linked: &[Harness], folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = linked
        .iter()
        .flat_map(|harness| versions(&folder.join(&harness.install.id)))
        .collect();
    found.sort();
    found
}

fn versions(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    // A name with a dot in front is an installation that is not finished.
    let visible = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .filter(visible)
        .collect()
}

/// The folder to use; the harness's own folder when it is configured and holds nothing usable.
fn chosen(harness: &Harness, folder: &Path) -> Option<PathBuf> {
    let own = folder.join(&harness.install.id);
    let pinned = own.join(&harness.install.pin);
    if pinned.is_dir() {
        return Some(pinned);
    }
    let name = |path: &PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let usable = versions(&own)
        .into_iter()
        .filter_map(|path| Some((harness.accepted(&name(&path))?, path)));
    let newest = usable.max().map(|(_, path)| path);
    newest.or_else(|| own.is_dir().then_some(own))
}
