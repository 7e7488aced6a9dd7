//! `cargo xtask test`: everything that must be green before a change lands, in the order in which it fails fastest.

use crate::plugins;
use crate::postgres;
use crate::report::{Counts, Report, count};
use crate::shell::{cargo, must, on_path, program, root, target, test_tools, watched};
use crate::tools::{self, Tools};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::Command;

/// Our one feature that only test builds have: named crash points and the movable clock.
const TEST_FEATURES: &str = "berth/crash-points";

/// What to run.
#[derive(Args)]
pub struct Options {
    /// Count a skipped test as failed, as CI does.
    #[arg(long)]
    all: bool,
    /// Only tests whose name contains this text (formatting, lints and licences are then left out).
    filter: Option<String>,
}

/// Where tests find what this run prepared.
struct Surroundings {
    tools: Tools,
    postgres: postgres::Postgres,
    /// Variables that make cargo build a component here, one `NAME=value` a line.
    wasm: String,
    /// Tests that find at run time that this machine cannot run them append `name: reason` here.
    skips: PathBuf,
}

impl Surroundings {
    fn apply(&self, command: &mut Command) {
        command
            .env("BERTH_TEST_BIN", target().join("debug/berth"))
            .env("BERTH_TEST_SCRIPTED", target().join("debug/berth-scripted"))
            .env("BERTH_TEST_HARNESSES", &self.tools.harnesses)
            .env("BERTH_TEST_NODE", &self.tools.node)
            .env("BERTH_TEST_JAVASCRIPT", &self.tools.javascript)
            .env("BERTH_TEST_PLUGINS", plugins::folder())
            .env("BERTH_TEST_WASM", &self.wasm)
            .env("BERTH_TEST_POSTGRES_URL", &self.postgres.url)
            .env("BERTH_TEST_SKIPS", &self.skips);
    }
}

/// Runs the tests; the process ends with status 1 when one failed.
pub fn run(options: &Options) -> Result<()> {
    let in_ci = std::env::var("CI")
        .is_ok_and(|value| !value.is_empty() && value != "false" && value != "0");
    let mut report = Report::new(in_ci || options.all);
    let filter = options.filter.as_deref();

    // Downloads use the network, builds use the processors: both at once.
    let setting_up = std::thread::spawn(|| -> Result<(Tools, PathBuf)> {
        let database = std::thread::spawn(postgres::install);
        let tools = tools::install()?;
        let programs = database
            .join()
            .map_err(|_| anyhow::anyhow!("the installation of PostgreSQL panicked"))??;
        Ok((tools, programs))
    });

    if filter.is_none() {
        report.step("cargo fmt --check", || {
            Ok(Counts::check(
                must(cargo().args(["fmt", "--all", "--check"])).is_ok(),
            ))
        });
        report.step("cargo clippy", || {
            let mut clippy = cargo();
            clippy.args([
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--features",
                TEST_FEATURES,
                "--",
                "-D",
                "warnings",
            ]);
            Ok(Counts::check(must(&mut clippy).is_ok()))
        });
    }
    if filter.is_none() {
        report.step("plugin contract types", || {
            crate::contract::run(&root(), true)?;
            Ok(Counts::check(true))
        });
    }
    report.step("cargo build", || {
        // The programs first, by themselves: the suites start them and link none of them.
        must(cargo().args([
            "build",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--features",
            TEST_FEATURES,
        ]))?;
        Ok(Counts::check(true))
    });

    let (tools, programs) = setting_up
        .join()
        .map_err(|_| anyhow::anyhow!("setting up the test tools panicked"))??;
    // After the tools, because both may install Debian packages. Filtered runs too: a test that was chosen may need them, and unchanged ones cost nothing.
    report.step("plugins as components and libraries", || {
        plugins::build(None)?;
        Ok(Counts::check(true))
    });
    let variables = plugins::Wasm::find()?.variables();
    let lines = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let wasm = lines.collect::<Vec<_>>().join("\n");
    if filter.is_none() {
        report.step("cargo deny", || {
            Ok(Counts::check(
                must(program(&tools.cargo_deny).args([
                    "--log-level",
                    "error",
                    "check",
                    "licenses",
                    "bans",
                    "sources",
                ]))
                .is_ok(),
            ))
        });
    }
    let skips = test_tools().join(format!("skipped-{}", std::process::id()));
    std::fs::write(&skips, "")?;
    let around = Surroundings {
        tools,
        postgres: postgres::start(&programs)?,
        wasm,
        skips,
    };

    report.step("Rust tests", || rust_tests(&around, filter));
    report.step("documentation tests", || {
        let mut command = cargo();
        command.args([
            "test",
            "--quiet",
            "--doc",
            "--workspace",
            "--features",
            TEST_FEATURES,
        ]);
        command.args(filter);
        around.apply(&mut command);
        let (ok, output) = watched(&mut command)?;
        Ok(honest(count(&output), ok))
    });
    for (name, python, strict) in [
        (
            "official Python SDK, pinned, strict",
            &around.tools.python_pinned,
            true,
        ),
        (
            "official Python SDK, newest",
            &around.tools.python_newest,
            false,
        ),
    ] {
        report.step(name, || python_suite(&around, python, strict, filter));
    }
    drop(around);
    if !report.close() {
        std::process::exit(1);
    }
    Ok(())
}

fn rust_tests(around: &Surroundings, filter: Option<&str>) -> Result<Counts> {
    let mut command = cargo();
    if on_path("cargo-nextest") {
        command.args([
            "nextest",
            "run",
            "--workspace",
            "--no-fail-fast",
            "--status-level",
            "slow",
            "--final-status-level",
            "fail",
        ]);
        command.args(["--no-tests", "pass", "--features", TEST_FEATURES]);
    } else {
        command.args([
            "test",
            "--workspace",
            "--no-fail-fast",
            "--lib",
            "--bins",
            "--tests",
            "--features",
            TEST_FEATURES,
        ]);
    }
    command.args(filter);
    around.apply(&mut command);
    let (ok, output) = watched(&mut command)?;
    let mut counts = honest(count(&output), ok);
    counts.skipped.extend(
        std::fs::read_to_string(&around.skips)
            .context("cannot read which tests were skipped")?
            .lines()
            .map(str::to_owned),
    );
    if on_path("cargo-nextest") && filter.is_none() {
        counts.skipped.extend(ignored_tests()?);
    }
    Ok(counts)
}

/// nextest counts `#[ignore]`d tests without naming them; each must be shown.
fn ignored_tests() -> Result<Vec<String>> {
    let mut command = cargo();
    command.args([
        "nextest",
        "list",
        "--workspace",
        "--run-ignored",
        "only",
        "--message-format",
        "oneline",
        "--features",
        TEST_FEATURES,
    ]);
    let output = command.output()?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| format!("{}: #[ignore]", line.trim()))
        .collect())
}

/// What is tested in them is below the API: the client is none of it, so one run of them, with the pinned one, is enough.
const WITHOUT_CLIENT: [&str; 2] = ["test_kills.py", "test_install.py"];

fn python_suite(
    around: &Surroundings,
    python: &PathBuf,
    strict: bool,
    filter: Option<&str>,
) -> Result<Counts> {
    let mut command = program(python);
    command.current_dir(root().join("tests/suites/python"));
    command.args([
        "-m",
        "pytest",
        "-q",
        "-rs",
        "--color=no",
        "-p",
        "no:cacheprovider",
    ]);
    if let Some(filter) = filter {
        command.args(["-k", filter]);
    }
    if !strict {
        command.args(WITHOUT_CLIENT.map(|file| format!("--ignore={file}")));
    }
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("BERTH_TEST_STRICT", if strict { "1" } else { "0" });
    around.apply(&mut command);
    let status = watched(&mut command)?;
    // pytest says 5 when a filter selected nothing, which is no failure.
    let nothing = status.1.contains("no tests ran")
        || status
            .1
            .lines()
            .last()
            .is_some_and(|line| line.contains("deselected in"));
    Ok(honest(
        count(&status.1),
        status.0 || (filter.is_some() && nothing),
    ))
}

/// A runner that failed without counting a failed test (a compile error, a crash) is one failure.
fn honest(mut counts: Counts, ok: bool) -> Counts {
    if !ok && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_breaks_is_counted() {
        assert_eq!(honest(Counts::default(), false).failed, 1);
        assert_eq!(
            honest(
                Counts {
                    failed: 3,
                    ..Counts::default()
                },
                false
            )
            .failed,
            3
        );
        assert_eq!(honest(Counts::default(), true).failed, 0);
    }
}
