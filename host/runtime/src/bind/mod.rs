//! Sessions that are bound to this Runtime (RP-8).
//!
//! The link's machine has fenced and admitted everything before it comes here. A [`Session`] is one task per bound Session: it
//! owns the Session's Executor, its initialization and its transfers, so that a slow one never delays another (RP-4.6).
//! [`work`] is what Core asks for, [`open`] makes an Executor, [`reports`] is what the Executor tells. What every Session of
//! the daemon shares (machine, harnesses) is in [`Shared`], who has an Executor in [`seats`].

mod exporting;
mod open;
mod reports;
mod seats;
mod session;
mod shared;
#[cfg(test)]
mod tests;
mod work;

pub use session::{Order, Session};
pub use shared::{Limits, Shared};
