//! `berth daemon`: one process, one home, one link.

mod settings;
mod start;

pub use settings::{DaemonError, Settings};
pub use start::run;
