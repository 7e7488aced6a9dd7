//! One Executor: one process, one thread, one Turn at a time (TRN-001).

use sdk::HarnessSession;
use sdk::common::{Effect, Failure};
use sdk::harness_io::{
    AddMessage, CancelTurn, Command, Input, LaunchFailure, LineDefect, Output, ProcessEnd,
    StartTurn,
};
use sdk::json::{string, string_at};
use serde_json::Value;

use crate::check::Setup;
use crate::config;
use crate::launch::{self, PROCESS};
use crate::methods::{Notification, notification};
use crate::out::Out;
use crate::prepare::NAMES_LOOK;
use crate::questions;
use crate::rpc::{self, Call, Calls, Frame, RpcError};
use crate::run::Run;
use crate::settle::DRAIN_TIMER;
use crate::usage::Meter;

/// Number of the timer that bounds the wait for the end of a closed process.
const CLOSE_TIMER: u32 = 2;
/// Codex ends within 100 ms once its input is closed.
const CLOSE_MS: u32 = 3_000;

/// How far the process is.
pub enum State {
    /// Nothing happened yet.
    New,
    /// The launch was asked for.
    Launching,
    /// It answers, there is no thread yet.
    Preparing,
    /// The thread takes Turns.
    Ready(Box<Thread>),
    /// It runs and is of no use: `prepared` said no.
    Refused,
    /// It is gone.
    Gone,
}

/// The native session.
pub struct Thread {
    pub id: String,
    pub meter: Meter,
    pub run: Option<Run>,
}

/// One Executor.
pub struct Session {
    pub(crate) setup: Setup,
    pub(crate) calls: Calls,
    pub(crate) state: State,
    /// The thread that a resume asked for.
    pub(crate) expected: Option<String>,
    closing: Option<String>,
}

impl HarnessSession for Session {
    fn step(&mut self, inputs: Vec<Input>) -> Result<Vec<Output>, Failure> {
        let mut out = Out::default();
        for input in inputs {
            self.take(input, &mut out)?;
        }
        Ok(out.into_outputs())
    }
}

impl Session {
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            calls: Calls::default(),
            state: State::New,
            expected: None,
            closing: None,
        }
    }

    fn take(&mut self, input: Input, out: &mut Out) -> Result<(), Failure> {
        match input {
            Input::Command(command) => return self.on_command(command, out),
            Input::Line(line) if line.process == PROCESS => self.on_line(&line.text, out),
            Input::BadLine(bad) if bad.process == PROCESS => {
                let defect = match bad.defect {
                    LineDefect::TooLong => "too long",
                    LineDefect::NotText => "not UTF-8",
                };
                out.notice("bad_line", defect);
            }
            Input::Launched(PROCESS) => self.on_launched(out),
            Input::LaunchFailed(failure) if failure.process == PROCESS => {
                self.on_launch_failed(&failure, out);
            }
            Input::Ended(end) if end.process == PROCESS => self.on_ended(&end, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Looked(looked) if looked.look == NAMES_LOOK => {
                self.on_names(&looked.answer, out);
            }
            // No other process, look, raw output or tool endpoint was ever asked for.
            _ => {}
        }
        Ok(())
    }

    fn on_command(&mut self, command: Command, out: &mut Out) -> Result<(), Failure> {
        match command {
            Command::Prepare(_) => {
                if !matches!(self.state, State::New) {
                    return Err(Failure {
                        code: "prepared_twice".into(),
                        detail: String::new(),
                        effect: Effect::None,
                    });
                }
                out.push(Output::Launch(launch::plan(&self.setup)));
                self.state = State::Launching;
            }
            Command::StartTurn(start) => self.on_start(start, out),
            Command::AddMessage(add) => self.on_add(add, out),
            Command::CancelTurn(cancel) => self.on_cancel(cancel, out),
            Command::FunctionResult(result) => out.rejected(result.id, "unsupported"),
            Command::Close(id) => self.on_close(id, out),
            Command::Other(extra) => {
                let content: Value = serde_json::from_str(&extra.json).unwrap_or(Value::Null);
                if let Some(id) = string(&content, "id") {
                    out.rejected(id.to_owned(), "unsupported");
                }
            }
        }
        Ok(())
    }

    fn on_start(&mut self, start: StartTurn, out: &mut Out) {
        let code = match &self.state {
            State::Ready(thread) if thread.run.is_some() => Some("busy"),
            State::Ready(_) if self.closing.is_none() => None,
            _ => Some("executor_unavailable"),
        };
        if let Some(code) = code {
            out.rejected(start.run, code);
            for message in start.messages {
                out.rejected(message.id, code);
            }
            return;
        }
        for entry in config::home(&self.setup) {
            out.push(Output::PutHome(entry));
        }
        let effort = self.setup.effort.as_deref();
        if let State::Ready(thread) = &mut self.state {
            thread.run = Run::start(start, &thread.id, effort, &mut self.calls, out);
        }
    }

    fn on_add(&mut self, add: AddMessage, out: &mut Out) {
        match self.run_of(&add.run) {
            Some((run, calls)) => run.add(add, calls, out),
            None => out.rejected(add.message.id, "not_running"),
        }
    }

    fn on_cancel(&mut self, cancel: CancelTurn, out: &mut Out) {
        match self.run_of(&cancel.run) {
            Some((run, calls)) => run.cancel(cancel.id, calls, out),
            None => out.rejected(cancel.id, "not_running"),
        }
    }

    fn on_close(&mut self, id: String, out: &mut Out) {
        if self.closing.is_some() {
            out.rejected(id, "closing");
            return;
        }
        match self.state {
            State::New | State::Gone => out.done(id),
            _ => {
                self.closing = Some(id);
                out.push(Output::CloseInput(PROCESS));
                out.set_timer(CLOSE_TIMER, CLOSE_MS);
            }
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Out) {
        match rpc::parse(line) {
            Some(Frame::Answer(id, answer)) => {
                if let Some(call) = self.calls.take(id) {
                    self.on_answer(call, answer, out);
                }
            }
            Some(Frame::Question { id, method, params }) => {
                questions::answer(&id, &method, &params, self.setup.permissions, out);
            }
            Some(Frame::Notification { method, params }) => {
                self.on_notification(&method, &params, out);
            }
            None => out.notice("unknown_frame", "no frame"),
        }
    }

    fn on_answer(&mut self, call: Call, answer: Result<Value, RpcError>, out: &mut Out) {
        if matches!(self.state, State::Preparing) {
            return self.on_preparing(call, answer, out);
        }
        let Some(run) = self.run() else {
            return;
        };
        let mut exists = true;
        match call {
            Call::TurnStart => exists = run.on_started(&answer, out),
            Call::Steer(id) => run.on_steered(&id, &answer, out),
            Call::CleanTerminals if answer.is_ok() => run.on_terminals_cleaned(),
            // A refused interrupt met a Turn that is over; its end comes or came by itself.
            _ => {}
        }
        if !exists {
            self.forget_run();
        }
        self.settle_if_over(out);
    }

    fn on_notification(&mut self, method: &str, params: &Value, out: &mut Out) {
        let Some(kind) = notification(method) else {
            return out.notice("unknown_frame", method);
        };
        match kind {
            Notification::Ignored => return,
            Notification::Warning => {
                let text = string(params, "message").or_else(|| string(params, "summary"));
                return out.notice("warning", text.unwrap_or(method));
            }
            _ => {}
        }
        let State::Ready(thread) = &mut self.state else {
            return;
        };
        // Other threads' events come on the same connection.
        let about = string(params, "threadId").or_else(|| string_at(params, &["thread", "id"]));
        if about != Some(thread.id.as_str()) {
            return;
        }
        match (&mut thread.run, kind) {
            (Some(run), kind) => {
                run.on_notification(kind, params, &mut self.calls, &mut thread.meter, out);
            }
            (None, Notification::ThreadGone) => out.retire("thread_gone"),
            (None, Notification::Usage) => {
                let _ = thread.meter.advance(params);
            }
            // Late, of a Turn that has settled.
            (None, _) => {}
        }
        self.settle_if_over(out);
    }

    fn on_timer(&mut self, timer: u32, out: &mut Out) {
        match timer {
            DRAIN_TIMER => {
                if let Some(run) = self.run() {
                    run.on_drain_timer();
                }
                self.settle_if_over(out);
            }
            CLOSE_TIMER if self.closing.is_some() => out.push(Output::Stop(PROCESS)),
            _ => {}
        }
    }

    fn on_launch_failed(&mut self, failure: &LaunchFailure, out: &mut Out) {
        let code = match failure.code.as_str() {
            "program_missing" => "program_missing",
            _ => "program_failed",
        };
        if let State::Launching = self.state {
            out.unprepared(code, &failure.code, Effect::None);
        }
        self.gone(out);
    }

    fn on_ended(&mut self, end: &ProcessEnd, out: &mut Out) {
        let detail = match (end.exit_code, end.signal) {
            (Some(code), _) => format!("the process exited with {code}"),
            (None, Some(signal)) => format!("the process was ended by signal {signal}"),
            (None, None) => "the process ended".to_owned(),
        };
        match &mut self.state {
            // A thread without a Turn leaves nothing behind; a clean end is needed to know that nothing else did.
            State::Launching | State::Preparing => {
                let effect = if end.clean {
                    Effect::None
                } else {
                    Effect::Unknown
                };
                out.unprepared("program_failed", &detail, effect);
            }
            State::Ready(thread) => match &mut thread.run {
                Some(run) => run.on_process_end(end.clean, &detail, out),
                None if self.closing.is_none() => out.retire("process_ended"),
                None => {}
            },
            State::New | State::Refused | State::Gone => {}
        }
        self.gone(out);
    }

    fn gone(&mut self, out: &mut Out) {
        self.state = State::Gone;
        if let Some(id) = self.closing.take() {
            out.clear_timer(CLOSE_TIMER);
            out.done(id);
        }
    }

    fn settle_if_over(&mut self, out: &mut Out) {
        if self.run().is_some_and(|run| run.settle_if_over(out)) {
            self.forget_run();
        }
    }

    fn run(&mut self) -> Option<&mut Run> {
        match &mut self.state {
            State::Ready(thread) => thread.run.as_mut(),
            _ => None,
        }
    }

    fn run_of(&mut self, id: &str) -> Option<(&mut Run, &mut Calls)> {
        let State::Ready(thread) = &mut self.state else {
            return None;
        };
        let run = thread.run.as_mut().filter(|run| run.id == id)?;
        Some((run, &mut self.calls))
    }

    fn forget_run(&mut self) {
        if let State::Ready(thread) = &mut self.state {
            thread.run = None;
        }
    }
}
