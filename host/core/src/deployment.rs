//! The deployment's sandbox provider, as this Core uses it: the selection that the database holds, changed while it runs
//! (SP-2.1 to SP-2.3), and every earlier one for what it made (SP-2.6).

mod settings;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use domain::InstallationId;
use domain::allocation::Allocation;
use domain::provider::Resources;
use domain::selection::{Choice, Selection, SelectionRefused};
use machine::sandbox::Sandboxes;
use plugin_host::Plugins;
use plugin_host::providers::ProviderHandle;
use store::provenance::Administrator;
use store::selections::SelectProvider;
use store::{Store, StoreError, WriteError};
use tokio::sync::{Mutex, Notify};

use crate::plugins::{NotReloaded, Shelf};
use crate::provider_memory::Records;
use crate::scheduler::Hosting;

/// Why a selection is not made; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotSelected {
    /// No plugin of that id is a sandbox provider.
    #[error("there is no sandbox provider of this id")]
    Unknown,
    /// A setting, and what is wrong with it.
    #[error("the setting `{0}` {1}")]
    Setting(String, &'static str),
    /// The provider itself is not ready; its code.
    #[error("the provider cannot be used: {0}")]
    Provider(String),
    /// The rules of the selection.
    #[error(transparent)]
    Refused(#[from] SelectionRefused),
    /// The database.
    #[error(transparent)]
    Store(StoreError),
}

/// What it works with.
pub(crate) struct Parts {
    pub store: Store,
    pub plugins: Arc<Shelf>,
    pub sandboxes: Arc<Sandboxes>,
    pub memory: Arc<Records>,
    pub installation: InstallationId,
    pub core_url: String,
}

/// Which generation, by which plugin file.
type Made = (u64, Option<String>);

/// What is used for new Environments.
#[derive(Default)]
struct Current {
    generation: u64,
    hosting: Option<Arc<Hosting>>,
}

/// The deployment's provider, now and before.
pub struct Deployment {
    parts: Parts,
    /// Hosted Environments can be made; else their admission is refused.
    hosts: Arc<AtomicBool>,
    /// By generation and the digest of the plugin: what a version made, it looks after while this process lives.
    known: RwLock<HashMap<Made, Arc<Hosting>>>,
    current: RwLock<Current>,
    /// One change at a time: what is judged is what is stored.
    changing: Mutex<()>,
    changed: Notify,
}

impl Deployment {
    /// With the stored selection. A provider that is not ready leaves hosted Environments refused, with the reason in the log.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn open(parts: Parts, hosts: Arc<AtomicBool>) -> Result<Self, StoreError> {
        let deployment = Self {
            parts,
            hosts,
            known: RwLock::default(),
            current: RwLock::default(),
            changing: Mutex::default(),
            changed: Notify::new(),
        };
        deployment.refresh().await?;
        Ok(deployment)
    }

    /// Takes over what another Core of this database selected; nothing where nothing has changed.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let _one = self.changing.lock().await;
        let selection = self.parts.store.read().selection().await?;
        let seen = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .generation;
        if selection.generation == seen {
            return Ok(());
        }
        let hosting = match &selection.choice.provider {
            None => None,
            Some(id) => match self.judge(&selection, &self.parts.plugins.current()).await {
                Ok(hosting) => Some(hosting),
                Err(error) => {
                    say_refused(id, &error);
                    None
                }
            },
        };
        self.use_now(selection.generation, hosting);
        Ok(())
    }

    /// The provider for new Environments, if one is usable.
    pub(crate) fn current(&self) -> Option<Arc<Hosting>> {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .hosting
            .clone()
    }

    /// The provider that made an allocation, as it was in its generation; never another one in its place (SP-2.6). After a
    /// restart the plugin that has its id now stands in for the version that made it.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn of(
        &self,
        allocation: &Allocation,
    ) -> Result<Option<Arc<Hosting>>, StoreError> {
        let digest = allocation.plugin.as_ref().and_then(|it| it.digest.clone());
        let made = (allocation.generation, digest);
        let known = || -> Option<Arc<Hosting>> {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.get(&made).cloned()
        };
        if let Some(found) = known() {
            return Ok(Some(found));
        }
        let selection = self.parts.store.read().selection_of(made.0).await?;
        let plugins = self.parts.plugins.current();
        let hosting = selection.and_then(|selection| self.hosting(&selection, &plugins));
        let Some(hosting) = hosting else {
            tracing::error!(
                allocation = %allocation.id,
                provider = allocation.provider,
                "what this provider made cannot be looked at: it is not loaded"
            );
            return Ok(None);
        };
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(all.entry(made).or_insert(hosting).clone()))
    }

    /// Wakes when the selection has changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Changes the selection. The candidate is judged before anything is stored and makes no compute (SP-2.3); a stale
    /// generation is refused before that (SP-2.2).
    ///
    /// # Errors
    /// [`NotSelected`]; the old selection and its work go on untouched.
    pub(crate) async fn select(
        &self,
        expected: u64,
        choice: Choice,
        by: Administrator,
    ) -> Result<Selection, NotSelected> {
        let _one = self.changing.lock().await;
        let present = self.parts.store.read().selection().await;
        let present = present.map_err(NotSelected::Store)?;
        if present.generation != expected {
            return Err(SelectionRefused::Stale(present.generation).into());
        }
        let candidate = Selection {
            generation: expected + 1,
            choice,
        };
        let hosting = match candidate.choice.provider {
            Some(_) if candidate.choice != present.choice => Some(
                self.judge(&candidate, &self.parts.plugins.current())
                    .await?,
            ),
            _ => None,
        };
        let unit = SelectProvider {
            expected,
            choice: candidate.choice,
            by,
        };
        let selected = self
            .parts
            .store
            .write(unit)
            .await
            .map_err(|error| match error {
                WriteError::Refused(refused) => NotSelected::Refused(refused),
                WriteError::Store(error) => NotSelected::Store(error),
            })?;
        if selected.generation != expected {
            self.use_now(selected.generation, hosting);
            self.changed.notify_one();
        }
        Ok(selected)
    }

    /// Judges the deployment's provider as these plugins have it, and takes them if it can be used. One that could not be
    /// used before may stay so.
    ///
    /// # Errors
    /// [`NotReloaded`]; `take` was not called.
    pub(crate) async fn adopt(
        &self,
        plugins: &Plugins,
        take: impl FnOnce(),
    ) -> Result<(), NotReloaded> {
        let _one = self.changing.lock().await;
        let selection = self.parts.store.read().selection().await;
        let selection = selection.map_err(|error| NotReloaded::Plugins(error.to_string()))?;
        let hosting = match &selection.choice.provider {
            None => None,
            Some(id) => match self.judge(&selection, plugins).await {
                Ok(hosting) => Some(hosting),
                Err(error) if self.current().is_some() => {
                    let id = id.clone();
                    return Err(NotReloaded::Provider { id, error });
                }
                Err(error) => {
                    say_refused(id, &error);
                    None
                }
            },
        };
        take();
        self.use_now(selection.generation, hosting);
        self.changed.notify_one();
        Ok(())
    }

    pub(crate) fn use_now(&self, generation: u64, hosting: Option<Arc<Hosting>>) {
        self.hosts.store(hosting.is_some(), Ordering::Release);
        if let Some(hosting) = &hosting {
            let made = (generation, hosting.plugin().digest.clone());
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(made, Arc::clone(hosting));
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current {
            generation,
            hosting,
        };
    }

    /// The provider of a selection, ready for use.
    async fn judge(
        &self,
        selection: &Selection,
        plugins: &Plugins,
    ) -> Result<Arc<Hosting>, NotSelected> {
        let id = selection.choice.provider.as_deref().unwrap_or_default();
        let provider = plugins.provider(id).ok_or(NotSelected::Unknown)?;
        settings::check(&provider.manifest.settings, &selection.choice.settings)?;
        let mut hosting = self
            .hosting(selection, plugins)
            .ok_or(NotSelected::Unknown)?;
        if let Some(hosting) = Arc::get_mut(&mut hosting) {
            let ready = hosting.make_ready().await;
            ready.map_err(|error| NotSelected::Provider(error.code))?;
        }
        Ok(hosting)
    }

    fn hosting(&self, selection: &Selection, plugins: &Plugins) -> Option<Arc<Hosting>> {
        let parts = &self.parts;
        let provider = plugins.provider(selection.choice.provider.as_deref()?)?;
        let granted = provider.granted.clone();
        let settings = settings::effective(&provider.manifest.settings, &selection.choice.settings);
        let sandboxes = Some(Arc::clone(&parts.sandboxes));
        let handle = ProviderHandle::new(provider, &granted, parts.memory.clone(), sandboxes)
            .with_selection(settings.clone(), Resources::default());
        Some(Arc::new(Hosting::new(
            handle,
            (selection.generation, settings),
            parts.installation,
            parts.core_url.clone(),
        )))
    }
}

fn say_refused(id: &str, error: &NotSelected) {
    tracing::error!(provider = id, %error, "hosted Environments are refused; `berth doctor` says what is missing, `berth provider set` chooses");
}
