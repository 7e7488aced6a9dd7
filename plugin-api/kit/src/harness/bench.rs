//! A session under the referee.

use contract::common::Failure;
use contract::harness_io::{Input, Output};
use contract::harness_session::Configuration;
use contract::{HarnessAdapter, HarnessSession};

use super::referee::Referee;
use crate::{Error, Result, broken, ensure};

/// Two sessions of one configuration that hear the same: the referee judges one, the other proves determinism.
pub struct Bench {
    session: Box<dyn HarnessSession>,
    twin: Box<dyn HarnessSession>,
    referee: Referee,
}

impl Bench {
    /// Opens both.
    ///
    /// # Errors
    /// The adapter refuses the configuration.
    pub fn open(
        adapter: &dyn HarnessAdapter,
        configuration: &Configuration,
    ) -> std::result::Result<Self, Failure> {
        Ok(Self {
            session: adapter.open(configuration.clone())?,
            twin: adapter.open(configuration.clone())?,
            referee: Referee::default(),
        })
    }

    /// The referee, to ask what is open.
    #[must_use]
    pub fn referee(&self) -> &Referee {
        &self.referee
    }

    /// One step: both sessions take the inputs, the outputs survive the native mapping and the referee.
    ///
    /// # Errors
    /// The first rule that is broken, or the session failed.
    pub fn step(&mut self, inputs: Vec<Input>) -> Result<Vec<Output>> {
        for input in &inputs {
            self.referee.input(input);
        }
        let outputs = self.session.step(inputs.clone()).map_err(failed)?;
        let again = self.twin.step(inputs).map_err(failed)?;
        ensure(outputs == again, "contract", || {
            "the same inputs gave other outputs".into()
        })?;
        let text = serde_json::to_string(&outputs)
            .or_else(|cause| broken("contract", cause.to_string()))?;
        let back: Vec<Output> =
            serde_json::from_str(&text).or_else(|cause| broken("contract", cause.to_string()))?;
        ensure(back == outputs, "contract", || {
            "an output changed under way".into()
        })?;
        self.referee.outputs(&outputs)?;
        Ok(outputs)
    }

    /// Everything has ended.
    ///
    /// # Errors
    /// Something is still open.
    pub fn finish(self) -> Result {
        self.referee.finished()
    }
}

fn failed(failure: Failure) -> Error {
    Error {
        rule: "contract",
        what: format!("the session failed: {}", failure.code),
    }
}
