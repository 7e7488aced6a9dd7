//! The outputs of one step, in order.

use sdk::common::{Effect, Failure};
use sdk::harness_events::{Event, EventBody, NativeSession, Notice, Origin};
use sdk::harness_io::{Output, Receipt, ReceiptResult, Settlement, Timer, Write};
use sdk::harness_launch::Piece;
use sdk::json::bounded;

use crate::launch::PROCESS;

/// Longest detail of a notice or failure in bytes.
const DETAIL: usize = 1024;

#[derive(Default)]
pub struct Out(Vec<Output>);

impl Out {
    pub fn into_outputs(self) -> Vec<Output> {
        self.0
    }

    pub fn push(&mut self, output: Output) {
        self.0.push(output);
    }

    pub fn write(&mut self, line: String) {
        self.write_carrying(line, Vec::new());
    }

    /// Writes a line that carries inputs of Core's.
    pub fn write_carrying(&mut self, line: String, carries: Vec<String>) {
        self.push(Output::Write(Write {
            process: PROCESS,
            content: vec![Piece::Text(line)],
            carries,
        }));
    }

    pub fn done(&mut self, id: String) {
        self.receipt(id, ReceiptResult::Done);
    }

    pub fn rejected(&mut self, id: String, code: &str) {
        self.receipt(id, ReceiptResult::Rejected(code.into()));
    }

    pub fn unknown(&mut self, id: String, code: &str) {
        self.receipt(id, ReceiptResult::Unknown(code.into()));
    }

    fn receipt(&mut self, id: String, outcome: ReceiptResult) {
        self.push(Output::Receipt(Receipt { id, outcome }));
    }

    pub fn event(&mut self, origin: Origin, body: EventBody) {
        self.push(Output::Event(Event { origin, body }));
    }

    /// Something for the log that belongs to no Turn.
    pub fn notice(&mut self, code: &str, detail: &str) {
        self.notice_of(Origin::Session, code, detail);
    }

    pub fn notice_of(&mut self, origin: Origin, code: &str, detail: &str) {
        self.event(
            origin,
            EventBody::Notice(Notice {
                code: code.into(),
                detail: bounded(detail, DETAIL).into(),
            }),
        );
    }

    pub fn prepared(&mut self, session: NativeSession) {
        self.push(Output::Prepared(Ok(session)));
    }

    pub fn unprepared(&mut self, code: &str, detail: &str, effect: Effect) {
        self.push(Output::Prepared(Err(Failure {
            code: code.into(),
            detail: bounded(detail, DETAIL).into(),
            effect,
        })));
    }

    pub fn settled(&mut self, settlement: Settlement) {
        self.push(Output::Settled(settlement));
    }

    pub fn set_timer(&mut self, timer: u32, after_ms: u32) {
        self.push(Output::SetTimer(Timer { timer, after_ms }));
    }

    pub fn clear_timer(&mut self, timer: u32) {
        self.push(Output::ClearTimer(timer));
    }

    pub fn retire(&mut self, code: &str) {
        self.push(Output::Retire(code.into()));
    }
}
