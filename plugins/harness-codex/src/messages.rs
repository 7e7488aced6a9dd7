//! Messages for a running Turn, and its cancel.

use sdk::common::ContentPart;
use sdk::harness_io::AddMessage;
use sdk::json::string_at;
use serde_json::{Value, json};

use crate::out::Out;
use crate::rpc::{Call, Calls, RpcError};
use crate::run::{Native, Run};

/// One more message, until its receipt.
pub struct Steer {
    pub id: String,
    state: SteerState,
}

#[derive(PartialEq)]
enum SteerState {
    /// Not written yet: the Turn does not run.
    Waiting(Vec<Value>),
    /// `turn/steer` is written.
    Written,
    /// The server took it; the Turn has not yet.
    Taken,
}

/// A content part as Codex takes it; none if it cannot (RP-12.5).
pub fn input(part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text(text) => Some(json!({"type": "text", "text": text, "text_elements": []})),
        ContentPart::Image(_) | ContentPart::Other(_) => None,
    }
}

impl Run {
    /// Steers the Turn. It is accepted when the message is in the thread, not when it was written.
    pub fn add(&mut self, add: AddMessage, calls: &mut Calls, out: &mut Out) {
        let message = add.message;
        if matches!(self.native, Native::Ended { .. }) {
            out.rejected(message.id, "not_running");
            return;
        }
        let Some(parts) = message
            .content
            .iter()
            .map(input)
            .collect::<Option<Vec<_>>>()
        else {
            out.rejected(message.id, "unsupported_content");
            return;
        };
        self.steers.push(Steer {
            id: message.id,
            state: SteerState::Waiting(parts),
        });
        self.send_steers(calls, out);
    }

    /// Writes what waits, once the Turn runs.
    pub(crate) fn send_steers(&mut self, calls: &mut Calls, out: &mut Out) {
        let Native::Running(turn) = &self.native else {
            return;
        };
        for steer in &mut self.steers {
            let SteerState::Waiting(parts) = &mut steer.state else {
                continue;
            };
            let params = json!({
                "threadId": self.thread,
                "expectedTurnId": turn,
                "clientUserMessageId": steer.id,
                "input": std::mem::take(parts),
            });
            let line = calls.request(Call::Steer(steer.id.clone()), "turn/steer", params);
            steer.state = SteerState::Written;
            out.write_carrying(line, vec![steer.id.clone()]);
        }
    }

    /// The answer to `turn/steer`.
    pub fn on_steered(&mut self, id: &str, answer: &Result<Value, RpcError>, out: &mut Out) {
        let Some(position) = self.steers.iter().position(|steer| steer.id == id) else {
            return;
        };
        match answer {
            Ok(result) if string_at(result, &["turnId"]).is_some() => {
                self.steers[position].state = SteerState::Taken;
            }
            Ok(_) => out.unknown(self.steers.remove(position).id, "unclear_answer"),
            Err(error) => {
                out.notice_of(self.items.origin(), "warning", &error.message);
                out.rejected(self.steers.remove(position).id, "not_running");
            }
        }
    }

    /// Whether the server still owes an answer to a message.
    pub(crate) fn awaits_steers(&self) -> bool {
        self.steers
            .iter()
            .any(|steer| steer.state == SteerState::Written)
    }

    /// Receipts for messages that will not be accepted any more.
    pub(crate) fn give_up_messages(&mut self, code: &str, out: &mut Out) {
        for id in self.first.drain(..) {
            out.unknown(id, code);
        }
        for steer in self.steers.drain(..) {
            match steer.state {
                SteerState::Waiting(_) => out.rejected(steer.id, "not_running"),
                SteerState::Written | SteerState::Taken => out.unknown(steer.id, code),
            }
        }
    }

    /// Cancels this Turn (TRN-004). Its receipt comes after the settlement.
    pub fn cancel(&mut self, id: String, calls: &mut Calls, out: &mut Out) {
        if matches!(self.native, Native::Ended { .. }) {
            out.rejected(id, "not_running");
            return;
        }
        self.cancels.push(id);
        self.send_interrupt(calls, out);
    }

    /// Asks once, and only when the Turn runs: before `turn/started` Codex answers that there is nothing to interrupt
    /// and then runs the Turn to its end.
    pub(crate) fn send_interrupt(&mut self, calls: &mut Calls, out: &mut Out) {
        let (Native::Running(turn), Some(cancel), false) =
            (&self.native, self.cancels.first(), self.interrupted)
        else {
            return;
        };
        self.interrupted = true;
        let params = json!({"threadId": self.thread, "turnId": turn});
        let line = calls.request(Call::Interrupt, "turn/interrupt", params);
        out.write_carrying(line, vec![cancel.clone()]);
    }
}
