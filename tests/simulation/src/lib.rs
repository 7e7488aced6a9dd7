//! The link under faults, deterministically: both ends of `protocol` talk over a network that delays, repeats and cuts, with a
//! model of Core on one side and a model of the daemon on the other. Everything random comes from one seed, which a failure
//! prints; the same seed is the same story.
//!
//! [`network`] carries messages, [`world`] holds both ends and lets time pass, [`core`] and [`daemon`] act at random within the
//! rules, and each of them checks what it sees at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a story that goes wrong ends with its seed"
)]

pub mod core;
pub mod daemon;
pub mod network;
pub mod world;

use domain::run::Binding;
use domain::{BindingId, EnvironmentId, SessionId};
use uuid::Uuid;

/// The random source of one story.
pub type Random = rand::rngs::StdRng;

/// Gives every id of a story its own number.
#[derive(Debug, Default)]
pub struct Counter(u128);

impl Counter {
    /// A UUID that this story has not seen.
    pub fn fresh(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(0x5eed << 64 | self.0)
    }
}

/// The authority of the one Session of a story.
pub fn binding(epoch: u64) -> Binding {
    Binding {
        session: SessionId::new(Uuid::from_u128(1)),
        environment: Some(EnvironmentId::new(Uuid::from_u128(2))),
        id: BindingId::new(Uuid::from_u128(3)),
        epoch,
    }
}
