//! The script: who says what, and which faults happen.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A whole script. The first rule whose `when` occurs in the last user message answers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Tried in order.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Answer 401 unless the request carries exactly this bearer token.
    #[serde(default)]
    pub require_key: Option<String>,
}

/// What to answer to a user message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Text that must occur in the message; every message matches when it is left out.
    #[serde(default)]
    pub when: Option<String>,
    /// One reply for each model request of the Turn; a reply with calls is followed by the next one, the last one ends the Turn.
    pub replies: Vec<Reply>,
}

/// One answer to one model request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Streamed in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Refuse the request with this HTTP status instead of streaming.
    #[serde(default)]
    pub status: Option<u16>,
    /// Body of a refusal; a plain error object when left out.
    #[serde(default)]
    pub body: Option<serde_json::Value>,
    /// Reported with `response.completed`; counted from the text when left out.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// The first attempts get these instead, one each; only then this reply itself. For faults that a retry survives.
    #[serde(default)]
    pub first: Vec<Reply>,
}

/// One thing that the model does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// An assistant message. `{{output}}` is the text of the latest tool result.
    Say(Say),
    /// A reasoning summary.
    Think(String),
    /// A shell command, through whichever shell tool the harness offered.
    Shell(String),
    /// A patch in Codex's format, through its `apply_patch` tool.
    Patch(String),
    /// Any function by name.
    Call(Call),
    /// Silence.
    SleepMs(u64),
    /// Silence until `POST /scripted/release/NAME`.
    Hold(String),
    /// `response.failed` with this code; nothing after it.
    Fail(Failure),
    /// Silence for ever; nothing after it.
    Hang,
    /// The connection breaks; nothing after it.
    Cut,
}

/// An assistant message, either its text or its text and pace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Say {
    /// Streamed word by word without a pause.
    Text(String),
    /// Streamed in pieces.
    Paced(Paced),
}

/// A message with a pace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paced {
    /// The whole text.
    pub text: String,
    /// Pause between two pieces, in milliseconds.
    pub every_ms: u64,
    /// Say the text this many times over.
    #[serde(default = "once")]
    pub times: usize,
}

fn once() -> usize {
    1
}

/// A function call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The function's name.
    pub name: String,
    /// The tool namespace of an MCP server, where the function is in one.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// A failure in the stream.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// For example `context_length_exceeded`.
    pub code: String,
    /// A sentence.
    pub message: String,
}

/// Token counts of one reply.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Cached input tokens.
    #[serde(default)]
    pub cached: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Reasoning tokens.
    #[serde(default)]
    pub reasoning: u64,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The text is not a script; the message names the place.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The replies to this user message: those written in the message itself (a line `scripted: [REPLY, …]`), else those of the first
    /// matching rule, else one that repeats the message.
    pub fn replies(&self, message: &str) -> Vec<Reply> {
        let inline = message
            .lines()
            .find_map(|line| line.trim().strip_prefix("scripted:"));
        if let Some(text) = inline {
            return serde_json::from_str(text).unwrap_or_else(|error| {
                vec![Reply {
                    steps: vec![Step::Say(Say::Text(format!(
                        "The inline script is invalid: {error}"
                    )))],
                    ..Reply::default()
                }]
            });
        }
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.when.as_ref().is_none_or(|text| message.contains(text)));
        match rule {
            Some(rule) => rule.replies.clone(),
            None => vec![Reply {
                steps: vec![Step::Say(Say::Text(format!("You said: {message}")))],
                ..Reply::default()
            }],
        }
    }
}

impl Reply {
    /// How many tool results the harness will send back for this reply.
    pub fn calls(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| matches!(step, Step::Shell(_) | Step::Patch(_) | Step::Call(_)))
            .count()
    }
}

impl Say {
    /// The text in full, the pieces to stream it in, and the pause between them.
    pub fn pieces(&self, output: &str) -> (String, Vec<String>, u64) {
        let (text, pause) = match self {
            Self::Text(text) => (text.clone(), 0),
            Self::Paced(paced) => (paced.text.repeat(paced.times), paced.every_ms),
        };
        let text = text.replace("{{output}}", output);
        let pieces = text.split_inclusive(' ').map(str::to_owned).collect();
        (text, pieces, pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_rule_answers_and_inline_scripts_win() {
        let script = Script::parse(
            r#"{"rules": [{"when": "list", "replies": [{"steps": [{"shell": "ls"}]}, {"steps": [{"say": "{{output}}"}]}]}, {"replies": [{"steps": ["hang"]}]}]}"#,
        )
        .unwrap();
        assert_eq!(
            script.replies("please list it")[0].steps,
            [Step::Shell("ls".into())]
        );
        assert_eq!(script.replies("anything")[0].steps, [Step::Hang]);
        assert_eq!(
            script.replies("list\nscripted: [{\"status\": 401}]")[0].status,
            Some(401)
        );
    }

    #[test]
    fn without_a_rule_the_message_is_repeated() {
        assert_eq!(
            Script::default().replies("hi")[0].steps,
            [Step::Say(Say::Text("You said: hi".into()))]
        );
    }

    #[test]
    fn a_misspelt_member_is_an_error() {
        assert!(Script::parse(r#"{"rules": [{"when": "x", "reply": []}]}"#).is_err());
        assert!(
            Script::parse(r#"{"rules": [{"replies": [{"steps": [{"shout": "x"}]}]}]}"#).is_err()
        );
    }

    #[test]
    fn a_text_is_streamed_whole_and_in_words() {
        let (text, pieces, pause) = Say::Paced(Paced {
            text: "one two {{output}} ".into(),
            every_ms: 3,
            times: 2,
        })
        .pieces("X");
        assert_eq!(text, "one two X one two X ");
        assert_eq!(pieces.concat(), text);
        assert_eq!((pieces.len(), pause), (6, 3));
    }
}
