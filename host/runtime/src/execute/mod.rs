//! The Executor: one harness, one configuration, one native session of one Session (TRN-001).
//!
//! An adapter only decides: what it wants done comes out of `step` as data and is done here, in order. Around it stand the
//! promises that hold whatever an adapter or a program does: each request gets one answer, each Run one end, a silent
//! program is ended in time, memory stays bounded, and what cannot be known is said to be unknown.
//!
//! - [`run`]: the life of one Run, as a pure machine. [`journal`]: its numbered events, [`fit`]: what of them a frame can
//!   carry.
//! - [`executor`]: the task of one Executor: takes orders and facts, steps the adapter. [`perform`]: does what it asks for.
//! - [`process`], [`framing`], [`fill`]: pipes, lines, and the values that only the host knows.

mod executor;
mod fill;
mod fit;
mod framing;
mod interface;
mod journal;
mod perform;
mod process;
mod run;

pub use executor::Executor;
pub use interface::{Order, Programs, Report, Reported, Setup};
