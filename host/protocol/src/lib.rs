//! The private link between Core and a Runtime (runtime-protocol.md).
//!
//! [`wire`] is the language. `core_end` and `runtime_end` are the two speakers, written without sockets, clocks and tasks: a
//! message, a command or the time goes in; messages, notices and a close come out. Core's gateway and the daemon's link are
//! pumps around them, and `tests/simulation` lets them talk over a network that loses, delays and repeats.

pub mod bootstrap;
pub mod core_end;
pub mod moment;
pub mod runtime_end;
mod transfer;
pub mod wire;
