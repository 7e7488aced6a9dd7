//! How long each stage took.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// The stages so far.
pub struct Stages {
    began: Instant,
    last: Instant,
    done: Vec<(&'static str, Duration)>,
}

impl Stages {
    /// The first stage begins.
    pub fn start() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            last: now,
            done: Vec::new(),
        }
    }

    /// A stage ended and the next one begins. A stage counts once.
    pub fn done(&mut self, name: &'static str) {
        if self.done.iter().all(|(known, _)| *known != name) {
            self.done.push((name, self.last.elapsed()));
            self.last = Instant::now();
        }
    }

    /// Seconds since the current stage began.
    pub fn clock(&self) -> f64 {
        self.last.elapsed().as_secs_f64()
    }

    /// One line for each stage and one for all.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (name, took) in &self.done {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:>8.3} s  {name}", took.as_secs_f64());
        }
        let _ = writeln!(
            text,
            "{:>8.3} s  in all",
            self.began.elapsed().as_secs_f64()
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_counts_once() {
        let mut stages = Stages::start();
        stages.done("a");
        stages.done("a");
        stages.done("b");
        let names: Vec<_> = stages.done.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(stages.table().lines().count(), 3);
    }
}
