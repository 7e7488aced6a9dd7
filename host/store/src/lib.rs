//! The database: the only truth of Berth, on SQLite or PostgreSQL with one SQL text.
//!
//! There is one entrance for writes, [`Store::write`], which takes a named [`Unit`]: its body loads rows, calls one
//! domain function and applies the returned changes; rows, events and their numbers commit together. Reads have a pool
//! of their own and never wait for the writer.
//!
//! How to read this crate: [`unit`] and [`tx`] say what a unit is; [`writer`] how units reach the disk; [`lease`] who
//! may run execution units; `units/` holds one file per unit of the design, [`read`] the queries of the API and the
//! scheduler; the files named like a resource hold its SQL. [`dialect`] is where the two databases differ.

#![forbid(unsafe_code)]

pub mod agents;
mod allocations;
mod apply;
mod artifacts;
mod blob_references;
mod calls;
pub mod configurations;
mod conn;
mod convert;
mod devices;
pub mod dialect;
mod environments;
pub mod error;
mod events;
pub mod files;
mod items;
pub mod lease;
mod load;
pub mod metrics;
mod migrate;
pub mod model_defaults;
pub mod notify;
mod pool;
pub mod projects;
pub mod provenance;
pub mod provider_state;
pub mod read;
mod receipts;
pub mod renewals;
mod reservations;
pub mod retries;
pub mod rotation;
pub mod selections;
mod sessions;
pub mod settings;
pub mod skills;
mod store;
pub mod templates;
#[cfg(feature = "testing")]
pub mod testing;
mod turns;
pub mod tx;
pub mod unit;
pub mod units;
pub mod vaults;
mod wakes;
mod writer;

pub use dialect::Dialect;
pub use error::{StoreError, UnitError, WriteError};
pub use events::StoredEvent;
pub use lease::{AcquireLease, Acquired, LeaseToken, ReleaseLease, RenewLease};
pub use load::Parts;
pub use notify::Committed;
/// What [`StoreSettings`] asks for.
pub use seal::{KeyRing, ServiceKey};
pub use settings::{Location, StoreSettings};
pub use store::Store;
pub use unit::{Durability, Unit};
