//! What the harness does, as data.

use serde::Deserialize;
use std::path::Path;

/// `timeline.json` beside the program: how the process behaves.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Done before the first request is read.
    #[serde(default)]
    pub start: Vec<Step>,
    /// Requests that are never answered, by method.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Requests that are refused with this sentence, by method.
    #[serde(default)]
    pub refuse: std::collections::BTreeMap<String, String>,
    /// Turns, by what their message says; the first fitting one counts.
    #[serde(default)]
    pub turns: Vec<Rule>,
}

/// The timeline of some Turns.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Text that must occur in the message; every message fits when it is left out.
    #[serde(default)]
    pub when: Option<String>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One thing that happens. A Turn whose steps are over is completed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// A message, streamed word by word. `{{history}}` is the number of user messages in the thread, earlier processes included.
    Say(String),
    /// The beginning of a message that never ends.
    Begin(String),
    /// A command that is really run by the shell in the working directory; its output is shown when it ends.
    Run(String),
    /// A command that is started and left running.
    Start(String),
    /// A command item with this many output lines of this many bytes.
    Flood {
        /// Lines.
        lines: u32,
        /// Bytes of each.
        bytes: usize,
        /// The character that the lines are made of; `x` when left out.
        #[serde(default = "x")]
        fill: char,
    },
    /// A file of this many bytes is deleted by a patch.
    Patch(usize),
    /// Token counts so far.
    Usage {
        /// Input tokens.
        input: u64,
        /// Output tokens.
        output: u64,
    },
    /// A message of this many words, one each time this many milliseconds have passed. Each word is the time at which it is written, in
    /// microseconds since 1970, so that a reader knows how long it took to arrive.
    Ticks {
        /// Words.
        count: u32,
        /// Milliseconds from one to the next.
        every_ms: u64,
    },
    /// A pause.
    SleepMs(u64),
    /// Until this many messages have been steered into the Turn.
    AwaitSteers(usize),
    /// Until this file exists in the working directory.
    AwaitFile(String),
    /// A line as it is, frame or not.
    Raw(String),
    /// One line of this many bytes.
    HugeLine(usize),
    /// The Turn fails with this sentence.
    Fail(String),
    /// The process ends with this code.
    Exit(u8),
    /// The process is killed.
    Kill,
    /// Standard output closes; the process stays and reads nothing more.
    CloseStdout,
    /// The Turn goes on for ever; requests are answered.
    Hang,
    /// Nothing is read or answered any more.
    Deaf,
}

const fn x() -> char {
    'x'
}

impl Plan {
    /// The plan beside this program, if there is one.
    ///
    /// # Errors
    /// It cannot be understood.
    pub fn beside(program: &Path) -> anyhow::Result<Self> {
        match std::fs::read_to_string(program.with_file_name("timeline.json")) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(_) => Ok(Self::default()),
        }
    }

    /// What a Turn with this message does.
    ///
    /// # Errors
    /// The message holds a timeline that cannot be understood.
    pub fn steps(&self, message: &str) -> anyhow::Result<Vec<Step>> {
        if let Some(text) = message
            .lines()
            .find_map(|line| line.trim().strip_prefix("timeline:"))
        {
            return Ok(serde_json::from_str(text)?);
        }
        let rule = self
            .turns
            .iter()
            .find(|rule| rule.when.as_ref().is_none_or(|text| message.contains(text)));
        Ok(rule.map_or_else(
            || vec![Step::Say(format!("You said: {message}"))],
            |rule| rule.steps.clone(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_wins_over_the_plan_and_the_plan_over_the_echo() {
        let plan: Plan = serde_json::from_str(r#"{"turns": [{"when": "slow", "steps": [{"sleep_ms": 5}]}], "ignore": ["turn/interrupt"]}"#).unwrap();
        assert_eq!(
            plan.steps("slow\ntimeline: [\"hang\"]").unwrap(),
            [Step::Hang]
        );
        assert_eq!(plan.steps("so slow").unwrap(), [Step::SleepMs(5)]);
        assert_eq!(
            plan.steps("hi").unwrap(),
            [Step::Say("You said: hi".into())]
        );
        assert!(plan.steps("timeline: [\"sing\"]").is_err());
    }
}
