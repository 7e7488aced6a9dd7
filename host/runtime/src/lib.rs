//! The Runtime: what `berth daemon` runs on the machine that owns a workspace.

mod ask;
pub mod execute;
pub mod harness;
pub mod place;
pub mod relay;

pub use ask::Ask;
