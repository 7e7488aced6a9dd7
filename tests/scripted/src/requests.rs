//! One line of JSON-RPC as Codex speaks it (no `jsonrpc` member), in and out.

use serde_json::{Value, json};
use std::io::Write;

/// A request or notification of the client.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// None for a notification.
    pub id: Option<Value>,
    /// What is asked.
    pub method: String,
    /// With what.
    pub params: Value,
}

/// Reads a line; none if it is no request (Codex ignores such lines).
pub fn parse(line: &str) -> Option<Request> {
    let mut value: Value = serde_json::from_str(line).ok()?;
    let method = value["method"].as_str()?.to_owned();
    let object = value.as_object_mut()?;
    Some(Request {
        id: object.remove("id"),
        method,
        params: object.remove("params").unwrap_or(Value::Null),
    })
}

/// Writes frames to standard output. A closed pipe is the reader's business.
pub struct Output;

impl Output {
    /// The answer to a request; nothing for a notification.
    pub fn answer(&self, id: &Option<Value>, result: &Value) {
        if let Some(id) = id {
            self.line(&json!({"id": id, "result": result}).to_string());
        }
    }

    /// The refusal of a request, with the one code that Codex uses.
    pub fn refuse(&self, id: &Option<Value>, message: &str) {
        if let Some(id) = id {
            self.line(
                &json!({"id": id, "error": {"code": -32600, "message": message}}).to_string(),
            );
        }
    }

    /// A notification.
    pub fn notify(&self, method: &str, params: &Value) {
        self.line(&json!({"method": method, "params": params}).to_string());
    }

    /// A line as it is.
    pub fn line(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out
            .write_all(text.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
    }
}
