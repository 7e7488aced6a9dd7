//! Harness adapters.

mod bench;
mod configuration;
pub mod declaration;
mod items;
mod outputs;
mod referee;
mod rig;
mod suite;
mod transcript;

pub use bench::Bench;
pub use configuration::configuration;
pub use contract::catalogue::{ABILITIES, FAILURE_CODES, PREPARE_CODES};
pub use referee::Referee;
pub use rig::{Fills, Rig, RigError};
pub use suite::suite;
pub use transcript::{Scrub, Step, Transcript, TranscriptError};
