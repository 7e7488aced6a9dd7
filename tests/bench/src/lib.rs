//! What Berth costs, each figure beside its ceiling measured in the same run (`cargo xtask bench`).
//!
//! A row alternates between Berth and its ceiling, so that a busy machine slows both, and reports the median of the pairs. Trust the
//! ratios; absolute figures are of the machine that printed them.

pub mod ceiling;
pub mod effort;
pub mod harness;
pub mod http;
pub mod report;
pub mod rows;
pub mod sample;
pub mod server;
