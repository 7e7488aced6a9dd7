//! Where a plugin's log lines go. A harness adapter and a resolver have no host in their arguments, and the log is the one
//! thing that every plugin may use; whoever calls the plugin sets the sink once.

use std::sync::OnceLock;

use crate::common::Pair;
use crate::log::Level;

/// Takes one line.
pub type Sink = fn(Level, &str, &[Pair]);

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sets the sink of this program, library or component; the first one stays.
pub fn set(sink: Sink) {
    // A second caller has the same one.
    let _ = SINK.set(sink);
}

/// Writes one line (limits: [`crate::Log::emit`]); without a sink it goes nowhere.
pub fn emit(level: Level, message: &str, fields: &[Pair]) {
    if let Some(sink) = SINK.get() {
        sink(level, message, fields);
    }
}
