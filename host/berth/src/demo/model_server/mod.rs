//! A model that says what a script tells it to: the Responses API on loopback, complete enough for real Codex.
//!
//! The demo uses it where no model is configured, and every test does: a real harness then behaves the same way each time, faults included.
//! It keeps no conversation. Which reply is due follows from the request alone (the last user message chooses the replies, the tool results
//! after it choose one of them), so any number of Sessions may use one server at the same time.

mod conversation;
mod events;
mod script;
mod serve;

pub use script::Script;
pub use serve::{Arguments, ModelServer, run};
