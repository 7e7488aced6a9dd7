//! The one thread of a private home, kept on disk like Codex keeps its own: from its name or its first Turn on.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
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
    names: PathBuf,
}

impl Store {
    /// Of this private home.
    pub fn new(home: &Path) -> Self {
        Self {
            file: home.join("scripted-thread.json"),
            names: home.join("session_index.jsonl"),
        }
    }

    /// The thread that is kept.
    pub fn load(&self) -> Option<Thread> {
        serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()
    }

    /// Keeps it under a name, unless another one has begun: a home has one thread with Turns.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn name(&self, thread: &Thread, name: &str) -> Result<()> {
        if self.load().is_none_or(|kept| kept.messages.is_empty()) {
            self.save(thread)?;
        }
        let line = serde_json::json!({"id": thread.id, "thread_name": name});
        let mut names = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.names)?;
        names
            .write_all(format!("{line}\n").as_bytes())
            .context("cannot keep the name")
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
