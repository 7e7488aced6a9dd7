//! The API over a real store, without sockets: requests in, bytes out, and the database compared before and after.

mod administration;
mod creations;
mod files;
pub(crate) mod fixture;
mod idempotency;
mod lists;
mod matrix;
mod paths;
mod registry;
mod shapes;
mod skills;
mod slow;
mod streams;
mod templates;
mod text;
mod vaults;
mod waits;
