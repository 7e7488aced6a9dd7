//! The plugins of this Core, loaded again while it runs. What runs keeps the version that it began with; everything new takes
//! the new one. A reload that would take something away that is in use changes nothing.

use std::sync::{Arc, PoisonError, RwLock};

use plugin_host::load::{GrantsError, folder};
use plugin_host::{PluginError, Plugins, Settings};
use tokio::sync::Mutex;

use crate::deployment::{Deployment, NotSelected};
use crate::harnesses::{Harnesses, UnknownHarness};

/// Why the plugins were not loaded again; the former ones go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReloaded {
    /// A linked plugin is broken, or loading ended badly.
    #[error("they cannot be loaded: {0}")]
    Plugins(String),
    /// A harness that the settings name would be gone.
    #[error(
        "{0}, which this Core was started with; put its plugin back, or start Core with other --harnesses or --default-harness"
    )]
    Harness(#[from] UnknownHarness),
    /// The deployment's provider could not be used any more.
    #[error(
        "the sandbox provider '{id}' of this deployment could not be used: {error}; put the former plugin back, or choose another with `berth provider set` or none with `berth provider clear`"
    )]
    Provider {
        /// Its id.
        id: String,
        /// Why.
        error: NotSelected,
    },
    /// Daemons could not be told.
    #[error("daemons cannot be told: {0}")]
    Folder(#[from] GrantsError),
}

/// The loaded plugins and where they come from.
#[derive(Debug)]
pub(crate) struct Shelf {
    settings: Settings,
    current: RwLock<Arc<Plugins>>,
    /// One reload at a time.
    loading: Mutex<()>,
}

impl Shelf {
    /// What was loaded at the start.
    pub(crate) fn new(plugins: Plugins, settings: Settings) -> Self {
        Self {
            settings,
            current: RwLock::new(Arc::new(plugins)),
            loading: Mutex::default(),
        }
    }

    /// The plugins for everything new.
    pub(crate) fn current(&self) -> Arc<Plugins> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the folder again, judges all of it, and only then takes it. Daemons are told through the folder.
    ///
    /// # Errors
    /// [`NotReloaded`]; nothing was changed.
    pub(crate) async fn reload(
        &self,
        harnesses: &Harnesses,
        deployment: Option<&Deployment>,
    ) -> Result<(), NotReloaded> {
        let _one = self.loading.lock().await;
        let settings = self.settings.clone();
        let broken = |error: PluginError| NotReloaded::Plugins(error.to_string());
        // Compiling takes seconds.
        let opened = tokio::task::spawn_blocking(move || Plugins::open(&settings)).await;
        let opened = opened.map_err(|error| NotReloaded::Plugins(error.to_string()))?;
        let plugins = Arc::new(opened.map_err(broken)?);
        let declared = plugins.harnesses().map_err(broken)?;
        let declared = declared.into_iter().map(|harness| harness.declaration);
        let known = harnesses.judge(declared.collect())?;
        let take = || {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&plugins);
            harnesses.replace(known);
        };
        match deployment {
            Some(deployment) => deployment.adopt(&plugins, take).await?,
            None => take(),
        }
        if let Some(folder) = &self.settings.folder {
            folder::touch(folder)?;
        }
        Ok(())
    }
}
