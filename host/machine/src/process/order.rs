//! What to start, as data.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of each process of the tree; `None` keeps what the caller has. A limit above the caller's own hard limit
/// becomes that limit, since raising one needs a privilege that we never ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Open files.
    pub open_files: Option<u64>,
    /// Processes and threads of the account.
    pub processes: Option<u64>,
}

/// A program to start under a supervisor. It travels to the supervisor through a socket, never by arguments
/// (ENV-601), and nothing of the caller's own environment is inherited (RP-16.7).
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its arguments; they are public on the machine, so never a secret.
    pub args: Vec<OsString>,
    /// Its whole environment; values may be secret.
    pub env: Vec<(OsString, OsString)>,
    /// Absolute path of its working directory.
    pub cwd: PathBuf,
    /// Its umask.
    pub umask: u32,
    /// Its limits. Core dumps are always off.
    pub limits: Limits,
    /// The soft limit of open files where `limits` leaves them alone; the spawner fills it in.
    pub(crate) usual_open_files: Option<u64>,
    /// How long what the leader leaves behind may still hold its output (RP-16.6).
    pub drain: Duration,
}

impl Order {
    /// A program without arguments and environment, umask 077, one second of drain.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: cwd.into(),
            umask: 0o077,
            limits: Limits::default(),
            usual_open_files: None,
            drain: Duration::from_secs(1),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds one variable; the last one of a name counts.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

impl fmt::Debug for Order {
    /// Leaves arguments and the values of the environment out (F31).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Order")
            .field("program", &self.program)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F31
    #[test]
    fn an_order_never_prints_the_values_of_its_environment() {
        let order = Order::new("/bin/true", "/")
            .env("KEY", "canary")
            .args(["other-canary"]);
        let printed = format!("{order:?}");
        assert!(printed.contains("KEY"));
        assert!(!printed.contains("canary"));
    }
}
