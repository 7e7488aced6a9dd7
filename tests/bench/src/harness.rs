//! The scripted harness over a bare pipe: what a Turn costs without Berth.

use crate::sample::Samples;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A message that carries what the scripted harness does.
#[must_use]
pub fn timeline(steps: &Value) -> String {
    format!("timeline: {steps}")
}

/// The delays of the stamps in a text of `ticks`: from the harness's write until `arrived`.
pub fn delays(text: &str, arrived: SystemTime, into: &mut Samples) {
    for stamp in text.split_ascii_whitespace() {
        if let Ok(micros) = stamp.parse() {
            let written = UNIX_EPOCH + Duration::from_micros(micros);
            into.add_time(arrived.duration_since(written).unwrap_or_default());
        }
    }
}

/// One process of it with one thread of conversation.
pub struct Harness {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    thread: Value,
    last: u64,
    _home: tempfile::TempDir,
}

impl Harness {
    /// Starts it.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start(program: &Path) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let mut child = Command::new(program)
            .arg("app-server")
            .env("CODEX_HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut harness = Self {
            child,
            input,
            output,
            thread: Value::Null,
            last: 0,
            _home: home,
        };
        harness.send("initialize", json!({}))?;
        let params = json!({"cwd": "/", "model": "m", "modelProvider": "p"});
        let id = harness.send("thread/start", params)?;
        let opened = harness.until(|frame| frame["id"] == id)?;
        harness.thread = opened["result"]["thread"]["id"].clone();
        Ok(harness)
    }

    /// Runs one Turn; the time from its request to its end. Stamps are taken from its deltas.
    ///
    /// # Errors
    /// The harness ended.
    pub fn turn(&mut self, message: &str, stamps: &mut Samples) -> Result<Duration> {
        let begun = Instant::now();
        let input = json!([{"type": "text", "text": message}]);
        let params = json!({"threadId": self.thread, "input": input});
        self.send("turn/start", params)?;
        self.until(|frame| {
            if frame["method"] == "item/agentMessage/delta" {
                let text = frame["params"]["delta"].as_str().unwrap_or_default();
                delays(text, SystemTime::now(), stamps);
            }
            frame["method"] == "turn/completed"
        })?;
        Ok(begun.elapsed())
    }

    fn send(&mut self, method: &str, params: Value) -> Result<u64> {
        self.last += 1;
        let line = json!({"id": self.last, "method": method, "params": params});
        self.input.write_all(format!("{line}\n").as_bytes())?;
        Ok(self.last)
    }

    fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Result<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(
                self.output.read_line(&mut line)? > 0,
                "the scripted harness ended"
            );
            let frame: Value = serde_json::from_str(&line)?;
            if wanted(&frame) {
                return Ok(frame);
            }
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
