//! One Turn: from `turn/start` to the point where the server calls it over. `messages` steers it, `settle` ends it.

use sdk::harness_events::{DeltaKind, EventBody, NativeFailure, NativeSession, TurnStatus};
use sdk::harness_io::StartTurn;
use sdk::json::{counter, string, string_at};
use serde_json::{Value, json};

use crate::failure::failure;
use crate::items::Ledger;
use crate::messages::{Steer, input};
use crate::methods::Notification;
use crate::out::Out;
use crate::rpc::{Call, Calls};
use crate::settle::{DRAIN_MS, DRAIN_TIMER, Drain};
use crate::usage::{Meter, TurnUsage};

/// How far the native Turn is.
pub enum Native {
    /// `turn/start` is written.
    Asked,
    /// It exists. An interrupt would still be refused and the Turn would go on.
    Known(String),
    /// It runs: it can be steered and interrupted.
    Running(String),
    /// The server says it is over.
    Ended {
        turn: String,
        status: TurnStatus,
        failure: Option<NativeFailure>,
    },
}

/// One run of Core's.
pub struct Run {
    pub id: String,
    pub(crate) thread: String,
    pub(crate) native: Native,
    /// The run id still waits for its receipt.
    pub(crate) unanswered: bool,
    /// Ids of the first messages that wait for their receipt. They are one native message, known by the first id.
    pub(crate) first: Vec<String>,
    pub(crate) steers: Vec<Steer>,
    /// Ids of cancels; their receipts come after the settlement.
    pub(crate) cancels: Vec<String>,
    pub(crate) interrupted: bool,
    pub(crate) items: Ledger,
    pub(crate) usage: TurnUsage,
    pub(crate) drain: Option<Drain>,
}

impl Run {
    /// Writes `turn/start`, or rejects the run and all its messages.
    pub fn start(
        start: StartTurn,
        thread: &str,
        effort: Option<&str>,
        calls: &mut Calls,
        out: &mut Out,
    ) -> Option<Self> {
        let ids: Vec<String> = start
            .messages
            .iter()
            .map(|message| message.id.clone())
            .collect();
        let parts: Option<Vec<Value>> = start
            .messages
            .iter()
            .flat_map(|message| &message.content)
            .map(input)
            .collect();
        let (Some(parts), Some(first)) = (parts, ids.first()) else {
            out.rejected(start.run, "unsupported_content");
            for id in ids {
                out.rejected(id, "unsupported_content");
            }
            return None;
        };
        let mut params = json!({"threadId": thread, "clientUserMessageId": first, "input": parts});
        if let Some(effort) = effort {
            params["effort"] = json!(effort);
        }
        let line = calls.request(Call::TurnStart, "turn/start", params);
        out.write_carrying(line, ids.clone());
        Some(Self {
            items: Ledger::new(&start.run),
            id: start.run,
            thread: thread.to_owned(),
            native: Native::Asked,
            unanswered: true,
            first: ids,
            steers: Vec::new(),
            cancels: Vec::new(),
            interrupted: false,
            usage: TurnUsage::default(),
            drain: None,
        })
    }

    /// The answer to `turn/start`. False: refused, the run never was.
    pub fn on_started(
        &mut self,
        answer: &Result<Value, crate::rpc::RpcError>,
        out: &mut Out,
    ) -> bool {
        match answer {
            Ok(result) => {
                if let Some(turn) = string_at(result, &["turn", "id"]) {
                    self.exists(turn, out);
                }
                true
            }
            Err(error) => {
                out.notice("warning", &error.message);
                out.rejected(std::mem::take(&mut self.id), "refused");
                for id in self.first.drain(..) {
                    out.rejected(id, "refused");
                }
                for steer in self.steers.drain(..) {
                    out.rejected(steer.id, "not_running");
                }
                for cancel in self.cancels.drain(..) {
                    out.rejected(cancel, "not_running");
                }
                false
            }
        }
    }

    /// A notification about a Turn of the root thread.
    pub fn on_notification(
        &mut self,
        kind: Notification,
        params: &Value,
        calls: &mut Calls,
        meter: &mut Meter,
        out: &mut Out,
    ) {
        if kind == Notification::TurnStarted {
            if let Some(turn) = string_at(params, &["turn", "id"]) {
                self.runs(turn, calls, out);
            }
            return;
        }
        if kind == Notification::TurnCompleted {
            if string_at(params, &["turn", "id"]).is_some_and(|turn| self.is(turn)) {
                self.ended(&params["turn"], calls, out);
            }
            return;
        }
        // Something late of a Turn before this one (TRN-011); it has settled, nothing may follow.
        if !string(params, "turnId").is_some_and(|turn| self.is(turn)) {
            if kind == Notification::Usage {
                let _ = meter.advance(params);
            }
            return;
        }
        match kind {
            Notification::ItemStarted => self.items.start(&params["item"], out),
            Notification::ItemCompleted => self.on_item_completed(&params["item"], out),
            Notification::MessageDelta => self.delta(params, DeltaKind::Text, 0, out),
            Notification::CommandDelta => self.delta(params, DeltaKind::Output, 0, out),
            Notification::SummaryDelta => {
                let index = counter(params, "summaryIndex").unwrap_or_default();
                self.delta(params, DeltaKind::Summary, index, out);
            }
            Notification::Usage => {
                if let Some(usage) = meter
                    .advance(params)
                    .and_then(|growth| self.usage.add(growth))
                {
                    out.event(self.items.origin(), EventBody::Usage(usage));
                }
            }
            Notification::Error => self.on_error(params, out),
            _ => {}
        }
    }

    fn delta(&mut self, params: &Value, kind: DeltaKind, index: u32, out: &mut Out) {
        if let (Some(item), Some(text)) = (string(params, "itemId"), string(params, "delta")) {
            self.items.delta(item, kind, index, text, out);
        }
    }

    fn on_item_completed(&mut self, item: &Value, out: &mut Out) {
        if string(item, "type") == Some("userMessage") {
            if let Some(id) = string(item, "clientId") {
                self.confirm(id, out);
            }
            return;
        }
        self.items.end(item, self.drain.is_some(), out);
    }

    /// The user message with this id is in the thread: it was accepted (RP-12.3).
    fn confirm(&mut self, id: &str, out: &mut Out) {
        if self.first.first().is_some_and(|first| first == id) {
            // A thread is on disk from its first message on. It is told in every Turn: what an earlier one told may never have
            // reached Core.
            let session = NativeSession {
                id: self.thread.clone(),
                durable: true,
            };
            out.event(self.items.origin(), EventBody::NativeSession(session));
            for id in self.first.drain(..) {
                out.done(id);
            }
        } else if let Some(position) = self.steers.iter().position(|steer| steer.id == id) {
            out.done(self.steers.remove(position).id);
        }
    }

    fn on_error(&mut self, params: &Value, out: &mut Out) {
        let detail = string_at(params, &["error", "message"]).unwrap_or_default();
        if params["willRetry"] == json!(true) {
            self.items.drop_partial_speech(out);
            out.notice_of(self.items.origin(), "retrying", detail);
        } else {
            out.notice_of(self.items.origin(), "warning", detail);
        }
    }

    /// There is a native Turn: the start was accepted.
    fn exists(&mut self, turn: &str, out: &mut Out) {
        if matches!(self.native, Native::Asked) {
            self.native = Native::Known(turn.to_owned());
        }
        if self.unanswered {
            self.unanswered = false;
            out.done(self.id.clone());
        }
    }

    fn runs(&mut self, turn: &str, calls: &mut Calls, out: &mut Out) {
        let expected = match &self.native {
            Native::Asked => true,
            Native::Known(known) => known == turn,
            Native::Running(_) | Native::Ended { .. } => false,
        };
        if !expected {
            return;
        }
        self.exists(turn, out);
        self.native = Native::Running(turn.to_owned());
        self.send_steers(calls, out);
        self.send_interrupt(calls, out);
    }

    fn is(&self, turn: &str) -> bool {
        match &self.native {
            Native::Asked => false,
            Native::Known(known) | Native::Running(known) | Native::Ended { turn: known, .. } => {
                known == turn
            }
        }
    }

    /// The server says the Turn is over. Commands may still run: they are cleared, and their ends awaited.
    fn ended(&mut self, turn: &Value, calls: &mut Calls, out: &mut Out) {
        if matches!(self.native, Native::Ended { .. }) {
            return;
        }
        let status = match string(turn, "status") {
            Some("completed") => TurnStatus::Completed,
            Some("failed") => TurnStatus::Failed,
            Some("interrupted") if !self.cancels.is_empty() => TurnStatus::Cancelled,
            Some("interrupted") => TurnStatus::Failed,
            _ => TurnStatus::Unknown,
        };
        self.native = Native::Ended {
            turn: string(turn, "id").unwrap_or_default().to_owned(),
            status,
            failure: (status == TurnStatus::Failed).then(|| failure(&turn["error"])),
        };
        self.items.close_all_but_commands(out);
        let terminals = self.items.has_open() || status == TurnStatus::Cancelled;
        if terminals {
            let params = json!({"threadId": self.thread});
            let line = calls.request(
                Call::CleanTerminals,
                "thread/backgroundTerminals/clean",
                params,
            );
            out.write(line);
        }
        if terminals || self.awaits_steers() {
            self.drain = Some(Drain::new(terminals));
            out.set_timer(DRAIN_TIMER, DRAIN_MS);
        }
    }
}
