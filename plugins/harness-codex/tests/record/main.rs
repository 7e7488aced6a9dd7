//! Records the transcripts from the real program; `cargo xtask record` does it with the pinned one. Needs `CODEX_PROGRAM`,
//! the native binary, and `BERTH_PROGRAM`, which serves the scripted model.
//!
//! Each scenario is one conversation with one process of Codex; what the model says is written into the messages.

#![allow(clippy::unwrap_used, clippy::panic)]

mod faults;
mod scenarios;
mod stage;
#[path = "../support/mod.rs"]
mod support;
