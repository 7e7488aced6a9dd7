//! A scripted stand-in for `codex app-server`: answers requests as the pinned program does, and says whatever the test
//! wants in between.

#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use std::collections::VecDeque;

use sdk::harness_session::Configuration;
use serde_json::{Value, json};

/// A configuration that the adapter takes.
pub fn configuration() -> Configuration {
    Configuration {
        version: "0.171.0".into(),
        home: "/home/agent/codex".into(),
        ..kit::harness::configuration("codex")
    }
}

/// What the server says next of its own accord.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    StartMessage,
    MessageDelta,
    EndMessage,
    WholeReasoning,
    StartCommand,
    CommandDelta,
    EndCommand,
    FileChange,
    Repeat,
    Retry,
    Usage,
    RepeatedUsage,
    Approval,
    UnknownQuestion,
    UnknownNotification,
    Garbage,
    ForeignThread,
    LateOfEarlierTurn,
    TakeSteers,
    Complete,
    Fail,
}

/// Everything it can say.
pub const SAYINGS: &[Say] = &[
    Say::StartMessage,
    Say::MessageDelta,
    Say::EndMessage,
    Say::WholeReasoning,
    Say::StartCommand,
    Say::CommandDelta,
    Say::EndCommand,
    Say::FileChange,
    Say::Repeat,
    Say::Retry,
    Say::Usage,
    Say::RepeatedUsage,
    Say::Approval,
    Say::UnknownQuestion,
    Say::UnknownNotification,
    Say::Garbage,
    Say::ForeignThread,
    Say::LateOfEarlierTurn,
    Say::TakeSteers,
    Say::Complete,
    Say::Fail,
];

#[derive(Default)]
struct Turn {
    id: String,
    steers: Vec<String>,
    message: Option<(String, String)>,
}

/// The server.
pub struct Server {
    /// Lines that are written and not read yet.
    pub lines: VecDeque<String>,
    /// Questions of ours that are not answered yet.
    pub open_questions: Vec<Value>,
    thread: String,
    turns: u32,
    items: u32,
    turn: Option<Turn>,
    commands: Vec<(String, String)>,
    total: u32,
    questions: u64,
    last: Option<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            lines: VecDeque::new(),
            open_questions: Vec::new(),
            thread: "thread-1".into(),
            turns: 0,
            items: 0,
            turn: None,
            commands: Vec::new(),
            total: 0,
            questions: 0,
            last: None,
        }
    }
}

impl Server {
    /// Whether a Turn runs.
    pub fn busy(&self) -> bool {
        self.turn.is_some()
    }

    /// One line of ours.
    pub fn hear(&mut self, line: &str) {
        assert!(
            line.ends_with('\n') && !line[..line.len() - 1].contains('\n'),
            "{line:?}"
        );
        let frame: Value = serde_json::from_str(line).unwrap();
        let params = &frame["params"];
        match frame["method"].as_str() {
            None => self.open_questions.retain(|id| *id != frame["id"]),
            Some("initialized") => {}
            Some("initialize") => self.answer(&frame, json!({})),
            Some("config/read") => {
                let config = json!({"mcp_servers": {}, "model_provider": "berth", "approval_policy": "never",
                    "web_search": "disabled", "sandbox_mode": "danger-full-access"});
                let origins = json!({"model_providers.berth.base_url": {"name": {"type": "user"}}});
                self.answer(&frame, json!({"config": config, "origins": origins}));
            }
            Some("thread/start") => {
                let thread =
                    json!({"id": self.thread, "environments": [{"environmentId": "local"}]});
                let answer = json!({"thread": thread, "model": params["model"], "modelProvider": "berth",
                    "cwd": params["cwd"]});
                self.answer(&frame, answer);
            }
            Some("thread/name/set") => self.answer(&frame, json!({})),
            Some("turn/start") => self.on_turn_start(&frame),
            Some("turn/steer") => match &mut self.turn {
                Some(turn) if params["expectedTurnId"] == json!(turn.id) => {
                    turn.steers
                        .push(params["clientUserMessageId"].as_str().unwrap().to_owned());
                    let id = turn.id.clone();
                    self.answer(&frame, json!({"turnId": id}));
                }
                _ => self.refuse(&frame, "no active turn to steer"),
            },
            Some("turn/interrupt") => {
                // Between the answer to turn/start and turn/started there is nothing to interrupt yet.
                let starting = self
                    .lines
                    .iter()
                    .any(|line| line.contains("\"turn/started\""));
                if self.turn.is_some() && !starting {
                    self.answer(&frame, json!({}));
                    self.end("interrupted", Value::Null);
                } else {
                    self.refuse(&frame, "no active turn to interrupt");
                }
            }
            Some("thread/backgroundTerminals/clean") => {
                self.answer(&frame, json!({}));
                for (turn, item) in std::mem::take(&mut self.commands) {
                    let item = command(&item, "failed", Some(-1));
                    self.notify("item/completed", json!({"turnId": turn, "item": item}));
                }
            }
            Some(other) => panic!("unexpected {other}"),
        }
    }

    fn on_turn_start(&mut self, frame: &Value) {
        self.turns += 1;
        let id = format!("turn-{}", self.turns);
        let turn = json!({"id": id, "status": "inProgress"});
        self.answer(frame, json!({"turn": turn}));
        self.notify("turn/started", json!({"turn": turn}));
        self.turn = Some(Turn {
            id,
            ..Turn::default()
        });
        let client = frame["params"]["clientUserMessageId"]
            .as_str()
            .unwrap()
            .to_owned();
        self.user_message(&client);
    }

    fn user_message(&mut self, client: &str) {
        let item = json!({"type": "userMessage", "id": self.fresh("user"), "clientId": client});
        self.of_turn("item/started", json!({"item": item}));
        self.of_turn("item/completed", json!({"item": item}));
    }

    /// Says something; what makes no sense now is left out.
    pub fn say(&mut self, what: Say) {
        match what {
            Say::UnknownNotification => self.notify("something/new", json!({})),
            Say::Garbage => self.lines.push_back("}{ no frame".into()),
            Say::ForeignThread => self.push(json!({"method": "item/started", "params": {
                "threadId": "thread-2", "turnId": "turn-1", "item": command("call-x", "inProgress", None)}})),
            Say::LateOfEarlierTurn => {
                let item = command("call-late", "completed", Some(0));
                self.notify("item/completed", json!({"turnId": "turn-0", "item": item}));
            }
            Say::UnknownQuestion => self.ask("something/asked"),
            Say::Approval => self.ask("item/commandExecution/requestApproval"),
            Say::Repeat => self.lines.extend(self.last.clone()),
            _ if self.turn.is_none() => {}
            Say::Complete | Say::Fail => {
                // Codex goes on with the model as long as messages wait.
                self.take_steers();
                match what {
                    Say::Complete => self.end("completed", Value::Null),
                    _ => self.end("failed", json!({"message": "no", "codexErrorInfo": "serverOverloaded"})),
                }
            }
            Say::TakeSteers => self.take_steers(),
            Say::Usage => {
                self.total += 3;
                self.usage();
            }
            Say::RepeatedUsage => self.usage(),
            Say::Retry => {
                self.turn.as_mut().unwrap().message = None;
                let error = json!({"message": "Reconnecting... 1/2", "codexErrorInfo": "other"});
                self.of_turn("error", json!({"error": error, "willRetry": true}));
            }
            Say::WholeReasoning => {
                let item = json!({"type": "reasoning", "id": self.fresh("rs"), "summary": ["Why."]});
                self.of_turn("item/completed", json!({"item": item}));
            }
            Say::FileChange => {
                let changes = json!([{"path": "a", "kind": {"type": "add"}, "diff": "x"}]);
                let item = json!({"type": "fileChange", "id": self.fresh("call"), "changes": changes,
                    "status": "completed"});
                self.of_turn("item/started", json!({"item": item}));
                self.of_turn("item/completed", json!({"item": item}));
            }
            Say::StartMessage | Say::MessageDelta | Say::EndMessage => self.message(what),
            Say::StartCommand | Say::CommandDelta | Say::EndCommand => self.command(what),
        }
    }

    fn message(&mut self, what: Say) {
        let open = self.turn.as_mut().unwrap().message.take();
        match (what, open) {
            (Say::StartMessage, None) => {
                let id = self.fresh("msg");
                let item = json!({"type": "agentMessage", "id": id, "text": ""});
                self.of_turn("item/started", json!({"item": item}));
                self.turn.as_mut().unwrap().message = Some((id, String::new()));
            }
            (Say::MessageDelta, Some((id, text))) => {
                self.of_turn(
                    "item/agentMessage/delta",
                    json!({"itemId": id, "delta": "word "}),
                );
                self.turn.as_mut().unwrap().message = Some((id, text + "word "));
            }
            (Say::EndMessage, Some((id, text))) => {
                let item = json!({"type": "agentMessage", "id": id, "text": text, "phase": "final_answer"});
                self.of_turn("item/completed", json!({"item": item}));
            }
            (_, open) => self.turn.as_mut().unwrap().message = open,
        }
    }

    fn command(&mut self, what: Say) {
        let turn = self.turn.as_ref().unwrap().id.clone();
        match what {
            Say::StartCommand => {
                let id = self.fresh("call");
                self.of_turn(
                    "item/started",
                    json!({"item": command(&id, "inProgress", None)}),
                );
                self.commands.push((turn, id));
            }
            Say::CommandDelta => {
                if let Some((turn, id)) = self.commands.last().cloned() {
                    let delta = json!({"turnId": turn, "itemId": id, "delta": "out\n"});
                    self.notify("item/commandExecution/outputDelta", delta);
                }
            }
            _ => {
                if let Some((turn, id)) = self.commands.pop() {
                    let item = command(&id, "completed", Some(0));
                    self.notify("item/completed", json!({"turnId": turn, "item": item}));
                }
            }
        }
    }

    fn take_steers(&mut self) {
        let steers = self
            .turn
            .as_mut()
            .map(|turn| std::mem::take(&mut turn.steers));
        for id in steers.unwrap_or_default() {
            self.user_message(&id);
        }
    }

    fn usage(&mut self) {
        let counters = |n: u32| {
            json!({"inputTokens": n, "cachedInputTokens": 0, "outputTokens": n, "reasoningOutputTokens": 0,
                "totalTokens": 2 * n})
        };
        let usage = json!({"total": counters(self.total), "last": counters(3)});
        self.of_turn("thread/tokenUsage/updated", json!({"tokenUsage": usage}));
    }

    fn end(&mut self, status: &str, error: Value) {
        if let Some(turn) = self.turn.take() {
            let turn = json!({"id": turn.id, "status": status, "error": error});
            self.notify("turn/completed", json!({"turn": turn}));
        }
    }

    fn ask(&mut self, method: &str) {
        self.questions += 1;
        let id = json!(format!("q-{}", self.questions));
        self.open_questions.push(id.clone());
        self.push(json!({"id": id, "method": method, "params": {"threadId": self.thread}}));
    }

    fn fresh(&mut self, kind: &str) -> String {
        self.items += 1;
        format!("{kind}-{}", self.items)
    }

    fn of_turn(&mut self, method: &str, mut params: Value) {
        if let Some(turn) = &self.turn {
            params["turnId"] = json!(turn.id);
            self.notify(method, params);
        }
    }

    fn notify(&mut self, method: &str, mut params: Value) {
        params["threadId"] = json!(self.thread);
        self.push(json!({"method": method, "params": params}));
        self.last = self.lines.back().cloned();
    }

    fn answer(&mut self, frame: &Value, result: Value) {
        self.push(json!({"id": frame["id"], "result": result}));
    }

    fn refuse(&mut self, frame: &Value, message: &str) {
        self.push(json!({"id": frame["id"], "error": {"code": -32600, "message": message}}));
    }

    fn push(&mut self, frame: Value) {
        self.lines.push_back(frame.to_string());
    }
}

fn command(id: &str, status: &str, exit: Option<i32>) -> Value {
    json!({"type": "commandExecution", "id": id, "command": "/bin/bash -lc 'ls'", "cwd": "/w", "status": status,
        "exitCode": exit, "aggregatedOutput": exit.map(|_| "out\n")})
}
