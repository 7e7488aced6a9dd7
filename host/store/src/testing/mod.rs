//! For tests of this and other crates: fresh databases of both kinds, a clock that can be moved, and what must hold
//! over a whole database.
//!
//! Compiled in only with the feature `testing`; no product build has it.

mod databases;
mod invariants;
mod messages;
mod postgres;
mod proxy;

pub use databases::{TakenReaders, TestDatabase, move_clock, take_readers};
pub use invariants::violations;
pub use messages::{StoredMessage, live_sessions, messages};
pub use proxy::Proxy;
