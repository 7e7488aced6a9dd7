//! The server-sent events of one streamed response, in the order in which the Responses API sends them.

use super::script::{Call, Usage};
use bytes::Bytes;
use serde_json::{Value, json};

/// Builds the events of one response; numbers output items and events.
pub struct Events {
    id: String,
    model: String,
    sequence: u64,
    output: Vec<Value>,
    words: u64,
}

impl Events {
    /// `id` must be new for each response.
    pub fn new(id: String, model: String) -> Self {
        Self {
            id,
            model,
            sequence: 0,
            output: Vec::new(),
            words: 0,
        }
    }

    /// `response.created`, the first event.
    pub fn created(&mut self) -> Bytes {
        let response = self.response("in_progress", Value::Null);
        self.event("response.created", json!({"response": response}))
    }

    /// Opens a message; the answer is its item id.
    pub fn open_message(&mut self) -> (String, Vec<Bytes>) {
        let id = self.item_id("msg");
        let item = json!({"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []});
        let index = self.output.len();
        let part = json!({"type": "output_text", "text": "", "annotations": []});
        let added = self.event(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        let opened = self.event(
            "response.content_part.added",
            json!({"item_id": id, "output_index": index, "content_index": 0, "part": part}),
        );
        (id, vec![added, opened])
    }

    /// A piece of the open message.
    pub fn text_delta(&mut self, item: &str, piece: &str) -> Bytes {
        self.words += 1;
        let index = self.output.len();
        self.event(
            "response.output_text.delta",
            json!({"item_id": item, "output_index": index, "content_index": 0, "delta": piece}),
        )
    }

    /// Closes the open message with its whole text.
    pub fn close_message(&mut self, item: &str, text: &str) -> Vec<Bytes> {
        let index = self.output.len();
        let part = json!({"type": "output_text", "text": text, "annotations": []});
        let place = |more: Value| {
            merge(
                json!({"item_id": item, "output_index": index, "content_index": 0}),
                more,
            )
        };
        let text_done = self.event("response.output_text.done", place(json!({"text": text})));
        let part_done = self.event(
            "response.content_part.done",
            place(json!({"part": part.clone()})),
        );
        let done = self.done(json!({"type": "message", "id": item, "role": "assistant", "status": "completed", "content": [part]}));
        vec![text_done, part_done, done]
    }

    /// A whole reasoning item with one summary part.
    pub fn reasoning(&mut self, summary: &str) -> Vec<Bytes> {
        let id = self.item_id("rs");
        let index = self.output.len();
        let place = |more: Value| {
            merge(
                json!({"item_id": id, "output_index": index, "summary_index": 0}),
                more,
            )
        };
        let part = json!({"type": "summary_text", "text": summary});
        let mut events = vec![self.event(
            "response.output_item.added",
            json!({"output_index": index, "item": {"type": "reasoning", "id": id, "summary": []}}),
        )];
        events.push(self.event(
            "response.reasoning_summary_part.added",
            place(json!({"part": {"type": "summary_text", "text": ""}})),
        ));
        for piece in summary.split_inclusive(' ') {
            self.words += 1;
            events.push(self.event(
                "response.reasoning_summary_text.delta",
                place(json!({"delta": piece})),
            ));
        }
        events.push(self.event(
            "response.reasoning_summary_text.done",
            place(json!({"text": summary})),
        ));
        events.push(self.event(
            "response.reasoning_summary_part.done",
            place(json!({"part": part.clone()})),
        ));
        events.push(self.done(
            json!({"type": "reasoning", "id": id, "summary": [part], "encrypted_content": null}),
        ));
        events
    }

    /// A function call.
    pub fn call(&mut self, call: &Call) -> Vec<Bytes> {
        let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
        let mut item = json!({"type": "function_call", "id": self.item_id("fc"), "call_id": self.item_id("call"), "name": call.name, "arguments": arguments, "status": "completed"});
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        self.whole(item)
    }

    /// A call of a free-form tool.
    pub fn custom_call(&mut self, name: &str, input: &str) -> Vec<Bytes> {
        let item = json!({"type": "custom_tool_call", "id": self.item_id("ctc"), "call_id": self.item_id("call"), "name": name, "input": input, "status": "completed"});
        self.whole(item)
    }

    /// `response.completed`, the last event. Without `usage`, words are counted as tokens.
    pub fn completed(&mut self, usage: Option<Usage>, input_words: u64) -> Bytes {
        let usage = usage.unwrap_or(Usage {
            input: input_words,
            cached: 0,
            output: self.words,
            reasoning: 0,
        });
        let usage = json!({
            "input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        });
        let response = self.response("completed", usage);
        self.event("response.completed", json!({"response": response}))
    }

    /// `response.failed`, the last event of a response that went wrong.
    pub fn failed(&mut self, code: &str, message: &str) -> Bytes {
        let mut response = self.response("failed", Value::Null);
        response["error"] = json!({"code": code, "message": message});
        self.event("response.failed", json!({"response": response}))
    }

    fn whole(&mut self, item: Value) -> Vec<Bytes> {
        self.words += 1;
        let mut opened = item.clone();
        opened["status"] = json!("in_progress");
        let added = self.event(
            "response.output_item.added",
            json!({"output_index": self.output.len(), "item": opened}),
        );
        vec![added, self.done(item)]
    }

    fn done(&mut self, item: Value) -> Bytes {
        let event = self.event(
            "response.output_item.done",
            json!({"output_index": self.output.len(), "item": item.clone()}),
        );
        self.output.push(item);
        event
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.id, self.output.len())
    }

    fn response(&self, status: &str, usage: Value) -> Value {
        json!({"id": format!("resp_{}", self.id), "object": "response", "status": status, "model": self.model, "output": self.output, "usage": usage})
    }

    fn event(&mut self, kind: &str, body: Value) -> Bytes {
        let body = merge(
            json!({"type": kind, "sequence_number": self.sequence}),
            body,
        );
        self.sequence += 1;
        Bytes::from(format!("event: {kind}\ndata: {body}\n\n"))
    }
}

fn merge(mut first: Value, second: Value) -> Value {
    if let (Value::Object(into), Value::Object(from)) = (&mut first, second) {
        into.extend(from);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(events: &[Bytes]) -> Vec<String> {
        events
            .iter()
            .map(|event| {
                String::from_utf8_lossy(event)
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("event: ")
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn a_message_is_opened_streamed_and_closed_in_order() {
        let mut events = Events::new("1".into(), "m".into());
        let mut all = vec![events.created()];
        let (id, opened) = events.open_message();
        all.extend(opened);
        all.push(events.text_delta(&id, "hi"));
        all.extend(events.close_message(&id, "hi"));
        all.push(events.completed(None, 7));
        assert_eq!(
            kinds(&all),
            [
                "response.created",
                "response.output_item.added",
                "response.content_part.added",
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.completed"
            ]
        );
        let last = String::from_utf8_lossy(&all[7]).into_owned();
        let body: Value =
            serde_json::from_str(last.lines().nth(1).unwrap().trim_start_matches("data: "))
                .unwrap();
        assert_eq!(body["sequence_number"], 7);
        assert_eq!(body["response"]["usage"]["total_tokens"], 8);
        assert_eq!(body["response"]["output"][0]["content"][0]["text"], "hi");
    }
}
