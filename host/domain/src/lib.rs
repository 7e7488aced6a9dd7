//! The rules of Berth as pure functions: what exists, what may happen to it, what the world sees of it.
//!
//! Every decision is a function of (state, command, [`Context`]) to [`Decided`] or [`Refusal`]. Nothing here reads a clock,
//! draws a random number, opens a file or knows SQL: the database time and a source of ids come in through the [`Context`],
//! and effects are performed by the callers. `store` loads a [`SessionState`], calls one decision, applies its [`Changes`]
//! and commits; `core::api` maps each [`Refusal`] to an answer and renders each [`EventPayload`].

pub mod agent;
pub mod archive;
pub mod blob;
pub mod configuration;
pub mod content;
pub mod creation;
pub mod digest;
pub mod file;
pub mod id;
pub mod invalid;
pub mod json;
pub mod key;
pub mod metadata;
pub mod model;
pub mod preparation;
pub mod run;
pub mod sandbox;
pub mod secret;
pub mod skill;
pub mod template;
pub mod time;
pub mod vault;
pub mod waiting;

pub mod allocation;
pub mod artifact;
pub mod binding;
pub mod call;
pub mod environment;
pub mod input;
pub mod item;
pub mod lease;
pub mod provider;
pub mod reservation;
pub mod selection;
pub mod session;
pub mod turn;
pub mod usage;

pub mod diagnostics;
pub mod retention;
pub mod summary;

pub mod changes;
pub mod dispatch;
pub mod event;
pub mod projection;
pub mod refusal;
pub mod session_state;

mod draft;

pub use changes::{Changes, Context, Decided, Hint, Write};
pub use digest::Digest;
pub use event::EventPayload;
pub use id::*;
pub use refusal::Refusal;
pub use secret::Secret;
pub use session_state::SessionState;
pub use time::Timestamp;

#[cfg(test)]
mod testing;
