//! `interface harness-adapter`: a deterministic state machine. Same inputs, same outputs; no clock, no
//! randomness, no I/O.

use crate::common::{Failure, Pair};
use crate::harness_declaration::{Declaration, ProbeReport, ProbeVerdict};
use crate::harness_io::{Input, Output};
use crate::harness_session::Configuration;

/// A harness adapter. It has no memory of its own; everything that lasts is in a [`HarnessSession`].
pub trait HarnessAdapter: Send + Sync {
    /// Names of optional abilities of this plugin; unknown names are ignored.
    fn features(&self) -> Vec<String>;

    /// One declaration for each harness; constant for a plugin version and its settings.
    ///
    /// # Errors
    /// The settings are invalid.
    fn describe(&self, settings: &[Pair]) -> Result<Vec<Declaration>, Failure>;

    /// Reads what the manifest's probe commands printed (HAR-003).
    fn interpret_probe(&self, harness: &str, reports: &[ProbeReport]) -> ProbeVerdict;

    /// Checks and keeps the configuration of one Executor.
    ///
    /// # Errors
    /// `invalid_configuration`, `unsupported_configuration` or `unsupported_preparation` (RP-10.12), always with
    /// effect `none`.
    fn open(&self, configuration: Configuration) -> Result<Box<dyn HarnessSession>, Failure>;
}

/// One Executor: one configuration, one native session, one life of its process (TRN-001). Dropping it is always
/// safe; the host owns the process.
pub trait HarnessSession: Send {
    /// Takes what happened, says what to do. The host performs the outputs in order.
    ///
    /// # Errors
    /// A failure ends the session: the host stops its processes and settles open ids as `unknown`.
    fn step(&mut self, inputs: Vec<Input>) -> Result<Vec<Output>, Failure>;
}
