//! The conformance suites: what the host relies on, as checks that a plugin's author runs in their own tests.
//!
//! - [`manifest`]: a `plugin.toml` that the host will take.
//! - [`harness`]: a harness adapter. [`harness::declaration`] judges what it says about itself, [`harness::Referee`] judges
//!   a conversation step by step, [`harness::Bench`] puts a session under the referee and proves that it is deterministic,
//!   [`harness::Transcript`] replays recorded conversations, [`harness::Rig`] runs a session with its real program and
//!   records one.
//! - [`provider`]: a sandbox provider. [`provider::FakeHost`] lends it a machine that forgets, refuses and lies on
//!   command, [`provider::suite`] is the discipline of the six results.
//! - [`resolver`]: an MCP resolver, by what it may never do and by fixtures.
//!
//! A check returns an [`Error`] that names the rule; a suite never panics by itself.

pub mod harness;
pub mod manifest;
pub mod provider;
pub mod resolver;

/// A rule that a plugin broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {what}")]
pub struct Error {
    /// Id of the rule, such as `RP-7.1`.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

/// What a check returns.
pub type Result<T = ()> = std::result::Result<T, Error>;

pub(crate) fn ensure(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Result {
    if holds {
        Ok(())
    } else {
        Err(Error { rule, what: what() })
    }
}

pub(crate) fn broken<T>(rule: &'static str, what: impl Into<String>) -> Result<T> {
    Err(Error {
        rule,
        what: what.into(),
    })
}

/// `[a-z0-9_]{1,64}`, the form of every fixed code.
pub(crate) fn is_code(code: &str) -> bool {
    (1..=64).contains(&code.len())
        && code
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
