//! The adapter itself: declares, reads the probe, opens sessions.

use sdk::common::{Failure, Pair};
use sdk::harness_declaration::{Declaration, ProbeReport, ProbeVerdict};
use sdk::harness_session::Configuration;
use sdk::{HarnessAdapter, HarnessSession};

use crate::check::check;
use crate::declaration::declaration;
use crate::session::Session;

/// The Codex adapter.
pub struct Codex;

impl HarnessAdapter for Codex {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, _settings: &[Pair]) -> Result<Vec<Declaration>, Failure> {
        Ok(vec![declaration()])
    }

    fn interpret_probe(&self, _harness: &str, reports: &[ProbeReport]) -> ProbeVerdict {
        let version = reports.iter().find_map(version);
        ProbeVerdict {
            problem: version.is_none().then(|| "program_unusable".to_owned()),
            version,
            withheld: Vec::new(),
        }
    }

    fn open(&self, configuration: Configuration) -> Result<Box<dyn HarnessSession>, Failure> {
        Ok(Box::new(Session::new(check(configuration)?)))
    }
}

/// `codex-cli 0.171.0` → `0.171.0`.
fn version(report: &ProbeReport) -> Option<String> {
    if report.exit_code != Some(0) || report.args != ["--version"] {
        return None;
    }
    let version = report.stdout.trim().strip_prefix("codex-cli ")?;
    let plain = !version.is_empty()
        && version
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'));
    plain.then(|| version.to_owned())
}
