//! A harness that does what a timeline tells it to: it speaks Codex's app-server protocol, so that fault cases run in milliseconds.
//!
//! Installed in the place of the real program, it answers the same requests. What a Turn does comes from the user's message (a line
//! `timeline: [STEP, …]`), else from the first fitting rule of `timeline.json` beside the program, else it repeats the message. It writes
//! each request to `requests.jsonl` in its private home, where a test counts native starts.

mod history;
mod requests;
mod server;
mod timeline;
mod turn;

pub use server::run;
pub use timeline::{Plan, Rule, Step};
