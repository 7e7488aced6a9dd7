//! The Runtime: what `berth daemon` runs on the machine that owns a workspace.

pub mod relay;
