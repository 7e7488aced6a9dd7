//! The Session's workspace as Core may use it (RP-15). Everything is anchored at the opened folder; no path of Core and no
//! link of the agent leads out of it.

mod export;

pub use export::{ExportFailure, Gone, Sink, export};
