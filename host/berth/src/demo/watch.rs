//! Creating a Session with `stream: true` and showing each of its events as it happens.

use super::api::Api;
use super::stages::Stages;
use anyhow::{Context, bail};
use futures_util::StreamExt;
use reqwest::Method;
use serde_json::Value;
use std::sync::OnceLock;

/// Creates the Session and shows its stream; the answer is the last message of the agent. `made` gets the Session's id as
/// soon as it has one.
///
/// # Errors
/// The Core refuses, the stream breaks, or the Turn fails.
pub async fn session(
    api: &Api,
    body: &Value,
    stages: &mut Stages,
    made: &OnceLock<String>,
) -> anyhow::Result<String> {
    let response = api
        .sessions(Method::POST, "")?
        .body(body.to_string())
        .send()
        .await
        .context("the server did not answer")?;
    let status = response.status();
    if !status.is_success() {
        let said = response.text().await.unwrap_or_default();
        let message = serde_json::from_str::<Value>(&said)
            .ok()
            .and_then(|body| body["error"]["message"].as_str().map(str::to_owned));
        bail!(
            "the Session was refused ({status}): {}",
            message.unwrap_or(said)
        );
    }
    let mut bytes = response.bytes_stream();
    let mut frames = Frames::default();
    let mut answer = String::new();
    while let Some(piece) = bytes.next().await {
        for event in frames.push(&piece.context("the event stream broke")?) {
            say!("   {:>7.3}  {}", stages.clock(), line(&event));
            match event["type"].as_str().unwrap_or_default() {
                "agent.session.created" => {
                    stages.done("create the Session");
                    if let Some(id) = event["session"]["id"].as_str() {
                        made.get_or_init(|| id.to_owned());
                    }
                }
                "agent.session.environment.ready" => stages.done("prepare the Environment"),
                "agent.session.turn.output_text.delta" => stages.done("until the first word"),
                "agent.session.turn.output_text.done" => {
                    answer = event["text"].as_str().unwrap_or_default().to_owned()
                }
                "agent.session.turn.completed" => stages.done("until the Turn was complete"),
                "agent.session.turn.failed" | "agent.session.turn.cancelled" => bail!(
                    "the Turn ended as {}: {}",
                    event["turn"]["status"],
                    event["turn"]["error"]
                ),
                "agent.session.failed" => {
                    bail!("the Session failed: {}", event["session"]["error"])
                }
                "agent.session.environment.failed" => {
                    bail!("the Environment failed: {}", event["environment"]["error"])
                }
                "error" => bail!("the stream ended with an error: {}", event["error"]),
                "agent.session.idle" if !answer.is_empty() => return Ok(answer),
                _ => {}
            }
        }
    }
    if answer.is_empty() {
        bail!("the stream ended without an answer")
    } else {
        Ok(answer)
    }
}

/// One event in one line: its type and what is new in it.
fn line(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap_or("?");
    let item = &event["item"];
    let detail = match item["type"].as_str() {
        Some("command_execution") => {
            format!("command_execution {} {}", item["command"], item["status"])
        }
        Some("message") => format!("message {} {}", item["role"], item["status"]),
        Some(other) => other.to_owned(),
        None => ["delta", "text"]
            .into_iter()
            .find_map(|member| event[member].as_str())
            .map(|text| format!("{text:?}"))
            .unwrap_or_else(|| state(event)),
    };
    format!("{kind:<48} {detail}").trim_end().to_owned()
}

fn state(event: &Value) -> String {
    ["environment", "turn", "session"]
        .into_iter()
        .find_map(|member| event[member]["status"].as_str())
        .unwrap_or_default()
        .to_owned()
}

/// Server-sent events out of pieces of a body. Comments and other fields than `data` mean nothing here.
#[derive(Default)]
struct Frames {
    rest: Vec<u8>,
}

impl Frames {
    fn push(&mut self, piece: &[u8]) -> Vec<Value> {
        self.rest.extend_from_slice(piece);
        let mut events = Vec::new();
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let frame: Vec<u8> = self.rest.drain(..end + 2).collect();
            let frame = String::from_utf8_lossy(&frame);
            let data: Option<&str> = frame.lines().find_map(|line| line.strip_prefix("data:"));
            events.extend(data.and_then(|data| serde_json::from_str(data.trim_start()).ok()));
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn frames_are_found_wherever_the_pieces_end() {
        let text =
            b": ping\n\nevent: a\ndata: {\"type\":\"a\"}\n\ndata: {\"type\":\"b\"}\n\ndata: {\"ty";
        for cut in 0..text.len() {
            let mut frames = Frames::default();
            let mut events = frames.push(&text[..cut]);
            events.extend(frames.push(&text[cut..]));
            assert_eq!(
                events,
                [json!({"type": "a"}), json!({"type": "b"})],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_line_says_what_is_new() {
        assert!(line(&json!({"type": "x.delta", "delta": "a\n"})).ends_with("\"a\\n\""));
        assert!(
            line(&json!({"type": "x", "environment": {"status": "ready"}})).ends_with(" ready")
        );
    }
}
