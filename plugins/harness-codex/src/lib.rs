//! The Codex adapter: drives `codex app-server` (JSON-RPC over standard input and output, one object a line).
//!
//! A sans-I/O state machine behind [`sdk::HarnessAdapter`]: [`Codex`] declares and checks, one `Session` per Executor
//! turns inputs into outputs. Nothing here opens a file, a socket, a process or a clock.
//!
//! | File | Idea |
//! | --- | --- |
//! | `adapter`, `declaration`, `check` | what Codex can do and which configurations it takes |
//! | `launch`, `config` | the process, its private home, `config.toml` and the model catalog |
//! | `rpc`, `out` | frames in, outputs out |
//! | `session`, `prepare`, `recover` | one process from launch to close; start, resume, find a thread |
//! | `run`, `messages`, `settle` | one Turn: start, steering, cancel, and when it is over |
//! | `items`, `native`, `shell`, `usage`, `failure` | what Codex tells, in neutral words |
//! | `methods`, `questions` | every method the server may send, classified (F02) |

mod adapter;
mod check;
mod config;
mod declaration;
mod failure;
mod items;
mod launch;
mod messages;
mod methods;
mod native;
mod out;
mod prepare;
mod questions;
mod recover;
mod rpc;
mod run;
mod session;
mod settle;
mod shell;
mod usage;

pub use adapter::Codex;
pub use methods::{Notification, Question, notification, question};
pub use native::knows_item;

/// Text of this plugin's `plugin.toml`.
pub const MANIFEST: &str = include_str!("../plugin.toml");

sdk::harness_plugin!(MANIFEST, || Box::new(Codex));
