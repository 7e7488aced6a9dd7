//! Recorded conversations: JSON lines, the configuration first, then one line for each step.

use std::collections::BTreeMap;
use std::path::Path;

use contract::HarnessAdapter;
use contract::harness_io::{Input, Output};
use contract::harness_session::Configuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bench::Bench;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What the session was told.
    pub inputs: Vec<Input>,
    /// What it said.
    pub outputs: Vec<Output>,
}

/// A whole conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// What the session was opened with.
    pub configuration: Configuration,
    /// All steps, in order.
    pub steps: Vec<Step>,
}

/// Why a transcript is of no use or does not hold.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A line is no step.
    #[error("line {line}: {cause}")]
    Line {
        /// Number from 1.
        line: usize,
        /// What serde says.
        cause: serde_json::Error,
    },
    /// The adapter refuses the configuration.
    #[error("refused: {0}")]
    Refused(String),
    /// A rule is broken.
    #[error("step {step}: {cause}")]
    Rule {
        /// Number from 1.
        step: usize,
        /// The rule.
        cause: crate::Error,
    },
    /// The outputs are others.
    #[error("step {step}: expected\n{expected}\nbut the session said\n{said}")]
    Other {
        /// Number from 1.
        step: usize,
        /// As recorded.
        expected: String,
        /// As replayed.
        said: String,
    },
}

impl Transcript {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not there or a line is broken.
    pub fn read(path: &Path) -> Result<Self, TranscriptError> {
        let text = std::fs::read_to_string(path)?;
        let mut lines = text.lines().enumerate();
        let (_, first) = lines.next().unwrap_or((0, ""));
        let configuration = serde_json::from_str(first)
            .map_err(|cause| TranscriptError::Line { line: 1, cause })?;
        let steps = lines
            .map(|(index, line)| {
                serde_json::from_str(line).map_err(|cause| TranscriptError::Line {
                    line: index + 1,
                    cause,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            configuration,
            steps,
        })
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path, scrub: &Scrub) -> Result<(), TranscriptError> {
        let error = |cause| TranscriptError::Line { line: 0, cause };
        let mut text = serde_json::to_string(&self.configuration).map_err(error)? + "\n";
        for step in &self.steps {
            let mut line = serde_json::to_value(step).map_err(error)?;
            each_content(&mut line, &|content| {
                let bytes: Vec<u8> = serde_json::from_value(content.clone()).ok()?;
                String::from_utf8(bytes).ok().map(Value::from)
            });
            text.push_str(&line.to_string());
            text.push('\n');
        }
        let mut scrubbed = String::new();
        for line in scrub.apply(&text).lines() {
            let mut line: Value = serde_json::from_str(line).map_err(error)?;
            each_content(&mut line, &|content| {
                content.as_str().map(|text| Value::from(text.as_bytes()))
            });
            scrubbed.push_str(&line.to_string());
            scrubbed.push('\n');
        }
        Ok(std::fs::write(path, scrubbed)?)
    }

    /// Tells a new session the same and compares everything it says.
    ///
    /// # Errors
    /// The first difference or broken rule.
    pub fn replay(&self, adapter: &dyn HarnessAdapter) -> Result<(), TranscriptError> {
        let mut bench = Bench::open(adapter, &self.configuration)
            .map_err(|failure| TranscriptError::Refused(failure.code))?;
        for (index, step) in self.steps.iter().enumerate() {
            let number = index + 1;
            let said = bench
                .step(step.inputs.clone())
                .map_err(|cause| TranscriptError::Rule {
                    step: number,
                    cause,
                })?;
            if said != step.outputs {
                let text = |outputs| serde_json::to_string_pretty(outputs).unwrap_or_default();
                return Err(TranscriptError::Other {
                    step: number,
                    expected: text(&step.outputs),
                    said: text(&said),
                });
            }
        }
        bench.finish().map_err(|cause| TranscriptError::Rule {
            step: self.steps.len(),
            cause,
        })
    }
}

/// Changes the content of every answered look, which is bytes and is scrubbed as the text that it is.
fn each_content(line: &mut Value, change: &dyn Fn(&Value) -> Option<Value>) {
    let inputs = line.get_mut("inputs").and_then(Value::as_array_mut);
    for input in inputs.into_iter().flatten() {
        if let Some(content) = input.pointer_mut("/looked/answer/content")
            && let Some(changed) = change(content)
        {
            *content = changed;
        }
    }
}

/// What is replaced before a transcript is kept, the same in inputs and outputs: machine paths, generated ids, times.
#[derive(Debug, Default)]
pub struct Scrub {
    texts: Vec<(String, String)>,
    numbers: Vec<&'static str>,
}

impl Scrub {
    /// Replaces a text, such as the path of a temporary folder. Earlier texts win.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>, with: impl Into<String>) -> Self {
        self.texts.push((text.into(), with.into()));
        self
    }

    /// Replaces the number of this JSON member by 0, also inside of quoted JSON.
    #[must_use]
    pub fn number(mut self, member: &'static str) -> Self {
        self.numbers.push(member);
        self
    }

    fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.texts {
            text = text.replace(from, to);
        }
        for member in &self.numbers {
            text = zero_numbers(&text, member);
        }
        rename_ids(&text)
    }
}

fn zero_numbers(text: &str, member: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(member) {
        let (before, after) = rest.split_at(at + member.len());
        result.push_str(before);
        rest = after;
        let quotes = rest.len() - rest.trim_start_matches(['\\', '"']).len();
        if quotes > 0 && rest[quotes..].starts_with(':') {
            let number = &rest[quotes + 1..];
            let digits = number.len()
                - number
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .len();
            if digits > 0 {
                result.push_str(&rest[..=quotes]);
                result.push('0');
                rest = &number[digits..];
            }
        }
    }
    result.push_str(rest);
    result
}

/// UUIDs become small numbers, in the order in which they are first seen.
fn rename_ids(text: &str) -> String {
    const LENGTH: usize = 36;
    let mut names = BTreeMap::<&str, String>::new();
    let mut result = String::with_capacity(text.len());
    let mut start = 0;
    let mut at = 0;
    while at + LENGTH <= text.len() {
        let candidate = text.get(at..at + LENGTH).filter(|x| is_uuid(x));
        let Some(id) = candidate else {
            at += 1;
            continue;
        };
        let number = names.len() + 1;
        let name = names
            .entry(id)
            .or_insert_with(|| format!("00000000-0000-7000-8000-{number:012}"));
        result.push_str(&text[start..at]);
        result.push_str(name);
        at += LENGTH;
        start = at;
    }
    result.push_str(&text[start..]);
    result
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, b)| match index {
        8 | 13 | 18 | 23 => b == b'-',
        _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrubbing_is_the_same_everywhere() {
        let a = "01a22cc0-b147-7d11-8560-ca3efa6ddb21";
        let text =
            format!(r#"{{"at":17,"x":"{{\"at\":18,\"id\":\"{a}\"}}","id":"{a}","p":"/tmp/h/x"}}"#);
        let scrub = Scrub::default().text("/tmp/h", "/home").number("at");
        let id = "00000000-0000-7000-8000-000000000001";
        let expected =
            format!(r#"{{"at":0,"x":"{{\"at\":0,\"id\":\"{id}\"}}","id":"{id}","p":"/home/x"}}"#);
        assert_eq!(scrub.apply(&text), expected);
        assert_eq!(scrub.apply(&expected), expected);
    }
}
