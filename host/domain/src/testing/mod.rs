//! A model store and a world around it: what the tests of the machines run against.
//!
//! [`Model`] keeps rows and events like the real store and refuses what its constraints refuse; [`World`] is one Session with
//! everybody who acts on it; [`invariants`] says what must hold after every commit.

mod actors;
mod closure;
mod invariants;
mod model;
mod random;
mod storage;
mod world;

pub(crate) use model::Model;
pub(crate) use world::{World, message, result};
