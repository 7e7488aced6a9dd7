//! The Runtime: what `berth daemon` runs on the machine that owns a workspace.

pub mod bind;
pub mod execute;
pub mod files;
pub mod harness;
pub mod place;
pub mod prepare;
pub mod relay;
