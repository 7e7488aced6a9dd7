//! The HTTP API: one route table, one order of checks, one file per resource. A handler parses, calls the store or one unit
//! of it, and renders; it decides nothing.

pub(crate) mod admin;
mod agents;
mod artifacts;
pub(crate) mod auth;
pub(crate) mod call;
mod content;
mod dispatch;
pub(crate) mod error;
mod events;
mod failure;
mod files;
mod gate;
mod health;
mod history;
mod idempotency;
mod lists;
mod multipart;
mod openapi;
mod query;
pub(crate) mod render;
mod resolve;
mod route;
mod rows;
mod sessions;
mod skills;
mod stream;
mod subagents;
mod templates;
#[cfg(test)]
pub(crate) mod tests;
mod vaults;

pub(crate) use admin::installation::Facts;
pub(crate) use dispatch::Api;
pub use rows::{Operation, operations};
