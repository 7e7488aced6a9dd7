//! The loop: requests in, answers and the running Turn's notifications out.

use crate::history::{Store, Thread};
use crate::requests::{Output, Request, parse};
use crate::timeline::Plan;
use crate::turn::{Next, Turn};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Long enough to look like for ever.
const FOR_EVER: Duration = Duration::from_secs(100_000);

struct Server {
    plan: Plan,
    home: PathBuf,
    store: Store,
    thread: Option<Thread>,
    turn: Option<Turn>,
    out: Output,
}

/// Serves standard input until it closes.
///
/// # Errors
/// There is no private home, or the plan cannot be understood.
pub fn run() -> Result<ExitCode> {
    let home = PathBuf::from(std::env::var_os("CODEX_HOME").context("CODEX_HOME is not set")?);
    let plan = Plan::beside(&std::env::current_exe()?)?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let start = plan.start.clone();
    let mut server = Server {
        store: Store::new(&home),
        plan,
        home,
        thread: None,
        turn: None,
        out: Output,
    };
    if let Some(code) = server.before_the_first_request(start) {
        return Ok(code);
    }
    server.serve(&receiver)
}

impl Server {
    fn before_the_first_request(&mut self, steps: Vec<crate::timeline::Step>) -> Option<ExitCode> {
        let nobody = Thread {
            id: String::new(),
            cwd: "/".into(),
            messages: Vec::new(),
        };
        let mut start = Turn::new(String::new(), &nobody, steps);
        loop {
            match start.step(&self.out) {
                Next::Go => {}
                Next::Wait(pause) => std::thread::sleep(pause),
                Next::Over(_) => return None,
                Next::Exit(code) => return Some(ExitCode::from(code)),
                Next::Idle | Next::Deaf => std::thread::sleep(FOR_EVER),
            }
        }
    }

    fn serve(&mut self, requests: &Receiver<String>) -> Result<ExitCode> {
        loop {
            let next = match &mut self.turn {
                Some(turn) => turn.step(&self.out),
                None => Next::Idle,
            };
            let patience = match next {
                Next::Go => Duration::ZERO,
                Next::Wait(pause) => pause,
                Next::Idle => FOR_EVER,
                Next::Over(shown) => {
                    self.complete(&shown);
                    continue;
                }
                Next::Exit(code) => return Ok(ExitCode::from(code)),
                Next::Deaf => {
                    std::thread::sleep(FOR_EVER);
                    continue;
                }
            };
            match requests.recv_timeout(patience) {
                Ok(line) => {
                    if let Some(request) = parse(&line) {
                        self.on(&request)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Closing standard input ends Codex, in a Turn too; its commands die with it.
                Err(RecvTimeoutError::Disconnected) => {
                    if let Some(turn) = &mut self.turn {
                        turn.clean();
                    }
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }

    fn on(&mut self, request: &Request) -> Result<()> {
        self.remember(request)?;
        let id = &request.id;
        if self.plan.ignore.contains(&request.method) {
            return Ok(());
        }
        if let Some(sentence) = self.plan.refuse.get(&request.method) {
            self.out.refuse(id, sentence);
            return Ok(());
        }
        match request.method.as_str() {
            "initialize" => {
                let answer = json!({"userAgent": "berth/0.171.0 (scripted)", "codexHome": self.home, "platformFamily": "unix", "platformOs": std::env::consts::OS});
                self.out.answer(id, &answer);
            }
            "initialized" => {}
            "environment/status" => self.out.answer(id, &json!({"status": "unknown"})),
            "config/read" => self
                .out
                .answer(id, &json!({"config": self.configuration(), "origins": {"model_providers.berth.base_url": {"name": {"type": "user"}}}})),
            "thread/start" => {
                let thread = Thread {
                    id: uuid::Uuid::now_v7().to_string(),
                    cwd: text(&request.params["cwd"]),
                    messages: Vec::new(),
                };
                self.open(id, thread, &request.params);
            }
            "thread/name/set" => match &self.thread {
                Some(thread) => {
                    self.store.name(thread, &text(&request.params["name"]))?;
                    self.out.answer(id, &json!({}));
                }
                None => self.out.refuse(id, "thread not found"),
            },
            "thread/list" => {
                // As Codex does: one that took no message is not shown.
                let kept = self.store.load();
                let spoken = kept.iter().filter(|thread| !thread.messages.is_empty());
                let data: Vec<Value> = spoken.map(shown).collect();
                self.out
                    .answer(id, &json!({"data": data, "nextCursor": null}));
            }
            "thread/resume" => match self
                .store
                .load()
                .filter(|thread| thread.id == text(&request.params["threadId"]))
            {
                Some(thread) => self.open(id, thread, &request.params),
                None => self.out.refuse(
                    id,
                    &format!(
                        "no rollout found for thread id {}",
                        text(&request.params["threadId"])
                    ),
                ),
            },
            "turn/start" if self.turn.is_none() => self.start(request)?,
            "turn/start" | "turn/steer" => self.steer(request)?,
            "turn/interrupt" => self.interrupt(id),
            "thread/backgroundTerminals/clean" => self.out.answer(id, &json!({})),
            "thread/backgroundTerminals/list" => self.out.answer(id, &json!({"data": []})),
            other => self
                .out
                .refuse(id, &format!("Invalid request: unknown variant `{other}`")),
        }
        Ok(())
    }

    fn open(&mut self, id: &Option<Value>, thread: Thread, params: &Value) {
        let answer = json!({"thread": shown(&thread), "model": params["model"], "modelProvider": params["modelProvider"], "cwd": thread.cwd});
        self.out.answer(id, &answer);
        self.thread = Some(thread);
    }

    fn start(&mut self, request: &Request) -> Result<()> {
        let Some(thread) = &mut self.thread else {
            self.out.refuse(&request.id, "thread not found");
            return Ok(());
        };
        let message = message(&request.params["input"]);
        thread.messages.push(message.clone());
        self.store.save(thread)?;
        let turn = Turn::new(
            uuid::Uuid::now_v7().to_string(),
            thread,
            self.plan.steps(&message)?,
        );
        let running = turn.shown("inProgress", Value::Null);
        self.out.answer(&request.id, &json!({"turn": running}));
        self.out.notify(
            "turn/started",
            &json!({"threadId": thread.id, "turn": running}),
        );
        turn.user_message(
            &request.params["clientUserMessageId"],
            &request.params["input"],
            &self.out,
        );
        self.turn = Some(turn);
        Ok(())
    }

    fn steer(&mut self, request: &Request) -> Result<()> {
        let (Some(thread), Some(turn)) = (&mut self.thread, &mut self.turn) else {
            self.out.refuse(&request.id, "no active turn to steer");
            return Ok(());
        };
        thread.messages.push(message(&request.params["input"]));
        self.store.save(thread)?;
        turn.steers += 1;
        self.out.answer(&request.id, &json!({"turnId": turn.id}));
        turn.user_message(
            &request.params["clientUserMessageId"],
            &request.params["input"],
            &self.out,
        );
        Ok(())
    }

    fn interrupt(&mut self, id: &Option<Value>) {
        match &mut self.turn {
            Some(turn) => {
                turn.clean();
                let shown = turn.shown("interrupted", Value::Null);
                self.out.answer(id, &json!({}));
                self.complete(&shown);
            }
            None => self.out.refuse(id, "no active turn to interrupt"),
        }
    }

    fn complete(&mut self, shown: &Value) {
        if let Some(thread) = &self.thread {
            self.out.notify(
                "turn/completed",
                &json!({"threadId": thread.id, "turn": shown}),
            );
        }
        self.turn = None;
    }

    /// The configuration that the adapter wrote, as far as it reads it back.
    fn configuration(&self) -> Value {
        let text = std::fs::read_to_string(self.home.join("config.toml")).unwrap_or_default();
        let member = |name: &str| {
            text.lines().find_map(|line| {
                line.strip_prefix(name)?
                    .trim_start()
                    .strip_prefix('=')
                    .map(|value| value.trim().trim_matches('"').to_owned())
            })
        };
        json!({
            "model": member("model"), "model_provider": member("model_provider"), "approval_policy": member("approval_policy"),
            "sandbox_mode": member("sandbox_mode"), "web_search": member("web_search"), "mcp_servers": {},
        })
    }

    fn remember(&self, request: &Request) -> Result<()> {
        let line = json!({"method": request.method, "client_id": request.params["clientUserMessageId"], "message": message(&request.params["input"]), "pid": std::process::id()});
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.home.join("requests.jsonl"))
            .context("cannot write to the private home")?;
        // In one write: a test may kill it at any moment.
        file.write_all(format!("{line}\n").as_bytes())
            .context("cannot write to the private home")
    }
}

fn shown(thread: &Thread) -> Value {
    json!({"id": thread.id, "cwd": thread.cwd, "parentThreadId": null, "source": "vscode", "status": {"type": "idle"}, "environments": []})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn message(input: &Value) -> String {
    input
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|part| part["text"].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}
