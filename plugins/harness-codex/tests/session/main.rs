//! Single conversations: what is refused, what is answered, what is kept.

#![allow(clippy::unwrap_used, clippy::panic)]

mod configuration;
mod frames;
mod prepare;
mod questions;
#[path = "../support/mod.rs"]
mod support;
mod turn;
