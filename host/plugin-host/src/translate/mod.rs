//! Between the plugin contract and our own vocabulary: the only place that knows both.
//!
//! Every match is exhaustive, so a case that either side gains does not compile until somebody decides what it means.
//! What an earlier version of the contract says otherwise is in `dialect`.

pub(crate) mod dialect;
pub mod harness;
pub mod provider;
