//! The initialization of an Environment and its installed snapshot (RP-9).
//!
//! A Session's own variables are kept in `prepared.json`; `installed.json` ties Session and Environment to a digest of the
//! ordered sources, also of none (RP-9.21). A completion record beside it remembers that the preparation once succeeded, so
//! that a snapshot which somebody deleted is not mistaken for a first preparation (RP-9.23). Nothing of this is ever
//! repaired, replaced or installed again (RP-9.24, RP-9.25).

mod store;

pub use store::{LoadError, StepError, Store};
