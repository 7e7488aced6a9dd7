//! Runs a harness's probe commands once (HAR-003).

use std::{error::Error as _, path::Path, time::Duration};

use domain::run::Capability;
use machine::process::{Exit, Order, Spawner};
use plugin_host::{Harness, contract::harness_declaration::ProbeReport};
use tokio::{io::AsyncReadExt as _, time::timeout};

use crate::execute::Programs;

/// For all commands of one harness (RP-7.2).
const WITHIN: Duration = Duration::from_secs(15);
/// Of each command's output.
const OUTPUT: u64 = 1024 * 1024;

/// What the probe found.
pub(super) struct Probed {
    pub(super) version: String,
    pub(super) programs: Programs,
    pub(super) withheld: Vec<Capability>,
}

/// Why an installation cannot be used.
#[derive(Debug)]
pub(super) struct Failure {
    /// A fixed code.
    pub(super) reason: String,
    /// It stays so until something else is installed. Otherwise the machine may only have been busy, or short of something.
    pub(super) lasting: bool,
}

impl Failure {
    fn lasting(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            lasting: true,
        }
    }

    fn passing(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            lasting: false,
        }
    }
}

/// Probes the installation in `home`.
///
/// # Errors
/// See [`Failure`].
pub(super) async fn probe(
    harness: &Harness,
    home: &Path,
    spawner: &Spawner,
) -> Result<Probed, Failure> {
    let install = &harness.install;
    let fits = |system: &&plugin_host::contract::manifest::System| {
        system.os == std::env::consts::OS && system.arch == std::env::consts::ARCH
    };
    let system = install
        .systems
        .iter()
        .find(fits)
        .ok_or_else(|| Failure::lasting("system_unsupported"))?;
    let programs = Programs {
        by_name: system
            .programs
            .iter()
            .map(|(name, path)| (name.clone(), home.join(path)))
            .collect(),
        path: system.path.iter().map(|path| home.join(path)).collect(),
    };
    if !programs.by_name.values().all(|path| path.is_file()) {
        return Err(Failure::passing("program_missing"));
    }
    let program = programs.by_name.values().next();
    let program = program.ok_or_else(|| Failure::lasting("program_missing"))?;
    let private = tempfile::tempdir().map_err(|_| Failure::passing("probe_failed"))?;
    let reports = async {
        let mut reports = Vec::new();
        for args in &install.probe {
            reports.push(run(spawner, program, args, private.path()).await);
        }
        reports
    };
    let reports = timeout(WITHIN, reports)
        .await
        .map_err(|_| Failure::passing("probe_timeout"))?;
    let verdict = harness
        .adapter
        .interpret_probe(harness.declaration.id.as_str(), &reports);
    if let Some(problem) = verdict.problem {
        return Err(Failure::passing(problem));
    }
    let version = verdict.version;
    let version = version.ok_or_else(|| Failure::passing("version_unknown"))?;
    if !harness.accepts(&version) {
        return Err(Failure::lasting("version_unsupported"));
    }
    let withheld = verdict
        .withheld
        .iter()
        .filter_map(|name| Capability::from_name(name))
        .collect();
    Ok(Probed {
        version,
        programs,
        withheld,
    })
}

async fn run(spawner: &Spawner, program: &Path, args: &[String], home: &Path) -> ProbeReport {
    let mut report = ProbeReport {
        args: args.to_vec(),
        exit_code: None,
        stdout: String::new(),
    };
    let order = Order::new(program, home)
        .args(args)
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin");
    let mut child = match spawner.start(order).await {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(%error, cause = error.source().map(ToString::to_string), "a probe could not be started");
            return report;
        }
    };
    drop(child.stdin.take());
    if let Some(mut stderr) = child.stderr.take() {
        // A closed pipe would be an error to a program that warns about something.
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
    }
    let mut stdout = Vec::new();
    if let Some(output) = child.stdout.take() {
        // What could be read is judged; a broken pipe shows in the exit code.
        let _ = output.take(OUTPUT).read_to_end(&mut stdout).await;
    }
    match child.wait().await.exit {
        Some(Exit::Code(code)) => report.exit_code = Some(code),
        end => tracing::warn!(?end, "a probe ended abnormally"),
    }
    report.stdout = String::from_utf8_lossy(&stdout).into_owned();
    report
}
