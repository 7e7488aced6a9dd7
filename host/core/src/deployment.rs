//! The deployment's sandbox provider, as this Core uses it: the selection that the database holds, changed while it runs
//! (SP-2.1 to SP-2.3), and every earlier one for what it made (SP-2.6).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use domain::InstallationId;
use domain::provider::Resources;
use domain::selection::{Choice, Selection, SelectionRefused};
use machine::sandbox::Sandboxes;
use plugin_host::Plugins;
use plugin_host::contract::manifest::{Setting, SettingKind};
use plugin_host::providers::ProviderHandle;
use store::provenance::Administrator;
use store::selections::SelectProvider;
use store::{Store, StoreError, WriteError};
use tokio::sync::{Mutex, Notify};

use crate::provider_memory::Records;
use crate::scheduler::Hosting;

/// Longest value of a setting, in bytes.
const VALUE_BYTES: usize = 4096;

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
    pub plugins: Plugins,
    pub sandboxes: Arc<Sandboxes>,
    pub memory: Arc<Records>,
    pub installation: InstallationId,
    pub core_url: String,
}

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
    /// By generation. A provider whose plugin is not there any more is none.
    known: RwLock<HashMap<u64, Option<Arc<Hosting>>>>,
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
            Some(id) => match self.judge(&selection).await {
                Ok(hosting) => Some(hosting),
                Err(error) => {
                    tracing::error!(provider = id, %error, "hosted Environments are refused; `berth doctor` says what is missing, `berth provider set` chooses");
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

    /// The provider as it was in a generation; never another one in its place (SP-2.6).
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn of(&self, generation: u64) -> Result<Option<Arc<Hosting>>, StoreError> {
        let known = || -> Option<Option<Arc<Hosting>>> {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.get(&generation).cloned()
        };
        if let Some(found) = known() {
            return Ok(found);
        }
        let selection = self.parts.store.read().selection_of(generation).await?;
        let hosting = selection
            .as_ref()
            .and_then(|selection| self.hosting(selection));
        if hosting.is_none() {
            tracing::error!(
                generation,
                "what the provider of this generation made cannot be looked at: it is not loaded"
            );
        }
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(generation).or_insert(hosting).clone())
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
            Some(_) if candidate.choice != present.choice => Some(self.judge(&candidate).await?),
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

    pub(crate) fn use_now(&self, generation: u64, hosting: Option<Arc<Hosting>>) {
        self.hosts.store(hosting.is_some(), Ordering::Release);
        if let Some(hosting) = &hosting {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(generation, Some(Arc::clone(hosting)));
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current {
            generation,
            hosting,
        };
    }

    /// The provider of a selection, ready for use.
    async fn judge(&self, selection: &Selection) -> Result<Arc<Hosting>, NotSelected> {
        let id = selection.choice.provider.as_deref().unwrap_or_default();
        let provider = self
            .parts
            .plugins
            .provider(id)
            .ok_or(NotSelected::Unknown)?;
        check_settings(&provider.manifest.settings, &selection.choice.settings)?;
        let mut hosting = self.hosting(selection).ok_or(NotSelected::Unknown)?;
        if let Some(hosting) = Arc::get_mut(&mut hosting) {
            let ready = hosting.make_ready().await;
            ready.map_err(|error| NotSelected::Provider(error.code))?;
        }
        Ok(hosting)
    }

    fn hosting(&self, selection: &Selection) -> Option<Arc<Hosting>> {
        let parts = &self.parts;
        let provider = parts
            .plugins
            .provider(selection.choice.provider.as_deref()?)?;
        let granted = provider.granted.clone();
        let settings = effective(&provider.manifest.settings, &selection.choice.settings);
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

/// Whether these are settings that the manifest knows, each of its type, with every required one.
fn check_settings(known: &[Setting], given: &BTreeMap<String, String>) -> Result<(), NotSelected> {
    let wrong = |key: &str, what| Err(NotSelected::Setting(key.to_owned(), what));
    for (key, value) in given {
        let Some(setting) = known.iter().find(|setting| setting.key == *key) else {
            return wrong(key, "is not one of this provider's");
        };
        let fits = match setting.kind {
            SettingKind::String => true,
            SettingKind::Bool => matches!(value.as_str(), "true" | "false"),
            SettingKind::Integer => value.parse::<i64>().is_ok(),
            // Nothing that a provider may use takes one yet.
            SettingKind::Secret => {
                return wrong(key, "is a secret, which this version takes for no provider");
            }
        };
        if !fits {
            return wrong(key, "is not of its type");
        }
        if value.len() > VALUE_BYTES || value.contains('\0') {
            return wrong(key, "is longer than 4096 bytes or holds a NUL");
        }
    }
    match known
        .iter()
        .find(|setting| setting.required && !given.contains_key(&setting.key))
    {
        Some(missing) => wrong(&missing.key, "is required"),
        None => Ok(()),
    }
}

/// What was given, and the defaults of the rest.
fn effective(known: &[Setting], given: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let value = |setting: &Setting| {
        let value = given.get(&setting.key).or(setting.default.as_ref())?;
        Some((setting.key.clone(), value.clone()))
    };
    known.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, kind: SettingKind, required: bool, default: Option<&str>) -> Setting {
        Setting {
            key: key.to_owned(),
            kind,
            description: String::new(),
            required,
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn settings_are_those_of_the_manifest() {
        let known = [
            setting("region", SettingKind::String, true, None),
            setting("size", SettingKind::Integer, false, Some("2")),
            setting("fast", SettingKind::Bool, false, None),
            setting("key", SettingKind::Secret, false, None),
        ];
        let given = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect()
        };
        for (pairs, wrong) in [
            (
                &[("region", "eu"), ("size", "3"), ("fast", "true")][..],
                None,
            ),
            (&[("size", "3")], Some("region")),
            (&[("region", "eu"), ("size", "three")], Some("size")),
            (&[("region", "eu"), ("fast", "yes")], Some("fast")),
            (&[("region", "eu"), ("key", "k")], Some("key")),
            (&[("region", "eu"), ("color", "red")], Some("color")),
            (&[("region", "a\0b")], Some("region")),
        ] {
            let found = match check_settings(&known, &given(pairs)) {
                Ok(()) => None,
                Err(NotSelected::Setting(key, _)) => Some(key),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found.as_deref(), wrong, "{pairs:?}");
        }
        let effective = effective(&known, &given(&[("region", "eu")]));
        let expected = [("region", "eu"), ("size", "2")];
        assert_eq!(
            effective,
            expected.map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }
}
