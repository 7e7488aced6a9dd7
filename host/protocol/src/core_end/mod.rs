//! Core's end of one connection as a machine without a socket: messages, commands and the time go in; messages, notices and a
//! close come out. One value lives as long as one socket, so nothing of an older connection can reach a newer one (RP-3.7).
//!
//! It greets, keeps the heartbeat, writes requests and matches their receipts, orders the events of Runs, and decides when
//! the peer broke the protocol. It never decides what a Session does: that is the scheduler's, which sees only notices.

mod admissions;
mod export;
mod interface;
mod requests;
mod runs;

use std::collections::{HashMap, VecDeque};

use domain::run::{Binding, HarnessOffer};
use domain::{FrameId, InstanceId, PrepareId};

use crate::moment::Moment;
use crate::wire::{
    Answer, Chunk, CloseReason, CoreFrame, Fault, FaultCode, Goodbye, HELLO_AGAIN, Heartbeat,
    HeartbeatAck, Hello, Message, ProtocolError, RequestType, RunAck, RuntimeFrame, Undecodable,
    Welcome, both_list, limits,
};
pub use interface::{Command, CoreSettings, NotSent, Notice, Output, RunBreak, Settled};
use requests::Requests;
use runs::Runs;

#[derive(Debug)]
enum State {
    /// Waiting for `hello`, until.
    Greeting(Moment),
    /// `hello` is being registered, until.
    Registering(Moment),
    /// Working.
    Open,
    /// Over.
    Closed,
}

/// Core's end of one connection.
#[derive(Debug)]
pub struct CoreEnd {
    settings: CoreSettings,
    state: State,
    /// The process that greeted, if it may do so again.
    greets_again: Option<InstanceId>,
    offers: Vec<HarnessOffer>,
    last_heard: Moment,
    last_heartbeat: u64,
    bound: HashMap<domain::BindingId, Binding>,
    requests: Requests,
    runs: Runs,
    exports: export::Exports,
    admissions: admissions::Admissions,
    outputs: VecDeque<Output>,
}

impl CoreEnd {
    /// A socket was accepted and authenticated.
    pub fn new(settings: CoreSettings, now: Moment) -> Self {
        let runs = Runs::new(settings.limits.unacked_events);
        Self {
            state: State::Greeting(now.after(limits::GREETING_MS as u64)),
            settings,
            greets_again: None,
            offers: Vec::new(),
            last_heard: now,
            last_heartbeat: 0,
            bound: HashMap::new(),
            requests: Requests::default(),
            runs,
            exports: export::Exports::default(),
            admissions: admissions::Admissions::default(),
            outputs: VecDeque::new(),
        }
    }

    /// The next output; none when there is nothing to do until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`CoreEnd::tick`] must be called at the latest.
    pub fn next_timer(&self) -> Option<Moment> {
        match self.state {
            State::Greeting(until) | State::Registering(until) => Some(until),
            State::Open => {
                let idle = self.last_heard.after(self.settings.idle_close_ms);
                Some(
                    self.requests
                        .next_deadline()
                        .map_or(idle, |deadline| deadline.min(idle)),
                )
            }
            State::Closed => None,
        }
    }

    /// The connection takes requests.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Time passed.
    pub fn tick(&mut self, now: Moment) {
        match self.state {
            State::Greeting(until) | State::Registering(until) if now >= until => {
                self.close(CloseReason::IdleTimeout, None)
            }
            State::Open if now >= self.last_heard.after(self.settings.idle_close_ms) => {
                self.close(CloseReason::IdleTimeout, None);
            }
            State::Open => {
                while let Some((id, of)) = self.requests.expire(now) {
                    self.settle(id, of, Settled::TimedOut);
                }
                self.pump_queue(now);
            }
            State::Greeting(_) | State::Registering(_) | State::Closed => {}
        }
    }

    /// The socket is gone, with or without a close frame. Everything unanswered is unknown, everything unsent is not.
    pub fn disconnected(&mut self) {
        self.end();
    }

    /// A command of Core.
    pub fn command(&mut self, now: Moment, command: Command) {
        match command {
            Command::Welcome => self.welcome(now),
            Command::Request { request, body } => self.request(now, *request, body),
            Command::Acknowledge { run_id, seq } => {
                if let Some(binding) = self.runs.acknowledge(run_id, seq) {
                    self.send(&CoreFrame::RunAck(binding, RunAck { run_id, seq }));
                }
            }
            Command::Credit {
                binding,
                stream,
                bytes,
            } => self.credit(now, binding, stream, bytes),
            Command::Forget { id } => {
                self.requests.forget(id);
                self.exports.close(id);
                self.pump_queue(now);
            }
            Command::ForgetRun { run_id } => self.runs.forget(run_id),
            Command::Close {
                reason,
                retry_after_ms,
            } => self.close(reason, retry_after_ms),
        }
    }

    /// A message arrived.
    pub fn receive(&mut self, now: Moment, message: &Message) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.last_heard = now;
        match message {
            Message::Binary(bytes) => match Chunk::decode(bytes) {
                Ok(chunk) if self.is_open() => self.export_chunk(now, chunk),
                Ok(_) | Err(_) => self.close(CloseReason::ProtocolViolation, None),
            },
            Message::Text(text) => match RuntimeFrame::decode(text) {
                Ok(frame) => self.frame(now, frame),
                Err(Undecodable::Violation(_)) => self.close(CloseReason::ProtocolViolation, None),
                Err(Undecodable::Fault(fault)) => self.fault(fault),
            },
        }
    }

    fn fault(&mut self, fault: Box<Fault>) {
        // A declaration that cannot be read clears what is known of the peer (RP-3.13); before `hello` nothing else may come.
        let declares = matches!(fault.of.as_deref(), Some("hello" | "heartbeat"));
        if declares || !self.is_open() {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        let report = fault.report();
        self.notice(Notice::Faulty(fault));
        // `protocol_error` is never answered by `protocol_error`.
        if report.of.as_deref() != Some("protocol_error") {
            self.send(&CoreFrame::ProtocolError(report));
        }
    }

    fn frame(&mut self, now: Moment, frame: RuntimeFrame) {
        match (&self.state, frame) {
            (State::Greeting(_), RuntimeFrame::Hello(hello)) => self.hello(now, hello),
            (State::Greeting(_) | State::Registering(_), RuntimeFrame::Goodbye(goodbye)) => {
                self.notice(Notice::Goodbye(goodbye.reason));
            }
            (State::Open, RuntimeFrame::Heartbeat(heartbeat)) => self.heartbeat(heartbeat),
            (State::Open, RuntimeFrame::Hello(hello)) => self.hello_again(*hello),
            (State::Open, RuntimeFrame::Goodbye(goodbye)) => {
                self.notice(Notice::Goodbye(goodbye.reason))
            }
            (State::Open, RuntimeFrame::ProtocolError(error)) => self.refused(now, &error),
            (State::Open, RuntimeFrame::Receipt(receipt)) => self.receipt(now, *receipt),
            (State::Open, RuntimeFrame::PrepareStatus(binding, status)) => {
                self.prepare_status(now, binding, status)
            }
            (State::Open, RuntimeFrame::RunEvents(binding, batch)) => {
                self.run_events(now, binding, batch)
            }
            (State::Open, RuntimeFrame::ExportEntry(binding, entry)) => {
                self.export_entry(now, binding, entry)
            }
            (State::Open, RuntimeFrame::ExportEntryEnd(binding, end)) => {
                self.export_entry_end(now, binding, end)
            }
            (State::Closed, _) => {}
            // Anything before the greeting is over.
            (_, _) => self.close(CloseReason::ProtocolViolation, None),
        }
    }

    fn hello(&mut self, now: Moment, hello: Box<Hello>) {
        if hello.wire != limits::WIRE_VERSION
            || hello.installation_id != self.settings.installation_id
        {
            return self.close(CloseReason::IncompatibleVersion, None);
        }
        if hello.device_id != self.settings.device_id {
            return self.close(CloseReason::Unauthorized, None);
        }
        if !unique(&hello.harnesses) {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        let again = both_list(HELLO_AGAIN, &self.settings.features, &hello.features);
        self.greets_again = again.then_some(hello.instance_id);
        self.offers = hello.harnesses.clone();
        self.state = State::Registering(now.after(limits::GREETING_MS as u64));
        self.notice(Notice::Hello(hello));
    }

    /// The same process offers more. Everything that goes on here goes on.
    fn hello_again(&mut self, hello: Hello) {
        if self.greets_again != Some(hello.instance_id) || !unique(&hello.harnesses) {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        self.offers.clone_from(&hello.harnesses);
        self.notice(Notice::Offers(hello.harnesses));
    }

    fn welcome(&mut self, now: Moment) {
        if !matches!(self.state, State::Registering(_)) {
            return;
        }
        self.state = State::Open;
        self.last_heard = now;
        let welcome = Welcome {
            connection_id: self.settings.connection_id,
            owner_epoch: self.settings.owner_epoch,
            heartbeat_ms: self.settings.heartbeat_ms,
            idle_close_ms: self.settings.idle_close_ms,
            features: self.settings.features.clone(),
            limits: self.settings.limits,
            resume: Vec::new(),
        };
        self.send(&CoreFrame::Welcome(Box::new(welcome)));
    }

    fn heartbeat(&mut self, heartbeat: Heartbeat) {
        let Heartbeat {
            n,
            owner_epoch,
            active,
            harnesses,
        } = heartbeat;
        if owner_epoch > self.settings.owner_epoch {
            return self.close(CloseReason::StaleOwner, None);
        }
        let narrowed = harnesses
            .as_ref()
            .is_none_or(|later| narrows(&self.offers, later));
        if n <= self.last_heartbeat || !narrowed {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        self.last_heartbeat = n;
        if let Some(later) = &harnesses {
            self.offers.clone_from(later);
        }
        self.send(&CoreFrame::HeartbeatAck(HeartbeatAck {
            n,
            owner_epoch: self.settings.owner_epoch,
        }));
        self.notice(Notice::Heartbeat {
            active,
            offers: harnesses,
        });
    }

    /// The Runtime could not use a frame of ours, so it did nothing with it (RP-4.5).
    fn refused(&mut self, now: Moment, error: &ProtocolError) {
        if let Some((id, of)) = error.re.and_then(|id| self.requests.take(id)) {
            let code = match error.code {
                FaultCode::UnknownType => domain::run::RefusalCode::Unsupported,
                _ => domain::run::RefusalCode::InvalidBody,
            };
            self.settle(id, of, Settled::Receipt(Answer::Rejected(code.into())));
            self.pump_queue(now);
        }
    }

    fn close(&mut self, reason: CloseReason, retry_after_ms: Option<u64>) {
        if matches!(self.state, State::Closed) {
            return;
        }
        if self.is_open() && retry_after_ms.is_some() {
            self.send(&CoreFrame::Goodbye(Goodbye {
                reason,
                retry_after_ms,
            }));
        }
        self.outputs.push_back(Output::Close(reason));
        self.end();
    }

    fn end(&mut self) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.state = State::Closed;
        for (id, of, settled) in self.requests.drain() {
            self.settle(id, of, settled);
        }
        for run_id in self.runs.drain() {
            self.notice(Notice::RunBroken {
                run_id,
                why: RunBreak::Lost,
            });
        }
    }

    /// Sends a frame that fits by construction; one that does not is a fault of ours and ends the connection.
    fn send(&mut self, frame: &CoreFrame) {
        match frame.encode() {
            Ok(text) => self.outputs.push_back(Output::Send(Message::Text(text))),
            Err(_) => self.close(CloseReason::ProtocolViolation, None),
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    fn settle(&mut self, id: FrameId, of: RequestType, settled: Settled) {
        self.exports.close(id);
        if of == RequestType::ExecutionPrepare {
            self.admissions.forget(PrepareId::new(id.uuid()));
        }
        self.notice(Notice::Settled { id, of, settled });
    }
}

fn unique(offers: &[HarnessOffer]) -> bool {
    let ids: std::collections::HashSet<_> = offers.iter().map(|offer| &offer.id).collect();
    ids.len() == offers.len()
}

/// Every later offer is an earlier one or less (CAP-006); one that is missing is withdrawn.
fn narrows(earlier: &[HarnessOffer], later: &[HarnessOffer]) -> bool {
    unique(later)
        && later
            .iter()
            .all(|offer| earlier.iter().any(|before| before.narrowed_by(offer)))
}
