//! The rules of Berth as pure functions: what exists, what may happen to it, what the world sees of it.
//!
//! Every decision is `fn(&State, Command, now) -> Result<Changes, Refusal>`. Nothing here reads a clock, draws a random
//! number, opens a file or knows SQL: ids, time and random values are passed in, and effects are performed by the callers.

pub mod id;
pub mod secret;
pub mod time;

pub use id::*;
pub use secret::Secret;
pub use time::Timestamp;
