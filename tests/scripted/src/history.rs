//! The one thread of a private home, kept on disk like Codex keeps its own: from the first Turn on.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its id.
    pub id: String,
    /// Its working directory.
    pub cwd: String,
    /// What the user said, in order.
    pub messages: Vec<String>,
}

/// Where it is kept.
pub struct Store {
    file: PathBuf,
}

impl Store {
    /// Of this private home.
    pub fn new(home: &Path) -> Self {
        Self {
            file: home.join("scripted-thread.json"),
        }
    }

    /// The thread that is kept.
    pub fn load(&self) -> Option<Thread> {
        serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()
    }

    /// Keeps it.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn save(&self, thread: &Thread) -> Result<()> {
        let new = self.file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(thread)?)?;
        std::fs::rename(&new, &self.file).context("cannot keep the thread")
    }
}
