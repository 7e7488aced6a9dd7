//! A harness adapter that breaks where and how it is told to: the fixture of the transports' fault tests.

use sdk::common::{Effect, Failure, Pair};
use sdk::harness_declaration::{Declaration, ProbeReport, ProbeVerdict, Support};
use sdk::harness_io::{Input, Output};
use sdk::harness_session::Configuration;
use sdk::log::Level;
use sdk::{HarnessAdapter, HarnessSession};

/// The adapter. The name of a fault is the value of the setting `fault` in `describe`, the harness id in
/// `interpret_probe`, the `home` in `open` and the kind of an unknown input in `step`; any other name is none.
pub struct Faulty;

sdk::harness_plugin!(include_str!("../plugin.toml"), || Box::new(Faulty));

fn break_at(fault: &str) {
    breaking::break_at(fault, &|line| sdk::log_line(Level::Info, line, &[]));
}

impl HarnessAdapter for Faulty {
    fn features(&self) -> Vec<String> {
        vec!["faults".to_owned()]
    }

    fn describe(&self, settings: &[Pair]) -> Result<Vec<Declaration>, Failure> {
        for setting in settings {
            break_at(&setting.value);
        }
        Ok(vec![sdk::declare::harness(
            "faulty",
            "Faulty",
            &[("streaming", [Support::Admitted; 3])],
        )])
    }

    fn interpret_probe(&self, harness: &str, _reports: &[ProbeReport]) -> ProbeVerdict {
        break_at(harness);
        ProbeVerdict {
            version: None,
            problem: Some("program_unusable".to_owned()),
            withheld: Vec::new(),
        }
    }

    fn open(&self, configuration: Configuration) -> Result<Box<dyn HarnessSession>, Failure> {
        break_at(&configuration.home);
        if configuration.home == "refused" {
            return Err(Failure {
                code: "invalid_configuration".to_owned(),
                detail: String::new(),
                effect: Effect::None,
            });
        }
        Ok(Box::new(Session { steps: 0 }))
    }
}

struct Session {
    steps: u32,
}

impl HarnessSession for Session {
    fn step(&mut self, inputs: Vec<Input>) -> Result<Vec<Output>, Failure> {
        self.steps += 1;
        let mut outputs = Vec::new();
        for input in inputs {
            if let Input::Other(fault) = input {
                break_at(&fault.kind);
                outputs.extend(breaking::large(&fault.kind).map(Output::Retire));
            }
        }
        outputs.push(Output::Retire(format!("step_{}", self.steps)));
        Ok(outputs)
    }
}
