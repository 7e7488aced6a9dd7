//! What goes wrong between host and plugin, and how each kind of call says so.

use contract::common::{Effect, Failure};
use contract::harness_declaration::ProbeVerdict;
use contract::mcp_types::Refusal;
use contract::sandbox_types::{Doubt, Health, Outcome, Rejection, Resources};

/// A call without an answer of the plugin. The instance is gone; other calls and other plugins go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// It crashed: a trap, a panic.
    #[error("it crashed: {0}")]
    Crashed(String),
    /// It ran longer than it may.
    #[error("it ran longer than it may")]
    Deadline,
    /// It wanted more memory than it may have.
    #[error("it wanted more memory than it may have")]
    Memory,
    /// Its answer is larger than it may be.
    #[error("its answer is larger than it may be")]
    Output,
    /// Its answer cannot be read.
    #[error("its answer cannot be read: {0}")]
    Protocol(String),
    /// An earlier fault ended this instance.
    #[error("this instance ended at an earlier fault")]
    Ended,
    /// As many calls as there may be are running; this one was not made.
    #[error("too many calls at once")]
    Busy,
    /// It had too many faults; this call was not made.
    #[error("it is in quarantine")]
    Quarantined,
}

impl Fault {
    /// Fixed code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Crashed(_) => "plugin_crashed",
            Self::Deadline => "plugin_deadline",
            Self::Memory => "plugin_memory",
            Self::Output => "plugin_output",
            Self::Protocol(_) => "plugin_protocol",
            Self::Ended => "plugin_ended",
            Self::Busy => "plugin_busy",
            Self::Quarantined => "plugin_quarantined",
        }
    }

    /// Whether a line of the plugin ran.
    fn ran(&self) -> bool {
        !matches!(self, Self::Ended | Self::Busy | Self::Quarantined)
    }

    /// Of a call that changes nothing outside.
    pub(crate) fn pure(&self) -> Failure {
        self.failure(Effect::None)
    }

    /// Of a call that may have changed something.
    pub(crate) fn effective(&self) -> Failure {
        let effect = if self.ran() {
            Effect::Unknown
        } else {
            Effect::None
        };
        self.failure(effect)
    }

    fn failure(&self, effect: Effect) -> Failure {
        Failure {
            code: self.code().to_owned(),
            detail: self.to_string(),
            effect,
        }
    }

    /// Of a provider's operation.
    pub(crate) fn outcome(&self) -> Outcome {
        let code = self.code().to_owned();
        if self.ran() {
            Outcome::Unknown(Doubt {
                code,
                evidence: None,
            })
        } else {
            Outcome::Rejected(Rejection {
                code,
                remains: None,
            })
        }
    }

    /// Of a provider's readiness.
    pub(crate) fn health(&self) -> Health {
        Health {
            ready: false,
            code: Some(self.code().to_owned()),
            resolved: Resources {
                cpus: None,
                memory_mib: None,
                root_disk_mib: None,
                environment_disk_mib: None,
            },
            facts: Vec::new(),
        }
    }

    /// Of a probe's reading.
    pub(crate) fn verdict(&self) -> ProbeVerdict {
        ProbeVerdict {
            version: None,
            problem: Some(self.code().to_owned()),
            withheld: Vec::new(),
        }
    }

    /// Of a resolver.
    pub(crate) fn refusal(&self) -> Refusal {
        Refusal {
            code: self.code().to_owned(),
            label: None,
            plugin: None,
            detail: None,
        }
    }
}
