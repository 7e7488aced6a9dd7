//! What a plugin writes to the log: bounded in size and in rate, never trusted with the format.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use contract::common::Pair;
use contract::log::Level;

/// Lines a second of one plugin; more are dropped and counted (contract).
const LINES: u32 = 100;
const MESSAGE_CHARS: usize = 4096;
const FIELDS: usize = 16;

/// The log of one plugin.
#[derive(Debug)]
pub(crate) struct PluginLog {
    plugin: String,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    lines: u32,
    dropped: u64,
}

impl PluginLog {
    pub(crate) fn new(plugin: &str) -> Self {
        Self {
            plugin: plugin.to_owned(),
            window: Mutex::new(Window {
                since: Instant::now(),
                lines: 0,
                dropped: 0,
            }),
        }
    }

    /// Whose it is.
    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }

    /// Writes one line, or drops it.
    pub(crate) fn emit(&self, level: Level, message: &str, fields: &[Pair]) {
        let Some(dropped) = self.admit(Instant::now()) else {
            return;
        };
        let plugin = self.plugin.as_str();
        if dropped > 0 {
            tracing::warn!(plugin, dropped, "lines of a plugin were dropped");
        }
        let message: String = message.chars().take(MESSAGE_CHARS).collect();
        let fields: Vec<_> = fields
            .iter()
            .take(FIELDS)
            .map(|pair| format!("{}={}", pair.name, pair.value))
            .collect();
        let fields = fields.join(" ");
        match level {
            Level::Debug => tracing::debug!(plugin, fields, "{message}"),
            Level::Info => tracing::info!(plugin, fields, "{message}"),
            Level::Warn => tracing::warn!(plugin, fields, "{message}"),
            Level::Error => tracing::error!(plugin, fields, "{message}"),
        }
    }

    /// Whether a line may go out, and how many were dropped before it.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(window.since) >= Duration::from_secs(1) {
            window.since = now;
            window.lines = 0;
        }
        if window.lines >= LINES {
            window.dropped += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_lines_are_a_hundred_a_second() {
        let log = PluginLog::new("p");
        let start = Instant::now();
        let passed = (0..1_000_000)
            .filter(|_| log.admit(start).is_some())
            .count();
        assert_eq!(passed, LINES as usize);
        assert_eq!(log.admit(start + Duration::from_secs(1)), Some(999_900));
        assert_eq!(log.admit(start + Duration::from_secs(1)), Some(0));
    }
}
