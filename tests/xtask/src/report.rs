//! What a test run says at its end: each skipped test with its reason, each failure by name, and one closing line.

use std::time::{Duration, Instant};

/// The counts of one step.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// `name: reason` of each test that did not run.
    pub skipped: Vec<String>,
}

impl Counts {
    /// A step that is one check.
    pub fn check(ok: bool) -> Self {
        Self {
            passed: usize::from(ok),
            failed: usize::from(!ok),
            skipped: Vec::new(),
        }
    }
}

/// The whole run so far.
pub struct Report {
    started: Instant,
    steps: Vec<(String, Duration, Counts)>,
    /// In CI a machine that cannot run a test is a broken machine.
    skipping_fails: bool,
}

impl Report {
    /// An empty report. `skipping_fails`: count each skipped test as failed.
    pub fn new(skipping_fails: bool) -> Self {
        Self {
            started: Instant::now(),
            steps: Vec::new(),
            skipping_fails,
        }
    }

    /// Runs one step and records its counts. An error of the step itself (a missing tool, a crash) is one failure.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> anyhow::Result<Counts>) {
        println!("\n── {name}");
        let began = Instant::now();
        let counts = work().unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Counts::check(false)
        });
        self.steps.push((name.to_owned(), began.elapsed(), counts));
    }

    /// Prints the table and the closing line; true when nothing failed.
    pub fn close(self) -> bool {
        println!("\n── summary");
        let (mut passed, mut failed) = (0, 0);
        for (name, took, counts) in &self.steps {
            println!(
                "{:>7.1} s  {:<44} {} passed, {} failed, {} skipped",
                took.as_secs_f64(),
                name,
                counts.passed,
                counts.failed,
                counts.skipped.len()
            );
            passed += counts.passed;
            failed += counts.failed;
        }
        for (name, _, counts) in &self.steps {
            for skipped in &counts.skipped {
                println!("SKIPPED {name}: {skipped}");
                failed += usize::from(self.skipping_fails);
            }
        }
        if self.skipping_fails
            && self
                .steps
                .iter()
                .any(|(_, _, counts)| !counts.skipped.is_empty())
        {
            println!("skipped tests count as failed here (CI is set, or --all was given)");
        }
        println!(
            "{passed} passed, {failed} failed in {:.0} s",
            self.started.elapsed().as_secs_f64()
        );
        failed == 0
    }
}

/// Adds up what the runners print: `cargo test` (`test result: ok. 3 passed; 0 failed; 1 ignored`), nextest
/// (`Summary [ 1.2s] 12 tests run: 11 passed, 1 failed, 2 skipped`) and pytest (`1 failed, 4 passed, 1 skipped in 3.21s`).
pub fn count(output: &str) -> Counts {
    let mut counts = Counts::default();
    for line in output.lines() {
        let line = plain(line);
        let line = line.trim_matches(|c: char| c.is_whitespace() || c == '=');
        if let Some(reason) = line.strip_prefix("SKIPPED [") {
            counts.skipped.push(
                reason
                    .split_once("] ")
                    .map_or(reason, |(_, rest)| rest)
                    .to_owned(),
            );
        } else if let Some((name, reason)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... ignored"))
        {
            counts
                .skipped
                .push(format!("{name}: {}", reason.trim_start_matches(", ")));
        }
        let is_summary = line.starts_with("test result:")
            || line.starts_with("Summary [")
            || line.rsplit_once(" in ").is_some_and(|(head, tail)| {
                tail.ends_with(['s', ')'])
                    && head.split(", ").all(|part| {
                        part.trim_start_matches('=')
                            .trim()
                            .starts_with(|c: char| c.is_ascii_digit())
                    })
            });
        if is_summary {
            counts.passed += number_before(line, "passed");
            counts.failed += number_before(line, "failed")
                + number_before(line, "error")
                + number_before(line, "errors")
                + number_before(line, "timed out");
        }
    }
    counts
}

fn number_before(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line
        .split([' ', ',', ';', '='])
        .filter(|part| !part.is_empty())
        .collect();
    let target: Vec<&str> = word.split(' ').collect();
    words
        .windows(target.len() + 1)
        .filter(|window| window[1..] == target[..])
        .filter_map(|window| window[0].parse::<usize>().ok())
        .sum()
}

/// The line without terminal colours.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for character in line.chars() {
        match character {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            _ if inside => {}
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_runners_are_understood() {
        let cargo = "test a::b ... ignored, needs root\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                     test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(
            count(cargo),
            Counts {
                passed: 4,
                failed: 2,
                skipped: vec!["a::b: needs root".into()]
            }
        );

        let nextest = "     \u{1b}[32mSummary\u{1b}[0m [   1.210s] 12 tests run: 11 passed (1 slow), 1 failed, 2 skipped";
        assert_eq!(
            count(nextest),
            Counts {
                passed: 11,
                failed: 1,
                skipped: vec![]
            }
        );
        assert_eq!(
            count("  Summary [ 61.0s] 3 tests run: 1 passed, 1 failed, 1 timed out, 0 skipped")
                .failed,
            2
        );

        let pytest = "SKIPPED [1] tests/suites/python/test_a.py:3: no engine\n1 failed, 4 passed, 1 skipped, 2 errors in 3.21s";
        assert_eq!(
            count(pytest),
            Counts {
                passed: 4,
                failed: 3,
                skipped: vec!["tests/suites/python/test_a.py:3: no engine".into()]
            }
        );
        assert_eq!(count("===== 2 passed in 63.10s (0:01:03) ====").passed, 2);
    }

    #[test]
    fn prose_is_not_a_summary() {
        assert_eq!(
            count("3 passed the gate in spring\nnothing 2 failed"),
            Counts::default()
        );
    }

    #[test]
    fn a_step_that_breaks_is_a_failure() {
        let mut report = Report::new(false);
        report.step("broken", || anyhow::bail!("no such tool"));
        assert!(!report.close());
    }

    #[test]
    fn skipping_fails_only_where_it_must() {
        for (strict, green) in [(false, true), (true, false)] {
            let mut report = Report::new(strict);
            report.step("some", || {
                Ok(Counts {
                    passed: 1,
                    failed: 0,
                    skipped: vec!["x: reason".into()],
                })
            });
            assert_eq!(report.close(), green);
        }
    }
}
