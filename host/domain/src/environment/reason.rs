//! Fixed texts of Environment failures (S-ENV-4, ENV-370…376).

use std::fmt;

use super::FailureReason;

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SCRIPT: &str = "Failed to provision environment: script";
        match self {
            Self::Setup { index, exit_code } => {
                write!(
                    f,
                    "{SCRIPT} \"setup_commands[{index}]\" failed with exit code {exit_code}"
                )
            }
            Self::Python { exit_code } => {
                write!(
                    f,
                    "{SCRIPT} \"Python package installation\" failed with exit code {exit_code}"
                )
            }
            Self::Npm { exit_code } => {
                write!(
                    f,
                    "{SCRIPT} \"npm package installation\" failed with exit code {exit_code}"
                )
            }
            Self::File => {
                f.write_str("Failed to provision environment: initial file installation failed")
            }
            Self::Skill => {
                f.write_str("Failed to provision environment: Skill installation failed")
            }
            Self::HarnessUnavailable => f.write_str(
                "Failed to prepare environment: the selected Harness is unavailable. \
                 Install the supported Harness version on the Runtime and create a new Session.",
            ),
            Self::Incomplete => {
                f.write_str("Failed to provision environment: initialization did not complete")
            }
        }
    }
}
