//! From the start of the process to a thread that can take a Turn. No model input is sent (TRN-002).
//!
//! `initialize` → (without Environment: no execution environment is there, CDX-005) → the configuration read back
//! (CDX-011) → `thread/start` and `thread/name/set`, or `thread/list` and `thread/resume`.
//!
//! A thread is not on disk before it has a Turn or a name. It gets a name, so that from the preparation on there is a history
//! which every later process resumes: whatever dies around a start, nobody has to know whether native work began (HIS-006).

use sdk::common::Effect;
use sdk::harness_events::NativeSession;
use sdk::harness_io::{Look, Output};
use sdk::harness_launch::{LookAnswer, LookQuery};
use sdk::harness_session::History;
use sdk::json::{list, string, string_at};
use serde_json::{Value, json};

use crate::check::Place;
use crate::config::PROVIDER;
use crate::out::Out;
use crate::recover::{Found, newest_named, only_root};
use crate::rpc::{self, Call, RpcError};
use crate::session::{Session, State, Thread};
use crate::usage::Meter;

/// What our threads are called. Nobody sees it.
const THREAD_NAME: &str = "berth";
/// Where Codex keeps the names of the private home: a line for each time that one was given.
const NAMES: &str = "session_index.jsonl";
/// Number of the look at them.
pub(crate) const NAMES_LOOK: u32 = 1;

/// Why a preparation ended without a thread.
struct Refusal {
    code: &'static str,
    detail: String,
    effect: Effect,
}

impl Refusal {
    fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            effect: Effect::None,
        }
    }
}

impl Session {
    /// The process runs.
    pub(crate) fn on_launched(&mut self, out: &mut Out) {
        if !matches!(self.state, State::Launching) {
            return;
        }
        self.state = State::Preparing;
        let params = json!({
            "clientInfo": {"name": "berth", "title": "Berth", "version": env!("CARGO_PKG_VERSION")},
            "capabilities": {"experimentalApi": true, "requestAttestation": false},
        });
        self.ask(Call::Initialize, "initialize", params, out);
    }

    /// An answer while preparing: the next question, the thread, or the refusal.
    pub(crate) fn on_preparing(
        &mut self,
        call: Call,
        answer: Result<Value, RpcError>,
        out: &mut Out,
    ) {
        if let Err(refusal) = self.next_step(call, answer, out) {
            out.unprepared(refusal.code, &refusal.detail, refusal.effect);
            self.state = State::Refused;
        }
    }

    fn next_step(
        &mut self,
        call: Call,
        answer: Result<Value, RpcError>,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        match call {
            Call::Initialize => {
                ok(answer)?;
                out.write(rpc::notification("initialized"));
                match self.setup.place {
                    Place::Absent => self.ask_environment("local", out),
                    Place::Here(_) => self.ask_config(out),
                }
            }
            Call::EnvironmentStatus(name) => {
                let answer = ok(answer)?;
                if string(&answer, "status") != Some("unknown") {
                    return Err(Refusal::new(
                        "program_failed",
                        format!("environment {name} exists"),
                    ));
                }
                match name {
                    "local" => self.ask_environment("remote", out),
                    _ => self.ask_config(out),
                }
            }
            Call::ConfigRead => {
                check_config(&ok(answer)?)?;
                self.ask_thread(out);
            }
            Call::ThreadList => match only_root(&ok(answer)?, self.setup.cwd()) {
                Found::One(thread) => self.ask_resume(&thread, out),
                // One that took no message yet is not listed.
                Found::None => out.push(Output::Look(Look {
                    look: NAMES_LOOK,
                    query: LookQuery::Tail(NAMES.into()),
                })),
                Found::Foreign => {
                    return Err(Refusal::new("history_missing", "no fitting thread"));
                }
                Found::Several => return Err(Refusal::new("history_ambiguous", "several threads")),
            },
            Call::ThreadStart => {
                // A thread that takes no Turn is empty, so even a failed start left nothing that matters.
                let answer = ok(answer)?;
                let id = self.check_thread(&answer)?;
                let params = json!({"threadId": id, "name": THREAD_NAME});
                self.ask(Call::ThreadName(id), "thread/name/set", params, out);
            }
            Call::ThreadName(id) => {
                ok(answer)?;
                self.ready(id, Meter::fresh(), out);
            }
            Call::ThreadResume => {
                let answer = answer.map_err(|error| resume_refusal(&error))?;
                let id = self.check_thread(&answer)?;
                self.ready(id, Meter::default(), out);
            }
            Call::TurnStart | Call::Steer(_) | Call::Interrupt | Call::CleanTerminals => {}
        }
        Ok(())
    }

    fn ask_environment(&mut self, name: &'static str, out: &mut Out) {
        let params = json!({"environmentId": name});
        self.ask(
            Call::EnvironmentStatus(name),
            "environment/status",
            params,
            out,
        );
    }

    fn ask_config(&mut self, out: &mut Out) {
        let params = json!({"includeLayers": false, "cwd": self.setup.cwd()});
        self.ask(Call::ConfigRead, "config/read", params, out);
    }

    fn ask_thread(&mut self, out: &mut Out) {
        match self.setup.history.clone() {
            History::Fresh => {
                let mut params = self.thread_params();
                if let Some(instructions) = &self.setup.instructions {
                    params["developerInstructions"] = json!(instructions);
                }
                self.ask(Call::ThreadStart, "thread/start", params, out);
            }
            History::Resume(thread) => self.ask_resume(&thread, out),
            History::Recover => {
                let params = json!({
                    "archived": false, "limit": 100, "modelProviders": [], "sourceKinds": [],
                });
                self.ask(Call::ThreadList, "thread/list", params, out);
            }
        }
    }

    fn ask_resume(&mut self, thread: &str, out: &mut Out) {
        let mut params = self.thread_params();
        params["threadId"] = json!(thread);
        params["excludeTurns"] = json!(true);
        self.expected = Some(thread.to_owned());
        self.ask(Call::ThreadResume, "thread/resume", params, out);
    }

    fn thread_params(&self) -> Value {
        json!({
            "cwd": self.setup.cwd(),
            "model": self.setup.model.id,
            "modelProvider": PROVIDER,
            "approvalPolicy": "never",
            "sandbox": "danger-full-access",
        })
    }

    /// The thread is the one we asked for and runs as we said, or it is not used.
    fn check_thread(&self, answer: &Value) -> Result<String, Refusal> {
        let id = string_at(answer, &["thread", "id"])
            .ok_or_else(|| Refusal::new("program_failed", "a thread without id"))?;
        let absent = matches!(self.setup.place, Place::Absent);
        let facts = [
            (
                self.expected
                    .as_deref()
                    .is_none_or(|expected| expected == id),
                "another thread",
            ),
            (
                string(answer, "modelProvider") == Some(PROVIDER),
                "another model provider",
            ),
            (
                string(answer, "model") == Some(&self.setup.model.id),
                "another model",
            ),
            (
                string(answer, "cwd") == Some(self.setup.cwd()),
                "another directory",
            ),
            (
                !absent || list(&answer["thread"], "environments").is_empty(),
                "an environment",
            ),
        ];
        match facts.iter().find(|(as_said, _)| !as_said) {
            Some((_, what)) => Err(Refusal::new(
                "program_failed",
                format!("the thread has {what}"),
            )),
            None => Ok(id.to_owned()),
        }
    }

    /// The names of the private home were read: those of threads that took no message yet.
    pub(crate) fn on_names(&mut self, answer: &LookAnswer, out: &mut Out) {
        if !matches!(self.state, State::Preparing) {
            return;
        }
        let names = match answer {
            LookAnswer::Content(names) => names.as_slice(),
            _ => &[],
        };
        match newest_named(names, THREAD_NAME) {
            Some(thread) => self.ask_resume(&thread, out),
            None => {
                out.unprepared("history_missing", "no fitting thread", Effect::None);
                self.state = State::Refused;
            }
        }
    }

    fn ready(&mut self, id: String, meter: Meter, out: &mut Out) {
        out.prepared(NativeSession {
            id: id.clone(),
            durable: true,
        });
        self.state = State::Ready(Box::new(Thread {
            id,
            meter,
            run: None,
        }));
    }

    fn ask(&mut self, call: Call, method: &str, params: Value, out: &mut Out) {
        let line = self.calls.request(call, method, params);
        out.write(line);
    }
}

fn ok(answer: Result<Value, RpcError>) -> Result<Value, Refusal> {
    answer.map_err(|error| Refusal::new("program_failed", error.message))
}

/// The effective configuration is ours, whatever the machine's own for all of its users says: no MCP server that nobody
/// declared, no other provider, no code mode (CDX-007, CDX-011).
fn check_config(answer: &Value) -> Result<(), Refusal> {
    let (config, origins) = (&answer["config"], &answer["origins"]);
    // The relay's address is filled in by the host, so it is known by where it comes from: the file that we wrote.
    let address = format!("model_providers.{PROVIDER}.base_url");
    let written = string_at(&origins[&address], &["name", "type"]) == Some("user");
    let off = |feature| {
        matches!(
            config["features"][feature],
            Value::Null | Value::Bool(false)
        )
    };
    let code_modes = ["code_mode", "code_mode_only", "code_mode_prewarm"];
    let servers = config["mcp_servers"]
        .as_object()
        .is_some_and(|servers| !servers.is_empty());
    let facts = [
        (!servers, "an MCP server that was not declared"),
        (
            string(config, "model_provider") == Some(PROVIDER),
            "another model provider",
        ),
        (
            string(config, "approval_policy") == Some("never"),
            "another approval policy",
        ),
        (written, "another address of the model provider"),
        (
            string(config, "sandbox_mode") == Some("danger-full-access"),
            "another sandbox mode",
        ),
        (code_modes.into_iter().all(off), "code mode"),
        (
            string(config, "web_search") == Some("disabled"),
            "web search",
        ),
    ];
    match facts.iter().find(|(as_written, _)| !as_written) {
        Some((_, what)) => Err(Refusal::new(
            "program_failed",
            format!("the effective configuration has {what}"),
        )),
        None => Ok(()),
    }
}

/// Codex has one error code for everything; its two sentences about history are the only distinction it makes.
fn resume_refusal(error: &RpcError) -> Refusal {
    let code = if error.message.contains("no rollout found") {
        "history_missing"
    } else if error.message.contains("active writer") {
        "history_in_use"
    } else {
        "program_failed"
    };
    Refusal::new(code, error.message.clone())
}
