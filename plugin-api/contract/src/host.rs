//! What the host lends to a sandbox provider: one trait for each interface a world imports, each granted by itself.
//!
//! All calls block. A capability that the manifest does not ask for or the operator did not grant is still there as an
//! object and refuses every call with effect `none`.

use crate::common::{Failure, Pair};
use crate::host_types::{Command, Finished, Request, Response};
use crate::log::Level;
use crate::machine_types::{
    MachineFacts, MachineKeep, MachinePage, MachineRefusal, MachineSpec, MachineStart,
    MachineStatus,
};
use crate::sandbox_types::Allocation;
use crate::state::Scope;

/// Everything a provider can reach during one call.
pub trait Host: Send + Sync {
    /// The log.
    fn log(&self) -> &dyn Log;
    /// Time.
    fn clock(&self) -> &dyn Clock;
    /// Randomness.
    fn random(&self) -> &dyn Random;
    /// Small durable records.
    fn state(&self) -> &dyn State;
    /// Granted endpoints.
    fn http(&self) -> &dyn Http;
    /// Granted programs.
    fn program(&self) -> &dyn Program;
    /// The isolated process tree on Core's own host.
    fn machine(&self) -> &dyn Machine;
}

/// `interface log`: messages to the host's log.
pub trait Log: Send + Sync {
    /// Writes one line: message at most 4 KiB, at most 16 fields, 100 lines a second a plugin; more is dropped and
    /// counted.
    fn emit(&self, level: Level, message: &str, fields: &[Pair]);
}

/// `interface clock`: time for a provider's own waiting. Leases and deadlines are decided by Core on the database
/// clock, never here.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> u64;
    /// Waits, at most 60 000 ms and never past the deadline of the call.
    fn sleep_ms(&self, ms: u32);
}

/// `interface random`: randomness for native names and tokens.
pub trait Random: Send + Sync {
    /// 1..256 bytes from the system's generator.
    fn bytes(&self, count: u32) -> Vec<u8>;
}

/// `interface state`: small durable records of a provider, sealed in Core's database (SP-14.2, SP-14.3).
pub trait State: Send + Sync {
    /// The value, or none. Key `[a-z0-9_-]{1,64}`.
    ///
    /// # Errors
    /// It could not be read.
    fn get(&self, scope: Scope, key: &str) -> Result<Option<Vec<u8>>, Failure>;
    /// Durable when it returns; at most 64 KiB.
    ///
    /// # Errors
    /// `fenced` when Core lost its lease or a newer operation owns the allocation (SP-4.9).
    fn put(&self, scope: Scope, key: &str, value: &[u8]) -> Result<(), Failure>;
    /// Removes it; removing nothing is success.
    ///
    /// # Errors
    /// As [`State::put`].
    fn delete(&self, scope: Scope, key: &str) -> Result<(), Failure>;
}

/// `interface http`: requests to granted endpoints, Unix sockets included.
pub trait Http: Send + Sync {
    /// Sends one request at most once.
    ///
    /// # Errors
    /// Effect `none`: not a byte of the request was sent (refused, no route, no TLS). Effect `unknown`: anything later.
    fn send(&self, request: &Request) -> Result<Response, Failure>;
}

/// `interface program`: granted programs.
pub trait Program: Send + Sync {
    /// Runs it to its end. A non-zero exit is an answer, not a failure.
    ///
    /// # Errors
    /// Effect `none`: it was never started.
    fn run(&self, command: &Command) -> Result<Finished, Failure>;
}

/// `interface machine`: one machine process for each allocation. The plugin opens nothing itself (LOC-025).
pub trait Machine: Send + Sync {
    /// What the start-up probe proved.
    fn probe(&self) -> MachineFacts;
    /// Starts init and the daemon for the allocation of the present call.
    ///
    /// # Errors
    /// The meanings of the six results (SP-3.6).
    fn start(
        &self,
        allocation: &Allocation,
        spec: &MachineSpec,
        kind: MachineStart,
    ) -> Result<MachineStatus, MachineRefusal>;
    /// Reads only.
    ///
    /// # Errors
    /// The meanings of the six results (SP-3.6).
    fn inspect(&self, allocation: &Allocation) -> Result<MachineStatus, MachineRefusal>;
    /// Ends init and so everything in it; repeatable.
    ///
    /// # Errors
    /// The meanings of the six results (SP-3.6).
    fn stop(&self, allocation: &Allocation, keep: MachineKeep) -> Result<(), MachineRefusal>;
    /// All records of an installation.
    ///
    /// # Errors
    /// The records could not be read.
    fn owned(&self, installation: &str, cursor: Option<&str>) -> Result<MachinePage, Failure>;
}
