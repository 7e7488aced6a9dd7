//! The authority of Sessions on this Runtime (RP-2, RP-8).
//!
//! A [`Session`] is one task per bound Session: it owns the Session's admissions, its Executor, its initialization and its
//! transfers, so that a slow one never delays another (RP-4.6). [`admission`] is the state of one `prepare_id`. What every
//! Session of the daemon shares (machine, harnesses, capacity) is in [`Shared`].

mod admission;
mod exporting;
mod orders;
mod reports;
mod session;
mod shared;

pub use session::{Order, Outgoing, Session};
pub use shared::{Limits, Shared};
