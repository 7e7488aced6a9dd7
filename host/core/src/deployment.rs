//! The deployment's sandbox provider, as this Core uses it: the selection that the database holds, changed while it runs
//! (SP-2.1 to SP-2.3), and every earlier one for what it made (SP-2.6).

mod settings;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use domain::InstallationId;
use domain::allocation::Allocation;
use domain::provider::Resources;
use domain::selection::{Choice, Selection, SelectionRefused};
use machine::sandbox::Sandboxes;
use plugin_host::Plugins;
use plugin_host::providers::{Chosen, ProviderHandle, SecretSettings, secret_key};
use store::provenance::Administrator;
use store::selections::SelectProvider;
use store::{Store, StoreError, WriteError};
use tokio::sync::{Mutex, Notify};

use crate::plugins::{NotReloaded, Shelf};
use crate::provider_memory::Records;
use crate::scheduler::Hosting;
pub(crate) use watch::CHECK_EVERY;

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

impl NotSelected {
    /// The provider's own code, or what is wrong with the selection.
    fn code(&self) -> String {
        match self {
            Self::Provider(code) => code.clone(),
            other => other.to_string(),
        }
    }
}

/// What it works with.
pub(crate) struct Parts {
    pub store: Store,
    pub plugins: Arc<Shelf>,
    pub sandboxes: Arc<Sandboxes>,
    pub memory: Arc<Records>,
    pub installation: InstallationId,
    pub core_url: String,
    /// This program, under which a provider's programs are started.
    pub program: PathBuf,
    /// Pause between two questions whether the provider is ready.
    pub check_every: Duration,
}

/// Which generation, by which plugin file.
type Made = (u64, Option<String>);

/// What is used for new Environments.
#[derive(Default)]
struct Current {
    generation: u64,
    /// None where nothing is selected, or what is selected could never be used.
    hosting: Option<Arc<Hosting>>,
    /// Why it cannot be used now: a fixed code or a sentence, never native text.
    problem: Option<String>,
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
    /// A call went wrong: it is asked at once whether the provider is ready.
    doubted: Notify,
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
            doubted: Notify::new(),
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
        let judged = match &selection.choice.provider {
            None => Ok(None),
            Some(id) => match self
                .judge_stored(&selection, &self.parts.plugins.current())
                .await
            {
                Ok(hosting) => Ok(Some(hosting)),
                Err(error) => Err(say_refused(id, &error)),
            },
        };
        self.use_now(selection.generation, judged);
        self.changed.notify_one();
        Ok(())
    }

    /// The provider for new Environments, if one is usable now (SP-12.2).
    pub(crate) fn current(&self) -> Option<Arc<Hosting>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        match current.problem {
            None => current.hosting.clone(),
            Some(_) => None,
        }
    }

    /// Why the selected provider cannot be used now.
    pub(crate) fn problem(&self) -> Option<String> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.problem.clone()
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
        let hosting = selection.and_then(|selection| {
            let secrets = SecretSettings::Stored(selection.generation);
            self.hosting(&selection, secrets, &plugins)
        });
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
    /// generation is refused before that (SP-2.2). Secret settings among the choice's are sealed and never shown again; a
    /// choice that gives some is always a change.
    ///
    /// # Errors
    /// [`NotSelected`]; the old selection and its work go on untouched.
    pub(crate) async fn select(
        &self,
        expected: u64,
        mut choice: Choice,
        by: Administrator,
    ) -> Result<Selection, NotSelected> {
        let _one = self.changing.lock().await;
        let plugins = self.parts.plugins.current();
        let present = self.parts.store.read().selection().await;
        let present = present.map_err(NotSelected::Store)?;
        if present.generation != expected {
            return Err(SelectionRefused::Stale(present.generation).into());
        }
        let secrets = match choice.provider.as_deref() {
            Some(id) => {
                let provider = plugins.provider(id).ok_or(NotSelected::Unknown)?;
                let known = &provider.manifest.settings;
                settings::check(known, &choice.settings)?;
                settings::take_secrets(known, &mut choice.settings)
            }
            None => BTreeMap::new(),
        };
        let candidate = Selection {
            generation: expected + 1,
            choice,
        };
        let given = SecretSettings::Given(Arc::new(secrets.clone()));
        let changes = candidate.choice != present.choice || !secrets.is_empty();
        let hosting = match candidate.choice.provider {
            Some(_) if changes => Some(self.judge(&candidate, given, &plugins).await?),
            _ => None,
        };
        let secrets = secrets
            .into_iter()
            .map(|(key, value)| (secret_key(candidate.generation, &key), value));
        let unit = SelectProvider {
            expected,
            choice: candidate.choice,
            secrets: secrets.collect(),
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
            self.use_now(selected.generation, Ok(hosting));
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
        let judged = match &selection.choice.provider {
            None => Ok(None),
            Some(id) => match self.judge_stored(&selection, plugins).await {
                Ok(hosting) => Ok(Some(hosting)),
                Err(error) if self.current().is_some() => {
                    let id = id.clone();
                    return Err(NotReloaded::Provider { id, error });
                }
                Err(error) => Err(say_refused(id, &error)),
            },
        };
        take();
        self.use_now(selection.generation, judged);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes what was judged: a provider, none, or why the selected one cannot be used.
    pub(crate) fn use_now(&self, generation: u64, judged: Result<Option<Arc<Hosting>>, String>) {
        let (hosting, problem) = match judged {
            Ok(hosting) => (hosting, None),
            Err(problem) => (None, Some(problem)),
        };
        self.hosts.store(hosting.is_some(), Ordering::Release);
        if let Some(hosting) = &hosting {
            let made = (generation, hosting.plugin().digest.clone());
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(made, Arc::clone(hosting));
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current {
            generation,
            hosting,
            problem,
        };
    }

    /// The provider of the stored selection, ready for use. Its settings were checked when it was selected; the manifest may
    /// be another one since.
    async fn judge_stored(
        &self,
        selection: &Selection,
        plugins: &Plugins,
    ) -> Result<Arc<Hosting>, NotSelected> {
        let id = selection.choice.provider.as_deref().unwrap_or_default();
        let provider = plugins.provider(id).ok_or(NotSelected::Unknown)?;
        let known = &provider.manifest.settings;
        settings::check_stored(known, &selection.choice.settings)?;
        let secrets = SecretSettings::Stored(selection.generation);
        self.judge(selection, secrets, plugins).await
    }

    /// The provider of a selection, ready for use.
    async fn judge(
        &self,
        selection: &Selection,
        secrets: SecretSettings,
        plugins: &Plugins,
    ) -> Result<Arc<Hosting>, NotSelected> {
        let mut hosting = self
            .hosting(selection, secrets, plugins)
            .ok_or(NotSelected::Unknown)?;
        if let Some(hosting) = Arc::get_mut(&mut hosting) {
            let ready = hosting.make_ready().await;
            ready.map_err(|error| NotSelected::Provider(error.code))?;
        }
        Ok(hosting)
    }

    fn hosting(
        &self,
        selection: &Selection,
        secrets: SecretSettings,
        plugins: &Plugins,
    ) -> Option<Arc<Hosting>> {
        let parts = &self.parts;
        let provider = plugins.provider(selection.choice.provider.as_deref()?)?;
        let granted = provider.granted.clone();
        let settings = settings::effective(&provider.manifest.settings, &selection.choice.settings);
        let sandboxes = Some(Arc::clone(&parts.sandboxes));
        let handle = ProviderHandle::new(provider, &granted, parts.memory.clone(), sandboxes)
            .with_selection(Chosen {
                settings: settings.clone(),
                secrets,
                resources: Resources::default(),
            })
            .with_programs(&parts.program);
        Some(Arc::new(Hosting::new(
            handle,
            (selection.generation, settings),
            parts.installation,
            parts.core_url.clone(),
        )))
    }
}

/// Says it in the log, and for those who ask.
fn say_refused(id: &str, error: &NotSelected) -> String {
    tracing::error!(provider = id, %error, "hosted Environments are refused; `berth doctor` says what is missing, `berth provider set` chooses");
    error.code()
}
