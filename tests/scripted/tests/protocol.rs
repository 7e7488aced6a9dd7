//! The scripted harness against a client that speaks to it through pipes, as the daemon does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    fn start(home: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_berth-scripted"))
            .arg("app-server")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("CODEX_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (
            child.stdin.take(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        Self {
            child,
            input,
            output,
            last: 0,
        }
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        writeln!(
            self.input.as_mut().unwrap(),
            "{}",
            json!({"id": self.last, "method": method, "params": params})
        )
        .unwrap();
        self.last
    }

    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the harness ended; seen: {seen:?}"
            );
            let frame: Value = serde_json::from_str(&line).unwrap();
            let last = wanted(&frame);
            seen.push(frame);
            if last {
                return seen;
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.until(|frame| frame["id"] == id).pop().unwrap()
    }

    fn thread(&mut self, cwd: &std::path::Path) -> String {
        self.ask(
            "thread/start",
            json!({"cwd": cwd, "model": "m", "modelProvider": "berth"}),
        )["result"]["thread"]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn turn(&mut self, thread: &str, text: &str) {
        self.send("turn/start", json!({"threadId": thread, "clientUserMessageId": "in", "input": [{"type": "text", "text": text}]}));
    }

    fn end(mut self) -> Option<i32> {
        self.input = None;
        self.child.wait().unwrap().code()
    }
}

fn completed(frame: &Value) -> bool {
    frame["method"] == "turn/completed"
}

#[test]
fn a_turn_is_told_like_codex_tells_it() {
    let home = tempfile::tempdir().unwrap();
    let mut client = Client::start(home.path());
    let thread = client.thread(home.path());
    client.turn(&thread, r#"timeline: [{"say": "one two"}, {"run": "echo $((40+2))"}, {"usage": {"input": 3, "output": 4}}]"#);
    let frames = client.until(completed);
    let methods: Vec<&str> = frames
        .iter()
        .filter_map(|frame| frame["method"].as_str())
        .collect();
    assert_eq!(
        methods,
        [
            "turn/started",
            "item/started",
            "item/completed",
            "item/started",
            "item/agentMessage/delta",
            "item/agentMessage/delta",
            "item/completed",
            "item/started",
            "item/completed",
            "thread/tokenUsage/updated",
            "turn/completed"
        ]
    );
    let command = &frames[frames.len() - 3]["params"]["item"];
    assert_eq!(
        (
            command["exitCode"].as_i64(),
            command["aggregatedOutput"].as_str()
        ),
        (Some(0), Some("42\n"))
    );
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_thread_goes_on_in_the_next_process() {
    let home = tempfile::tempdir().unwrap();
    let mut client = Client::start(home.path());
    let thread = client.thread(home.path());
    client.turn(&thread, "first");
    client.until(completed);
    client.end();

    let mut client = Client::start(home.path());
    assert!(
        client.ask("thread/resume", json!({"threadId": "other"}))["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("no rollout found")
    );
    client.ask("thread/resume", json!({"threadId": thread}));
    client.turn(&thread, r#"timeline: [{"say": "{{history}} messages"}]"#);
    let frames = client.until(completed);
    assert!(
        frames
            .iter()
            .any(|frame| frame["params"]["item"]["text"] == "2 messages")
    );
    let log = std::fs::read_to_string(home.path().join("requests.jsonl")).unwrap();
    assert_eq!(
        log.lines()
            .filter(|line| line.contains("turn/start"))
            .count(),
        2
    );
}

#[test]
fn a_steer_and_an_interrupt_reach_a_turn_that_waits() {
    let home = tempfile::tempdir().unwrap();
    let mut client = Client::start(home.path());
    let thread = client.thread(home.path());
    client.turn(
        &thread,
        r#"timeline: [{"await_steers": 1}, {"say": "steered"}, "hang"]"#,
    );
    client.until(|frame| frame["method"] == "turn/started");
    client.ask(
        "turn/steer",
        json!({"threadId": thread, "input": [{"type": "text", "text": "go"}]}),
    );
    client.until(|frame| frame["params"]["item"]["text"] == "steered");
    client.send("turn/interrupt", json!({"threadId": thread}));
    assert_eq!(
        client.until(completed).pop().unwrap()["params"]["turn"]["status"],
        "interrupted"
    );
}

#[test]
fn ticks_are_one_message_that_says_when_each_word_was_written() {
    let home = tempfile::tempdir().unwrap();
    let mut client = Client::start(home.path());
    let thread = client.thread(home.path());
    client.turn(
        &thread,
        r#"timeline: [{"ticks": {"count": 3, "every_ms": 5}}, {"say": "after"}]"#,
    );
    let frames = client.until(completed);
    let words: Vec<&str> = frames
        .iter()
        .filter(|frame| frame["method"] == "item/agentMessage/delta")
        .filter_map(|frame| frame["params"]["delta"].as_str())
        .collect();
    assert_eq!((words.len(), words[3]), (4, "after"));
    let times: Vec<u64> = words[..3]
        .iter()
        .map(|word| word.trim_end().parse().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let text = words[..3].concat();
    assert!(
        frames
            .iter()
            .any(|frame| frame["params"]["item"]["text"] == text)
    );
}

#[test]
fn faults_happen_when_the_timeline_says_so() {
    let home = tempfile::tempdir().unwrap();
    for (fault, code) in [(r#"{"exit": 7}"#, Some(7)), (r#""kill""#, None)] {
        let mut client = Client::start(home.path());
        let thread = client.thread(home.path());
        client.turn(&thread, &format!("timeline: [{fault}]"));
        assert_eq!(client.child.wait().unwrap().code(), code, "{fault}");
    }
    let mut client = Client::start(home.path());
    let thread = client.thread(home.path());
    client.turn(&thread, r#"timeline: [{"fail": "no more"}]"#);
    assert_eq!(
        client.until(completed).pop().unwrap()["params"]["turn"]["error"]["message"],
        "no more"
    );
}
