//! Where the log goes: standard error, as text for people or JSON for machines.

use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged and how.
#[derive(Debug, Clone, Args)]
pub struct Logging {
    /// What to log: a level (`error`, `warn`, `info`, `debug`, `trace`) or filters such as `info,berth_core=debug`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log_level: String,
    /// How the log looks.
    #[arg(long, default_value = "auto")]
    pub log_format: Format,
}

impl Logging {
    /// Starts the log of this process. A second start in one process changes nothing.
    ///
    /// # Errors
    /// The filter is not understood.
    pub fn start(&self) -> anyhow::Result<()> {
        let filter = EnvFilter::try_new(&self.log_level).map_err(|error| {
            anyhow::anyhow!(
                "--log-level `{}` is not understood: {error}",
                self.log_level
            )
        })?;
        let json = match self.log_format {
            Format::Auto => !std::io::stderr().is_terminal(),
            Format::Text => false,
            Format::Json => true,
        };
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            // Its complaint about a lost line would panic in whatever task wrote the line.
            .log_internal_errors(false);
        // Another part of the process (a test, the demo) may have started it.
        let _ = if json {
            log.json().try_init()
        } else {
            log.with_ansi(std::io::stderr().is_terminal()).try_init()
        };
        Ok(())
    }
}
