//! Between the plugin contract and our own vocabulary: the only place that knows both.
//!
//! Every match is exhaustive, so a case that either side gains does not compile until somebody decides what it means.
//! A later contract version gets its own folder here and the present one is kept, adapted, for older plugins.

pub mod harness;
pub mod provider;
