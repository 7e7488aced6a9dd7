//! What the sandbox providers can do on this machine, asked as a Core asks them (LOC-002, LOC-003).

use super::serve::Isolation;
use crate::data_dir::{self, HARNESSES};
use anyhow::Context;
use clap::{Args, ValueEnum};
use domain::Secret;
use domain::provider::Health;
use machine::sandbox::{Sandboxes, Settings};
use plugin_host::providers::{Provider, ProviderHandle, ProviderMemory, RememberError, Scope};
use std::path::PathBuf;
use std::sync::Arc;

/// Which isolation is asked about.
#[derive(Debug, Args)]
pub struct LocalOptions {
    /// Data folder of the Core.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    pub data_dir: PathBuf,
    /// As for `berth serve`; when left out, that of the Core that runs on the data folder, else `auto`.
    #[arg(long)]
    pub local_isolation: Option<Isolation>,
}

impl LocalOptions {
    fn isolation(&self) -> Isolation {
        let running = || {
            let recorded = data_dir::recorded(&self.data_dir).ok()?;
            Isolation::from_str(&recorded.local_isolation, false).ok()
        };
        self.local_isolation
            .or_else(running)
            .unwrap_or(Isolation::Auto)
    }

    /// Asks a provider whether it is ready and what it found. What it tries is tried in a folder that goes again.
    ///
    /// # Errors
    /// There is no place for the trial.
    pub async fn ask(&self, provider: Provider) -> anyhow::Result<Health> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let program = std::env::current_exe().context("cannot find our own program")?;
        // A folder that is not there yet is not made by a question.
        let harnesses = match self.data_dir.join(HARNESSES) {
            there if there.is_dir() => there,
            _ => folder.path().join(HARNESSES),
        };
        let mut settings = Settings::new(folder.path().join("sessions"), program, harnesses);
        settings.isolation = self.isolation().chosen();
        let granted = provider.granted.clone();
        let sandboxes = Arc::new(Sandboxes::new(settings));
        let handle = ProviderHandle::new(provider, &granted, Arc::new(Forgetful), Some(sandboxes));
        Ok(handle.check().await)
    }
}

/// A fact that the provider tells, by its name.
pub fn fact<'h>(health: &'h Health, name: &str) -> Option<&'h str> {
    let found = health.facts.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// There is no Core here whose database could remember anything.
struct Forgetful;

impl ProviderMemory for Forgetful {
    fn get(&self, _: &str, _: Scope, _: &str) -> Result<Option<Secret>, RememberError> {
        Ok(None)
    }

    fn put(&self, _: &str, _: Scope, _: &str, _: Option<Secret>) -> Result<(), RememberError> {
        Err(RememberError::Unavailable)
    }
}
