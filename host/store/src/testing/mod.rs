//! For tests of this and other crates: fresh databases of both kinds, and a clock that can be moved.
//!
//! Compiled in only with the feature `testing`; no product build has it.

mod databases;
mod invariants;
mod postgres;

pub use databases::{TestDatabase, move_clock};
pub use invariants::violations;
