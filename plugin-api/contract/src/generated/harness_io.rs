//! What goes into and comes out of `step`.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::{ContentPart, Extra, Failure};
use super::harness_events::{Event, NativeFailure, NativeSession, TurnStatus};
use super::harness_launch::{HomeEntry, LaunchPlan, LookAnswer, LookQuery, Piece};

/// One user message; it stays one native message where the harness can (S-EV-7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct MessageIn {
    /// Input id; may serve as native message id.
    pub id: String,
    /// Parts.
    pub content: Vec<ContentPart>,
}

/// Begins a Turn; nothing was submitted before this (TRN-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct StartTurn {
    /// Run id. Receipt: `done` = a native Turn exists, `rejected` = certainly nothing was submitted.
    pub run: String,
    /// 1..64 messages, each with its own receipt.
    pub messages: Vec<MessageIn>,
}

/// One more message for the running Turn; the next one comes after its receipt (RP-12.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct AddMessage {
    /// The Turn.
    pub run: String,
    /// The message. Receipt `done` = the active native Turn accepted it; a write is not acceptance (RP-12.3).
    pub message: MessageIn,
}

/// The result of a function call (S-FN-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct FunctionResult {
    /// Delivery id. Receipt `done` = a live native completion with exactly this content was seen (S-FN-5).
    pub id: String,
    /// The Turn.
    pub run: String,
    /// Native call id.
    pub call: String,
    /// The caller's flag.
    pub success: bool,
    /// Output parts, then the error text as last part.
    pub content: Vec<ContentPart>,
}

/// Cancels exactly this Turn (TRN-004). If it is not settled in the declared time, the host stops the process and gives `ended` (F01).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct CancelTurn {
    /// Delivery id. Receipt `done` only after `settled` of the run; `rejected` = it was not running, nothing changed.
    pub id: String,
    /// The Turn.
    pub run: String,
}

/// What Core wants. Every id in it is a fresh UUID and gets exactly one receipt; `prepare` gets `prepared` instead (RP-6.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Command {
    /// First of all, once, with an id: look, launch, initialise, resume. Sends no model input. Answered by `prepared`.
    #[cfg_attr(feature = "component", component(name = "prepare"))]
    Prepare(String),
    /// A Turn.
    #[cfg_attr(feature = "component", component(name = "start-turn"))]
    StartTurn(StartTurn),
    /// Steering.
    #[cfg_attr(feature = "component", component(name = "add-message"))]
    AddMessage(AddMessage),
    /// A function's result.
    #[cfg_attr(feature = "component", component(name = "function-result"))]
    FunctionResult(FunctionResult),
    /// Cancel.
    #[cfg_attr(feature = "component", component(name = "cancel-turn"))]
    CancelTurn(CancelTurn),
    /// End the process in the native way, with an id. Receipt `done`; the host then ends what is left (TRN-010).
    #[cfg_attr(feature = "component", component(name = "close"))]
    Close(String),
    /// A later command; rejected with `unsupported` by one that does not know it.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// A line of a process's standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Line {
    /// Process number.
    pub process: u32,
    /// Without its LF.
    pub text: String,
}

/// Raw bytes of a process's standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Chunk {
    /// Process number.
    pub process: u32,
    /// Bytes.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

/// Why a line is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum LineDefect {
    /// Longer than the framing allows; the rest up to LF is skipped.
    #[cfg_attr(feature = "component", component(name = "too-long"))]
    TooLong,
    /// No UTF-8.
    #[cfg_attr(feature = "component", component(name = "not-text"))]
    NotText,
}

#[cfg(target_arch = "wasm32")]
impl LineDefect {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::TooLong,
            _ => Self::NotText,
        }
    }
}

/// A line that could not be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct BadLine {
    /// Process number.
    pub process: u32,
    /// Why.
    pub defect: LineDefect,
}

/// A start that did not work; certainly nothing runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct LaunchFailure {
    /// Process number.
    pub process: u32,
    /// `program_missing`, `spawn_failed`, `home_failed`, `skill_missing`, `fill_unknown`, `refused`.
    pub code: String,
}

/// A process that is gone; what it left behind has been killed too (TRN-010).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ProcessEnd {
    /// Process number.
    pub process: u32,
    /// Exit code, or none.
    #[cfg_attr(feature = "component", component(name = "exit-code"))]
    pub exit_code: Option<i32>,
    /// Signal, or none.
    pub signal: Option<i32>,
    /// Exit, end of output and an empty scope are all confirmed (RP-16.2); false = nothing about its effects is certain (RP-16.6).
    pub clean: bool,
}

/// The answer to `look`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Looked {
    /// Number of the question.
    pub look: u32,
    /// Answer.
    pub answer: LookAnswer,
}

/// A call at the host-served function endpoint, waiting for `answer-tool`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ToolCall {
    /// The host's number for it.
    pub call: u32,
    /// Declared function.
    pub name: String,
    /// JSON text, an object.
    pub arguments: String,
    /// Native call id from the request's `_meta`, if the harness sends one.
    #[cfg_attr(feature = "component", component(name = "native-call"))]
    pub native_call: Option<String>,
}

/// One input. The host hands over what is there, at most 16 lines or 256 KiB or one longer line, and never waits for more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Input {
    /// Core wants something.
    #[cfg_attr(feature = "component", component(name = "command"))]
    Command(Command),
    /// A line.
    #[cfg_attr(feature = "component", component(name = "line"))]
    Line(Line),
    /// Raw bytes.
    #[cfg_attr(feature = "component", component(name = "chunk"))]
    Chunk(Chunk),
    /// A missing line; never a reason to fail.
    #[cfg_attr(feature = "component", component(name = "bad-line"))]
    BadLine(BadLine),
    /// The process runs.
    #[cfg_attr(feature = "component", component(name = "launched"))]
    Launched(u32),
    /// It does not.
    #[cfg_attr(feature = "component", component(name = "launch-failed"))]
    LaunchFailed(LaunchFailure),
    /// It ended.
    #[cfg_attr(feature = "component", component(name = "ended"))]
    Ended(ProcessEnd),
    /// A timer of the adapter fired.
    #[cfg_attr(feature = "component", component(name = "timer"))]
    Timer(u32),
    /// A look was answered.
    #[cfg_attr(feature = "component", component(name = "looked"))]
    Looked(Looked),
    /// A function is called at the endpoint.
    #[cfg_attr(feature = "component", component(name = "tool-call"))]
    ToolCall(ToolCall),
    /// The answer to it left completely; a write, not an application (S-FN-5).
    #[cfg_attr(feature = "component", component(name = "tool-answered"))]
    ToolAnswered(u32),
    /// The caller of it hung up; an answer is dropped.
    #[cfg_attr(feature = "component", component(name = "tool-call-gone"))]
    ToolCallGone(u32),
    /// A later input; ignored by one that does not know it.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// Bytes for a process's standard input, in order; the host bounds each write to 10 s (RP-12.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Write {
    /// Process number.
    pub process: u32,
    /// The pieces are joined; the adapter puts the LF.
    pub content: Vec<Piece>,
    /// Ids of messages, results or cancels inside; the host itself tells Core `written` when the pipe took the last byte.
    pub carries: Vec<String>,
}

/// The adapter's answer to an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum ReceiptResult {
    /// Accepted, applied, settled: confirmed by the harness.
    #[cfg_attr(feature = "component", component(name = "done"))]
    Done,
    /// Certainly not submitted or not applied; a fixed code such as `unsupported_content`, `not_running`, `executor_unavailable`.
    #[cfg_attr(feature = "component", component(name = "rejected"))]
    Rejected(String),
    /// It cannot be told; never sent again (RP-12.4).
    #[cfg_attr(feature = "component", component(name = "unknown"))]
    Unknown(String),
}

/// One receipt; exactly one for each id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Receipt {
    /// Id of the command or message; the run id for `start-turn`.
    pub id: String,
    /// Result.
    pub outcome: ReceiptResult,
}

/// Whether the process may take another Turn (TRN-006).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Afterwards {
    /// Yes.
    #[cfg_attr(feature = "component", component(name = "reusable"))]
    Reusable,
    /// No: the host closes it and opens a new session with `resume`; a fixed code.
    #[cfg_attr(feature = "component", component(name = "retire"))]
    Retire(String),
}

/// The last word on a run: no output, event, input or child work of it is open (TRN-005). Later events of it are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Settlement {
    /// The run.
    pub run: String,
    /// How it ended; the host turns `completed` with an unaccepted message into a failure (RP-12.6).
    pub status: TurnStatus,
    /// Why it failed, if classified (RP-11.4, RP-11.5).
    pub failure: Option<NativeFailure>,
    /// The process.
    pub afterwards: Afterwards,
}

/// A timer; the same number again replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Timer {
    /// The adapter's number.
    pub timer: u32,
    /// 1..3 600 000 ms.
    #[cfg_attr(feature = "component", component(name = "after-ms"))]
    pub after_ms: u32,
}

/// A question about the private home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Look {
    /// The adapter's number.
    pub look: u32,
    /// Question.
    pub query: LookQuery,
}

/// The answer to a `tool-call`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ToolAnswer {
    /// The host's number.
    pub call: u32,
    /// Error flag of the MCP result is its opposite.
    pub success: bool,
    /// MCP content, pictures too.
    pub content: Vec<ContentPart>,
}

/// One output; the host performs them in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Output {
    /// Start a process.
    #[cfg_attr(feature = "component", component(name = "launch"))]
    Launch(LaunchPlan),
    /// Write to its standard input.
    #[cfg_attr(feature = "component", component(name = "write"))]
    Write(Write),
    /// Close its standard input.
    #[cfg_attr(feature = "component", component(name = "close-input"))]
    CloseInput(u32),
    /// End its whole tree: TERM, 3 s, KILL; then `ended` comes (TRN-010).
    #[cfg_attr(feature = "component", component(name = "stop"))]
    Stop(u32),
    /// Write into the private home now (CDX-002).
    #[cfg_attr(feature = "component", component(name = "put-home"))]
    PutHome(HomeEntry),
    /// Ask about the private home.
    #[cfg_attr(feature = "component", component(name = "look"))]
    Look(Look),
    /// Set a timer.
    #[cfg_attr(feature = "component", component(name = "set-timer"))]
    SetTimer(Timer),
    /// Forget a timer.
    #[cfg_attr(feature = "component", component(name = "clear-timer"))]
    ClearTimer(u32),
    /// Tell what happened.
    #[cfg_attr(feature = "component", component(name = "event"))]
    Event(Event),
    /// Answer an id.
    #[cfg_attr(feature = "component", component(name = "receipt"))]
    Receipt(Receipt),
    /// Ready for a Turn, or not: effect `none` = nothing native was made, codes of RP-10.12.
    #[cfg_attr(feature = "component", component(name = "prepared"))]
    Prepared(Result<NativeSession, Failure>),
    /// A run is over.
    #[cfg_attr(feature = "component", component(name = "settled"))]
    Settled(Settlement),
    /// Answer a call of the endpoint.
    #[cfg_attr(feature = "component", component(name = "answer-tool"))]
    AnswerTool(ToolAnswer),
    /// No further Turn on this process, said between Turns; a fixed code.
    #[cfg_attr(feature = "component", component(name = "retire"))]
    Retire(String),
    /// A later output; a host that does not know it logs it.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}
