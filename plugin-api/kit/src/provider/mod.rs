//! Sandbox providers: a host that can be told to fail, and the discipline of the six results under it (SP-3.6).

mod fake_host;
mod machine;
mod outcome;
mod suite;

pub use fake_host::FakeHost;
pub use machine::{FakeMachine, Fault, MachineCall};
pub use suite::{Case, suite};
