//! The Runtime's end of the link as a machine without a socket. One value lives as long as the daemon process: sockets come
//! and go, while the fences, the remembered receipts and the Runs stay (RP-2, RP-6.2).
//!
//! It greets, keeps the heartbeat, refuses what is stale, repeated or out of place, and hands the rest to the daemon as
//! [`Work`]. It starts no process and touches no file; each piece of work is answered by a [`Command`].

mod admissions;
mod bindings;
mod incoming;
mod interface;
mod link;
mod memory;
mod requests;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use domain::run::HarnessOffer;

use crate::moment::Moment;
use crate::wire::{
    Active, Chunk, CloseReason, CoreFrame, Goodbye, Held, Hello, Message, RuntimeFrame,
    Undecodable, limits,
};
use admissions::Admissions;
use bindings::Bindings;
use incoming::Transfers;
pub use interface::{Command, Identity, Notice, Output, Work};
use link::Link;
use memory::Memory;
use runs::Runs;

/// The Runtime's end.
#[derive(Debug)]
pub struct RuntimeEnd {
    identity: Identity,
    offers: Vec<HarnessOffer>,
    active: Active,
    owner_epoch: u64,
    link: Link,
    last_heard: Moment,
    /// Offers that Core heard last on this connection; heartbeats may only narrow them.
    declared: Vec<HarnessOffer>,
    bindings: Bindings,
    memory: Memory,
    admissions: Admissions,
    runs: Runs,
    transfers: Transfers,
    outputs: VecDeque<Output>,
}

impl RuntimeEnd {
    /// A daemon that was never connected.
    pub fn new(identity: Identity, offers: Vec<HarnessOffer>) -> Self {
        Self {
            bindings: Bindings::new(identity.dedicated),
            identity,
            declared: Vec::new(),
            offers,
            active: Active::default(),
            owner_epoch: 0,
            link: Link::Down,
            last_heard: Moment(0),
            memory: Memory::default(),
            admissions: Admissions::default(),
            runs: Runs::default(),
            transfers: Transfers::default(),
            outputs: VecDeque::new(),
        }
    }

    /// The next output; none when there is nothing to do until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`RuntimeEnd::tick`] must be called at the latest.
    pub fn next_timer(&self) -> Option<Moment> {
        let link = match &self.link {
            Link::Down => return None,
            Link::Greeting(until) => *until,
            Link::Up(up) => up
                .next_heartbeat
                .min(self.last_heard.after(up.idle_close_ms)),
        };
        let others = [
            self.admissions.next_expiry(),
            self.transfers.next_deadline(),
        ];
        Some(others.into_iter().flatten().fold(link, Moment::min))
    }

    /// `welcome` has come.
    pub fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// A socket is open: greets.
    pub fn connect(&mut self, now: Moment) {
        self.down();
        self.last_heard = now;
        self.link = Link::Greeting(now.after(limits::GREETING_MS as u64));
        self.hello();
    }

    /// Declares who this is and all that is offered.
    fn hello(&mut self) {
        self.declared.clone_from(&self.offers);
        let Identity {
            build,
            installation_id,
            device_id,
            instance_id,
            dedicated: _,
            os,
            arch,
            features,
            capacity,
            workspace,
        } = self.identity.clone();
        let hello = Hello {
            wire: limits::WIRE_VERSION,
            build,
            installation_id,
            device_id,
            instance_id,
            os,
            arch,
            features,
            capacity,
            workspace,
            harnesses: self.offers.clone(),
            held: Held {
                runs: self.runs.held(),
                quiesced: None,
            },
        };
        self.send(&RuntimeFrame::Hello(Box::new(hello)));
    }

    /// The socket is gone. Admissions and unfinished transfers end; Runs go on to their end or their cancel.
    pub fn disconnected(&mut self) {
        self.down();
    }

    /// Time passed.
    pub fn tick(&mut self, now: Moment) {
        match &mut self.link {
            Link::Down => return,
            Link::Greeting(until) if now >= *until => return self.close(CloseReason::IdleTimeout),
            Link::Greeting(_) => {}
            Link::Up(up) if now >= self.last_heard.after(up.idle_close_ms) => {
                return self.close(CloseReason::IdleTimeout);
            }
            Link::Up(up) if now >= up.next_heartbeat => {
                up.next_heartbeat = now.after(up.heartbeat_ms);
                self.beat();
            }
            Link::Up(_) => {}
        }
        self.expire_admissions(now);
        self.expire_transfers(now);
    }

    /// Something that the daemon did or saw.
    pub fn command(&mut self, now: Moment, command: Command) {
        match command {
            Command::Answer { id, answer } => self.answer(id, answer),
            Command::Prepared {
                prepare_id,
                executor_id,
            } => self.prepared(now, prepare_id, executor_id),
            Command::PrepareFailed {
                prepare_id,
                code,
                rejected,
            } => self.prepare_failed(prepare_id, code, rejected),
            Command::Started { run_id } => self.started(run_id),
            Command::NotStarted { run_id, code } => self.not_started(run_id, code),
            Command::Events(batch) => self.events(batch),
            Command::Settled { run_id, proof } => self.runs.settle(run_id, proof),
            Command::ExportEntry { binding, entry } => {
                self.send_if_up(&RuntimeFrame::ExportEntry(binding, entry))
            }
            Command::ExportChunk(chunk) if self.is_up() => {
                self.outputs
                    .push_back(Output::Send(Message::Binary(chunk.encode())));
            }
            Command::ExportChunk(_) => {}
            Command::ExportEntryEnd { binding, end } => {
                self.send_if_up(&RuntimeFrame::ExportEntryEnd(binding, end))
            }
            Command::Active(active) => self.active = active,
            Command::Offers(offers) => self.offer(offers),
            Command::Close(reason) => self.close(reason),
        }
    }

    /// A message arrived.
    pub fn receive(&mut self, now: Moment, message: &Message) {
        if matches!(self.link, Link::Down) {
            return;
        }
        self.last_heard = now;
        match message {
            Message::Binary(bytes) => match Chunk::decode(bytes) {
                Ok(chunk) if self.is_up() => self.chunk(chunk),
                Ok(_) | Err(_) => self.close(CloseReason::ProtocolViolation),
            },
            Message::Text(text) => match CoreFrame::decode(text) {
                Ok(frame) => self.frame(now, frame),
                Err(Undecodable::Violation(_)) => self.close(CloseReason::ProtocolViolation),
                Err(Undecodable::Fault(fault)) if self.is_up() => {
                    // `protocol_error` is never answered by `protocol_error`.
                    if fault.of.as_deref() != Some("protocol_error") {
                        self.send(&fault.answer());
                    }
                }
                Err(Undecodable::Fault(_)) => self.close(CloseReason::ProtocolViolation),
            },
        }
    }

    fn frame(&mut self, now: Moment, frame: CoreFrame) {
        match (&self.link, frame) {
            (Link::Greeting(_), CoreFrame::Welcome(welcome)) => self.welcome(now, *welcome),
            (
                _,
                CoreFrame::Goodbye(Goodbye {
                    reason,
                    retry_after_ms,
                }),
            ) => {
                self.notice(Notice::Goodbye {
                    reason,
                    retry_after_ms,
                });
            }
            (Link::Up(_), CoreFrame::HeartbeatAck(ack)) => self.owner(ack.owner_epoch),
            (Link::Up(_), CoreFrame::ProtocolError(error)) => self.notice(Notice::Refused(error)),
            (Link::Up(_), CoreFrame::Request(request)) => self.request(now, *request),
            (Link::Up(_), CoreFrame::RunAck(binding, ack)) => {
                if self.runs.acknowledge(&binding, ack.run_id, ack.seq) {
                    self.notice(Notice::Acknowledged {
                        run_id: ack.run_id,
                        seq: ack.seq,
                    });
                }
            }
            (Link::Up(_), CoreFrame::Credit(binding, credit)) => {
                if self.bindings.is_bound(&binding) {
                    self.notice(Notice::Credit {
                        session: binding.session,
                        stream: credit.stream,
                        bytes: credit.bytes,
                    });
                }
            }
            (Link::Up(_), CoreFrame::Transfer(binding, transfer)) => {
                self.transfer(now, binding, transfer)
            }
            // A second `welcome`, or anything before it.
            (_, _) => self.close(CloseReason::ProtocolViolation),
        }
    }

    fn close(&mut self, reason: CloseReason) {
        if matches!(self.link, Link::Down) {
            return;
        }
        self.outputs.push_back(Output::Close(reason));
        self.down();
    }

    fn down(&mut self) {
        if matches!(self.link, Link::Down) {
            return;
        }
        self.link = Link::Down;
        self.bindings.unbind_all();
        self.memory.disconnected();
        self.transfers.clear();
        self.end_admissions();
    }

    fn work(&mut self, work: Work) {
        self.notice(Notice::Work(work));
    }

    fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    fn send_if_up(&mut self, frame: &RuntimeFrame) {
        if self.is_up() {
            self.send(frame);
        }
    }

    /// Sends a frame that fits by construction; one that does not is a fault of ours and ends the connection.
    fn send(&mut self, frame: &RuntimeFrame) {
        match frame.encode() {
            Ok(text) => self.outputs.push_back(Output::Send(Message::Text(text))),
            Err(_) => self.close(CloseReason::ProtocolViolation),
        }
    }
}
