//! One Turn: its steps, and the notifications that each becomes.

use crate::requests::Output;
use crate::timeline::Step;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a file that is waited for is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A Turn that runs.
pub struct Turn {
    /// Its id.
    pub id: String,
    thread: String,
    cwd: String,
    steps: VecDeque<Step>,
    until: Option<Instant>,
    /// Messages steered in so far.
    pub steers: usize,
    history: usize,
    items: u32,
    input: u64,
    output: u64,
    begun: Vec<Value>,
    ticking: Option<Ticking>,
    children: Vec<Child>,
}

/// A message of which not every word is said.
struct Ticking {
    id: String,
    said: u32,
    text: String,
}

/// What the loop does next.
pub enum Next {
    /// Perform the following step.
    Go,
    /// Look again after this time, or when something arrives.
    Wait(Duration),
    /// Wait for requests only.
    Idle,
    /// The Turn is over.
    Over(Value),
    /// The process ends.
    Exit(u8),
    /// Nothing is read any more.
    Deaf,
}

impl Turn {
    /// A Turn of this thread.
    pub fn new(id: String, thread: &crate::history::Thread, steps: Vec<Step>) -> Self {
        Self {
            id,
            thread: thread.id.clone(),
            cwd: thread.cwd.clone(),
            steps: steps.into(),
            until: None,
            steers: 0,
            history: thread.messages.len(),
            items: 0,
            input: 0,
            output: 0,
            begun: Vec::new(),
            ticking: None,
            children: Vec::new(),
        }
    }

    /// The Turn as Codex shows it.
    pub fn shown(&self, status: &str, error: Value) -> Value {
        json!({"id": self.id, "items": [], "itemsView": "notLoaded", "status": status, "error": error})
    }

    /// The message of the user that began or steered it.
    pub fn user_message(&self, client_id: &Value, content: &Value, out: &Output) {
        let item = json!({"type": "userMessage", "id": uuid::Uuid::now_v7(), "clientId": client_id, "content": content});
        self.notify("item/started", json!({"item": item}), out);
        self.notify("item/completed", json!({"item": item}), out);
    }

    /// Performs the first step that is left.
    pub fn step(&mut self, out: &Output) -> Next {
        let Some(step) = self.steps.front().cloned() else {
            return Next::Over(self.shown("completed", Value::Null));
        };
        match step {
            Step::SleepMs(pause) => {
                let until = *self
                    .until
                    .get_or_insert_with(|| Instant::now() + Duration::from_millis(pause));
                let left = until.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    return Next::Wait(left);
                }
                self.until = None;
            }
            Step::Ticks { count, every_ms } => {
                if let Some(next) = self.tick(count, Duration::from_millis(every_ms), out) {
                    return next;
                }
            }
            Step::AwaitSteers(count) if self.steers < count => return Next::Idle,
            Step::AwaitFile(name) if !Path::new(&self.cwd).join(&name).exists() => {
                return Next::Wait(LOOK_AGAIN);
            }
            Step::Hang => return Next::Idle,
            Step::Deaf => return Next::Deaf,
            Step::Exit(code) => return Next::Exit(code),
            Step::Kill => kill_self(),
            Step::CloseStdout => close_stdout(),
            Step::Fail(message) => {
                let error = json!({"message": message, "codexErrorInfo": "other", "additionalDetails": null});
                self.notify("error", json!({"error": error, "willRetry": false}), out);
                return Next::Over(self.shown("failed", error));
            }
            other => self.perform(other, out),
        }
        self.steps.pop_front();
        Next::Go
    }

    fn perform(&mut self, step: Step, out: &Output) {
        match step {
            Step::Say(text) => {
                let text = text.replace("{{history}}", &self.history.to_string());
                let id = self.begin(&text, out);
                self.begun.pop();
                self.notify(
                    "item/completed",
                    json!({"item": {"type": "agentMessage", "id": id, "text": text}}),
                    out,
                );
            }
            Step::Begin(text) => {
                self.begin(&text, out);
            }
            Step::Run(command) => {
                let id = self.item_id();
                let begun = Instant::now();
                self.notify(
                    "item/started",
                    json!({"item": command_item(&id, &command, &self.cwd, "inProgress")}),
                    out,
                );
                let ran = Command::new("/bin/sh")
                    .args(["-c", &command])
                    .current_dir(&self.cwd)
                    .stdin(Stdio::null())
                    .output();
                let mut item = command_item(&id, &command, &self.cwd, "completed");
                let (code, text) = ran.map_or((-1, String::new()), |ran| {
                    (
                        ran.status.code().unwrap_or(-1),
                        String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(),
                    )
                });
                item["status"] = json!(if code == 0 { "completed" } else { "failed" });
                item["exitCode"] = json!(code);
                item["aggregatedOutput"] = json!(text);
                item["durationMs"] =
                    json!(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
                self.notify("item/completed", json!({"item": item}), out);
            }
            Step::Start(command) => {
                let id = self.item_id();
                self.notify(
                    "item/started",
                    json!({"item": command_item(&id, &command, &self.cwd, "inProgress")}),
                    out,
                );
                // In a session of its own, as Codex starts commands: killing our group is then not enough.
                let child = Command::new("setsid")
                    .args(["/bin/sh", "-c", &command])
                    .current_dir(&self.cwd)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                self.children.extend(child);
            }
            Step::Flood { lines, bytes, fill } => {
                let id = self.item_id();
                let line = format!("{}\n", String::from(fill).repeat(bytes.saturating_sub(1)));
                self.notify(
                    "item/started",
                    json!({"item": command_item(&id, "flood", &self.cwd, "inProgress")}),
                    out,
                );
                for _ in 0..lines {
                    self.notify(
                        "item/commandExecution/outputDelta",
                        json!({"itemId": id, "delta": line}),
                        out,
                    );
                }
                let mut item = command_item(&id, "flood", &self.cwd, "completed");
                item["exitCode"] = json!(0);
                item["aggregatedOutput"] = json!(line.repeat(lines as usize));
                self.notify("item/completed", json!({"item": item}), out);
            }
            Step::Patch(bytes) => {
                let id = self.item_id();
                let line = format!("{}\n", "p".repeat(63));
                let content: String = line
                    .repeat(bytes.div_ceil(64))
                    .chars()
                    .take(bytes)
                    .collect();
                let change =
                    json!({"path": "patched", "kind": {"type": "delete"}, "diff": content});
                let item = json!({"type": "fileChange", "id": id, "status": "completed", "changes": [change]});
                self.notify("item/started", json!({"item": item}), out);
                self.notify("item/completed", json!({"item": item}), out);
            }
            Step::Usage { input, output } => {
                self.input += input;
                self.output += output;
                let count = |input: u64, output: u64| json!({"inputTokens": input, "cachedInputTokens": 0, "cacheWriteInputTokens": 0, "outputTokens": output, "reasoningOutputTokens": 0, "totalTokens": input + output});
                let usage = json!({"last": count(input, output), "total": count(self.input, self.output), "modelContextWindow": null});
                self.notify(
                    "thread/tokenUsage/updated",
                    json!({"tokenUsage": usage}),
                    out,
                );
            }
            Step::Raw(text) => out.line(&text),
            Step::HugeLine(bytes) => out.line(&"x".repeat(bytes)),
            // The caller has done the others.
            _ => {}
        }
    }

    fn begin(&mut self, text: &str, out: &Output) -> String {
        let id = self.item_id();
        self.notify(
            "item/started",
            json!({"item": {"type": "agentMessage", "id": id, "text": ""}}),
            out,
        );
        for piece in text.split_inclusive(' ') {
            self.notify(
                "item/agentMessage/delta",
                json!({"itemId": id, "delta": piece}),
                out,
            );
        }
        self.begun.push(json!(id));
        id
    }

    /// Says the next word of `ticks` when it is due; none when all are said.
    fn tick(&mut self, count: u32, every: Duration, out: &Output) -> Option<Next> {
        let mut ticking = match self.ticking.take() {
            Some(ticking) => ticking,
            None => Ticking {
                id: self.begin("", out),
                said: 0,
                text: String::new(),
            },
        };
        if ticking.said == count {
            let item = json!({"type": "agentMessage", "id": ticking.id, "text": ticking.text});
            self.notify("item/completed", json!({"item": item}), out);
            self.until = None;
            self.begun.pop();
            return None;
        }
        let due = *self.until.get_or_insert_with(Instant::now);
        let left = due.saturating_duration_since(Instant::now());
        let next = if left.is_zero() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let word = format!("{} ", now.unwrap_or_default().as_micros());
            self.notify(
                "item/agentMessage/delta",
                json!({"itemId": ticking.id, "delta": word}),
                out,
            );
            ticking.text.push_str(&word);
            ticking.said += 1;
            self.until = Some(due + every);
            Next::Go
        } else {
            Next::Wait(left)
        };
        self.ticking = Some(ticking);
        Some(next)
    }

    /// Ends what still runs, as `thread/backgroundTerminals/clean` does.
    pub fn clean(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.children.clear();
    }

    fn item_id(&mut self) -> String {
        self.items += 1;
        format!("item_{}_{}", self.id, self.items)
    }

    fn notify(&self, method: &str, mut params: Value, out: &Output) {
        params["threadId"] = json!(self.thread);
        params["turnId"] = json!(self.id);
        out.notify(method, &params);
    }
}

fn command_item(id: &str, command: &str, cwd: &str, status: &str) -> Value {
    json!({"type": "commandExecution", "id": id, "command": command, "cwd": cwd, "status": status, "commandActions": [], "aggregatedOutput": null, "exitCode": null, "durationMs": null})
}

/// As an operator's `kill -9` or the kernel would.
fn kill_self() -> ! {
    let _ = Command::new("/bin/sh")
        .args(["-c", "kill -9 $PPID"])
        .status();
    std::process::abort()
}

/// Becomes a program that has no standard output and never ends by itself.
fn close_stdout() -> ! {
    let _ = Command::new("/bin/sh")
        .args(["-c", "exec >&- 2>&-; exec sleep 100000"])
        .exec();
    std::process::abort()
}
