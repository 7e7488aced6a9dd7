//! What a request says about the conversation so far.

use super::script::Reply;
use serde_json::Value;

/// The end of a conversation, as the harness sent it.
#[derive(Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Text of the last message of the user.
    pub message: String,
    /// Tool results after that message.
    pub outputs: usize,
    /// Text of the latest tool result.
    pub output: String,
    /// Messages of the user so far, harness-made ones left out.
    pub user_messages: usize,
}

impl Conversation {
    /// Reads a request body of `POST /responses`.
    pub fn read(body: &Value) -> Self {
        let mut this = Self {
            message: String::new(),
            outputs: 0,
            output: String::new(),
            user_messages: 0,
        };
        match &body["input"] {
            Value::String(text) => this.user(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| this.item(item)),
            _ => {}
        }
        this
    }

    fn item(&mut self, item: &Value) {
        match item["type"].as_str().unwrap_or("message") {
            "message" if item["role"] == "user" => self.user(text_of(&item["content"])),
            kind if kind.ends_with("_output") => {
                self.outputs += 1;
                self.output = tool_text(&item["output"]);
            }
            _ => {}
        }
    }

    fn user(&mut self, text: String) {
        // The harness speaks as the user too, about the environment and aborted Turns, always inside a tag.
        if [
            "<environment_context>",
            "<turn_aborted>",
            "<user_instructions>",
            "# AGENTS.md",
        ]
        .iter()
        .any(|tag| text.trim_start().starts_with(tag))
        {
            return;
        }
        self.message = text;
        self.outputs = 0;
        self.user_messages += 1;
    }

    /// Whether every call in the history has exactly one result, as real models insist (F08); the first call that has not.
    pub fn broken_call(body: &Value) -> Option<&str> {
        let items = body["input"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let of = |end: &'static str| {
            items.iter().filter_map(move |item| {
                let kind = item["type"].as_str()?;
                kind.ends_with(end).then(|| item["call_id"].as_str())?
            })
        };
        let results = |id: &str| of("_call_output").filter(|other| *other == id).count();
        of("_call")
            .find(|id| results(id) != 1)
            .or_else(|| of("_call_output").find(|id| !of("_call").any(|call| call == *id)))
    }

    /// Which of the replies is due: each reply before it has had all its tool results.
    pub fn due(&self, replies: &[Reply]) -> usize {
        let mut left = self.outputs;
        let mut index = 0;
        while index + 1 < replies.len()
            && replies[index].calls() > 0
            && left >= replies[index].calls()
        {
            left -= replies[index].calls();
            index += 1;
        }
        index
    }
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

/// The text that the command itself wrote: the harness puts a header of its own before it.
fn tool_text(output: &Value) -> String {
    let text = match output {
        Value::Object(object) => object.get("content").map(text_of).unwrap_or_default(),
        other => text_of(other),
    };
    let body = text
        .split_once("\nOutput:\n")
        .map_or(text.as_str(), |(_, body)| body);
    body.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::model_server::script::Step;
    use serde_json::json;

    fn user(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    fn output(text: &str) -> Value {
        json!({"type": "function_call_output", "call_id": "c", "output": text})
    }

    #[test]
    fn results_are_counted_from_the_last_message_of_the_user() {
        let body = json!({"input": [user("first"), output("a"), user("<environment_context>x"), user("second"), output("Chunk ID: 1\nOutput:\nb\n")]});
        let conversation = Conversation::read(&body);
        assert_eq!(
            (
                conversation.message.as_str(),
                conversation.outputs,
                conversation.output.as_str(),
                conversation.user_messages
            ),
            ("second", 1, "b", 2)
        );
        assert_eq!(
            Conversation::read(&json!({"input": "plain"})).message,
            "plain"
        );
    }

    #[test]
    fn a_call_needs_exactly_one_result() {
        let call = |id: &str| json!({"type": "function_call", "call_id": id});
        let result =
            |id: &str| json!({"type": "function_call_output", "call_id": id, "output": ""});
        let broken = |items: Value| {
            let body = json!({ "input": items });
            Conversation::broken_call(&body).map(str::to_owned)
        };
        assert_eq!(
            broken(json!([
                call("a"),
                call("b"),
                result("b"),
                result("a"),
                user("x")
            ])),
            None
        );
        assert_eq!(
            broken(json!([call("a"), call("b"), result("a")])),
            Some("b".into())
        );
        assert_eq!(
            broken(json!([call("a"), result("a"), result("a")])),
            Some("a".into())
        );
        assert_eq!(broken(json!([result("c")])), Some("c".into()));
    }

    #[test]
    fn a_reply_is_due_when_the_calls_before_it_are_answered() {
        let two = Reply {
            steps: vec![Step::Shell("a".into()), Step::Shell("b".into())],
            ..Reply::default()
        };
        let one = Reply {
            steps: vec![Step::Patch("p".into())],
            ..Reply::default()
        };
        let replies = [two, one, Reply::default()];
        let due = |outputs| {
            Conversation {
                message: String::new(),
                outputs,
                output: String::new(),
                user_messages: 1,
            }
            .due(&replies)
        };
        assert_eq!([due(0), due(1), due(2), due(3), due(9)], [0, 0, 1, 2, 2]);
    }
}
