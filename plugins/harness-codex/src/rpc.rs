//! JSON-RPC as Codex speaks it: one object a line, without the `jsonrpc` member.

use std::collections::BTreeMap;

use sdk::json::string;
use serde_json::{Value, json};

/// What a request of ours was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Initialize,
    /// `environment/status` of this name must be unknown (CDX-005).
    EnvironmentStatus(&'static str),
    /// The effective configuration is read back (CDX-011).
    ConfigRead,
    ThreadStart,
    /// The new thread of this id gets a name, which puts it on disk.
    ThreadName(String),
    ThreadResume,
    ThreadList,
    TurnStart,
    /// `turn/steer` with this message.
    Steer(String),
    Interrupt,
    CleanTerminals,
}

/// One line of the server.
#[derive(Debug)]
pub enum Frame {
    /// Answer to a call of ours.
    Answer(u64, Result<Value, RpcError>),
    /// A request that waits for our answer.
    Question {
        id: Value,
        method: String,
        params: Value,
    },
    /// Something happened.
    Notification { method: String, params: Value },
}

/// The server refused a request.
#[derive(Debug)]
pub struct RpcError {
    /// For people; the code is nearly always the same.
    pub message: String,
}

/// Reads a line; none if it is no frame.
pub fn parse(line: &str) -> Option<Frame> {
    let mut value: Value = serde_json::from_str(line).ok()?;
    let object = value.as_object_mut()?;
    let params = object.remove("params").unwrap_or(Value::Null);
    let id = object.remove("id");
    if let Some(Value::String(method)) = object.remove("method") {
        return Some(match id {
            Some(id) => Frame::Question { id, method, params },
            None => Frame::Notification { method, params },
        });
    }
    let id = id?.as_u64()?;
    if let Some(error) = object.remove("error") {
        let message = string(&error, "message").unwrap_or_default().to_owned();
        return Some(Frame::Answer(id, Err(RpcError { message })));
    }
    Some(Frame::Answer(id, Ok(object.remove("result")?)))
}

/// Our requests that wait for an answer.
#[derive(Default)]
pub struct Calls {
    last: u64,
    pending: BTreeMap<u64, Call>,
}

impl Calls {
    /// The line of a new request.
    pub fn request(&mut self, call: Call, method: &str, params: Value) -> String {
        self.last += 1;
        self.pending.insert(self.last, call);
        line(&json!({"id": self.last, "method": method, "params": params}))
    }

    /// The request that this answers; an answer to nothing is none.
    pub fn take(&mut self, id: u64) -> Option<Call> {
        self.pending.remove(&id)
    }
}

/// The line of a notification without parameters.
pub fn notification(method: &str) -> String {
    line(&json!({"method": method}))
}

/// The line that answers a question.
pub fn answer(id: &Value, result: &Value) -> String {
    line(&json!({"id": id, "result": result}))
}

/// The line that refuses a question.
pub fn refuse(id: &Value, code: i32, message: &str) -> String {
    line(&json!({"id": id, "error": {"code": code, "message": message}}))
}

fn line(frame: &Value) -> String {
    let mut text = frame.to_string();
    text.push('\n');
    text
}
