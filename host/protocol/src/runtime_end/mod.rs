//! The Runtime's end of the link as a machine without a socket. One value lives as long as the daemon process: sockets come
//! and go, while the fences, the remembered receipts and the Runs stay (RP-2, RP-6.2).
//!
//! It greets, keeps the heartbeat, refuses what is stale, repeated or out of place, and hands the rest to the daemon as
//! [`Work`]. It starts no process and touches no file; each piece of work is answered by a [`Command`].

mod admissions;
mod bindings;
mod incoming;
mod memory;
mod runs;

use std::collections::VecDeque;

use domain::run::{
    Binding, ExecutionConfiguration, HarnessOffer, InputMessage, PrepareCode, PrepareState,
    PrepareStatus, RefusalCode,
};
use domain::{
    ConnectionId, DeviceId, EnvironmentId, ExecutorId, FrameId, InstallationId, InstanceId,
    PrepareId, RunId,
};

use crate::moment::Moment;
use crate::wire::{
    Active, Answer, Bind, Capacity, Chunk, CloseReason, CoreFrame, ExecutionStart, ExportEntry,
    ExportEntryEnd, FunctionResult, Goodbye, Heartbeat, Held, Hello, InitStep, Limits, Message,
    Operation, ProtocolError, Receipt, Request, RequestType, RunEvents, RuntimeFrame, Suspension,
    Undecodable, Welcome, WorkspaceExport, WorkspaceFacts, WorkspaceList, WorkspaceWrite, limits,
};
use admissions::Admissions;
use bindings::Bindings;
use incoming::Transfers;
use memory::Memory;
use runs::Runs;

/// What is fixed for one daemon process.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Build of the program.
    pub build: String,
    /// The installation it was bootstrapped for.
    pub installation_id: InstallationId,
    /// Its device.
    pub device_id: DeviceId,
    /// This process.
    pub instance_id: InstanceId,
    /// The only Environment that it serves; none = a shared Runtime (RP-8.2).
    pub dedicated: Option<EnvironmentId>,
    /// Operating system, for people.
    pub os: String,
    /// Architecture, for people.
    pub arch: String,
    /// Features offered (RP-3.5).
    pub features: Vec<String>,
    /// What it can hold.
    pub capacity: Capacity,
    /// Its workspace.
    pub workspace: WorkspaceFacts,
}

/// Something that Core asks the daemon to do. Each ends by exactly one answer: [`Command::Answer`] for `id`, or the command
/// that the variant names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Check harness and workspace (RP-8.3); `Ok(Bound)` binds.
    Bind {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What it claims.
        bind: Bind,
    },
    /// Close the Session's Executors, remove its native home if asked (RP-8.5). The authority is fenced already.
    Release {
        /// Request.
        id: FrameId,
        /// Authority that ended.
        binding: Binding,
        /// Remove the native home.
        remove_home: bool,
    },
    /// Carry out an initialization step; `body` is complete but its digest is still to be checked (RP-9.2).
    Initialize {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        step: InitStep,
        /// Time left in milliseconds.
        budget_ms: u64,
        /// The file of a step that has one.
        body: Option<Vec<u8>>,
    },
    /// Make an Executor ready: [`Command::Prepared`] or [`Command::PrepareFailed`].
    Prepare {
        /// Admission.
        prepare_id: PrepareId,
        /// Authority.
        binding: Binding,
        /// What to make it from.
        configuration: Box<ExecutionConfiguration>,
    },
    /// Start the Run on the reserved Executor: [`Command::Started`] or [`Command::NotStarted`].
    Start {
        /// Authority.
        binding: Binding,
        /// What.
        start: ExecutionStart,
    },
    /// Deliver a message.
    Input {
        /// Request.
        id: FrameId,
        /// Run.
        run_id: RunId,
        /// Message.
        message: InputMessage,
    },
    /// Cancel the Run.
    Cancel {
        /// Request.
        id: FrameId,
        /// Run.
        run_id: RunId,
    },
    /// Apply a function result.
    FunctionResult {
        /// Request.
        id: FrameId,
        /// What.
        result: FunctionResult,
    },
    /// List a directory.
    List {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        list: WorkspaceList,
    },
    /// Write a file; the digest of `body` is still to be checked (RP-15.7).
    Write {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        write: WorkspaceWrite,
        /// The whole file.
        body: Vec<u8>,
    },
    /// Send everything below `outputs/` as credit allows.
    Export {
        /// Request.
        id: FrameId,
        /// Authority.
        binding: Binding,
        /// What.
        export: WorkspaceExport,
    },
    /// Close for a suspension (RP-18.1).
    Quiesce {
        /// Request.
        id: FrameId,
        /// Which.
        suspension: Suspension,
    },
    /// Open again (RP-18.2).
    Thaw {
        /// Request.
        id: FrameId,
        /// Which.
        suspension: Suspension,
    },
}

/// What the daemon learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The connection works. These Runs are not wanted any more: end each and tell nobody (state-machines 1.10).
    Welcomed {
        /// This socket.
        connection_id: ConnectionId,
        /// Limits to obey.
        limits: Limits,
        /// Runs to end.
        abandon: Vec<RunId>,
    },
    /// Something to do.
    Work(Work),
    /// The admission ended before a start; the Executor is free again (RP-10.8).
    AdmissionEnded {
        /// The admission.
        prepare_id: PrepareId,
    },
    /// Core has committed the Run's events up to `seq` (RP-11.2).
    Acknowledged {
        /// The Run.
        run_id: RunId,
        /// Cumulative.
        seq: u64,
    },
    /// More bytes of an export may be sent.
    Credit {
        /// The stream.
        stream: u32,
        /// Additional bytes.
        bytes: u64,
    },
    /// Core announced a close.
    Goodbye {
        /// Why.
        reason: CloseReason,
        /// When to connect again.
        retry_after_ms: Option<u64>,
    },
    /// Core could not use a frame of ours; for the log.
    Refused(ProtocolError),
}

/// What the daemon tells.
#[derive(Debug)]
pub enum Command {
    /// The answer of a piece of work, or its progress.
    Answer {
        /// The request.
        id: FrameId,
        /// The answer.
        answer: Answer,
    },
    /// An Executor is reserved for the admission.
    Prepared {
        /// The admission.
        prepare_id: PrepareId,
        /// The Executor.
        executor_id: ExecutorId,
    },
    /// The preparation ended as a confirmed failure, or was refused before anything began.
    PrepareFailed {
        /// The admission.
        prepare_id: PrepareId,
        /// Why.
        code: PrepareCode,
        /// Nothing was prepared natively: answered by a `rejected` receipt (RP-10.12).
        rejected: bool,
    },
    /// The Run has the Executor.
    Started {
        /// The Run.
        run_id: RunId,
    },
    /// Certainly nothing was submitted.
    NotStarted {
        /// The Run.
        run_id: RunId,
        /// Why.
        code: PrepareCode,
    },
    /// Numbered events of a Run.
    Events(RunEvents),
    /// The Run is settled; a later cancel is answered by `proof`.
    Settled {
        /// The Run.
        run_id: RunId,
        /// `ok` with its outcome, or why that is unknown.
        proof: Answer,
    },
    /// A file of an export begins.
    ExportEntry {
        /// Authority of the export.
        binding: Binding,
        /// The file.
        entry: ExportEntry,
    },
    /// Bytes of it, within the credit.
    ExportChunk(Chunk),
    /// It is complete.
    ExportEntryEnd {
        /// Authority of the export.
        binding: Binding,
        /// Digest.
        end: ExportEntryEnd,
    },
    /// Counters for the next heartbeat.
    Active(Active),
    /// The offers changed. Narrower ones go with the next heartbeat; wider ones need a new connection (CAP-006).
    Offers(Vec<HarnessOffer>),
    /// End this connection, if there is one, telling Core why.
    Close(CloseReason),
}

/// What comes out.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this message.
    Send(Message),
    /// Tell the daemon.
    Notice(Notice),
    /// Close the socket with this reason.
    Close(CloseReason),
}

#[derive(Debug)]
enum Link {
    /// No socket.
    Down,
    /// `hello` was sent; `welcome` must come until.
    Greeting(Moment),
    /// Working.
    Up(Up),
}

#[derive(Debug)]
struct Up {
    heartbeat_ms: u64,
    idle_close_ms: u64,
    next_heartbeat: Moment,
    /// Heartbeats sent.
    beats: u64,
    /// The offers changed since the last heartbeat.
    changed: bool,
}

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
        self.declared.clone_from(&self.offers);
        self.last_heard = now;
        self.link = Link::Greeting(now.after(limits::GREETING_MS as u64));
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

    fn welcome(&mut self, now: Moment, welcome: Welcome) {
        if welcome.owner_epoch < self.owner_epoch {
            return self.close(CloseReason::StaleOwner);
        }
        self.owner_epoch = welcome.owner_epoch;
        // The first heartbeat leaves at once (RP-3.2).
        let heartbeat_ms = welcome.heartbeat_ms.max(1);
        let up = Up {
            heartbeat_ms,
            idle_close_ms: welcome.idle_close_ms.max(heartbeat_ms),
            next_heartbeat: now.after(heartbeat_ms),
            beats: 0,
            changed: false,
        };
        self.link = Link::Up(up);
        let resumed: Vec<_> = welcome.resume.iter().map(|run| run.run_id).collect();
        let abandon = self.runs.abandon_all_but(&resumed);
        self.notice(Notice::Welcomed {
            connection_id: welcome.connection_id,
            limits: welcome.limits,
            abandon,
        });
        self.beat();
    }

    /// A heartbeat shows which Core process speaks; an older one than before has lost its right (RP-2).
    fn owner(&mut self, epoch: u64) {
        if epoch < self.owner_epoch {
            self.close(CloseReason::StaleOwner);
        } else {
            self.owner_epoch = epoch;
        }
    }

    fn beat(&mut self) {
        let (active, owner_epoch) = (self.active, self.owner_epoch);
        let Link::Up(up) = &mut self.link else { return };
        up.beats += 1;
        let harnesses = std::mem::take(&mut up.changed).then(|| self.offers.clone());
        if let Some(offers) = &harnesses {
            self.declared.clone_from(offers);
        }
        let beat = Heartbeat {
            n: up.beats,
            owner_epoch,
            active,
            harnesses,
        };
        self.send(&RuntimeFrame::Heartbeat(beat));
    }

    fn offer(&mut self, offers: Vec<HarnessOffer>) {
        let narrows = offers
            .iter()
            .all(|offer| self.declared.iter().any(|before| before.narrowed_by(offer)));
        self.offers = offers;
        match &mut self.link {
            Link::Up(up) if narrows => up.changed = true,
            Link::Down | Link::Greeting(_) => {}
            // A new `hello` is the only way to offer more.
            Link::Up(_) => self.close(CloseReason::Replaced),
        }
    }

    fn request(&mut self, now: Moment, request: Request) {
        let (id, binding, of) = (request.id, request.binding, request.operation.kind());
        match self.memory.begin(binding, id, of) {
            memory::Seen::Never => {}
            memory::Seen::Answered(answer) => return self.send_receipt(binding, id, of, answer),
            memory::Seen::UnderWay => return self.repeat_status(binding, &request),
        }
        let refusal = match &request.operation {
            Operation::Bind(_) => self.bindings.may_bind(&binding),
            Operation::Release(_) => self.bindings.may_release(&binding),
            Operation::RunInput(input) => self.runs.may_address(&binding, input.run_id),
            Operation::RunCancel(cancel) => self.runs.may_address(&binding, cancel.run_id),
            Operation::FunctionResult(result) => self.runs.may_address(&binding, result.run_id),
            _ => self.bindings.may_use(&binding),
        };
        if let Err(code) = refusal {
            let answer = match (of, code) {
                (
                    RequestType::ExecutionPrepare
                    | RequestType::ExecutionStart
                    | RequestType::ExecutionRelease,
                    code,
                ) => Answer::Rejected(prepare_code(code).into()),
                (_, code) => Answer::Rejected(code.into()),
            };
            return self.answer(id, answer);
        }
        match request.operation {
            Operation::Bind(_) if self.bindings.is_bound(&binding) => {
                self.answer(id, Answer::Ok(crate::wire::Proof::Bound));
            }
            Operation::Bind(bind) => self.work(Work::Bind { id, binding, bind }),
            Operation::Release(release) => {
                self.bindings.fence(&binding);
                self.end_admissions_of(&binding);
                self.end_transfers_of(&binding);
                self.work(Work::Release {
                    id,
                    binding,
                    remove_home: release.remove_home,
                });
            }
            Operation::RuntimePrepare(prepare) => self.begin_step(now, id, binding, prepare),
            Operation::ExecutionPrepare(configuration) => {
                self.begin_admission(now, PrepareId::new(id.uuid()), binding, configuration);
            }
            Operation::ExecutionStart(start) => self.begin_start(id, binding, start),
            Operation::ExecutionRelease(release) => self.release_admission(id, release.prepare_id),
            Operation::RunInput(input) if self.runs.open(input.run_id) => {
                self.work(Work::Input {
                    id,
                    run_id: input.run_id,
                    message: input.message,
                });
            }
            Operation::RunCancel(cancel) => match self.runs.proof(cancel.run_id) {
                None => self.work(Work::Cancel {
                    id,
                    run_id: cancel.run_id,
                }),
                Some(proof) => self.answer(id, proof),
            },
            Operation::FunctionResult(result) if self.runs.open(result.run_id) => {
                self.work(Work::FunctionResult { id, result });
            }
            Operation::RunInput(_) | Operation::FunctionResult(_) => {
                self.answer(id, Answer::Rejected(RefusalCode::RunEnded.into()));
            }
            Operation::WorkspaceList(list) => self.work(Work::List { id, binding, list }),
            Operation::WorkspaceWrite(write) => self.begin_write(now, id, binding, write),
            Operation::WorkspaceExport(export) => self.work(Work::Export {
                id,
                binding,
                export,
            }),
            Operation::Quiesce(suspension) => self.work(Work::Quiesce { id, suspension }),
            Operation::Thaw(suspension) => self.work(Work::Thaw { id, suspension }),
        }
    }

    /// Stores and sends an answer; the final one only once.
    fn answer(&mut self, id: FrameId, answer: Answer) {
        let Some((binding, of)) = self.memory.record(id, &answer) else {
            return;
        };
        if answer.is_final() {
            self.transfers.finish(id);
        }
        if of == RequestType::Bind && answer == Answer::Ok(crate::wire::Proof::Bound) {
            self.bindings.bound(&binding);
        }
        // An answer of an older connection proves nothing on this one: Core has settled that request already.
        if self.memory.is_current(id) {
            self.send_receipt(binding, id, of, answer);
        }
    }

    fn send_receipt(&mut self, binding: Binding, re: FrameId, of: RequestType, answer: Answer) {
        self.send_if_up(&RuntimeFrame::Receipt(Box::new(Receipt {
            binding,
            re,
            of,
            answer,
        })));
    }

    fn send_status(
        &mut self,
        binding: Binding,
        prepare_id: PrepareId,
        revision: u64,
        state: PrepareState,
    ) {
        self.send_if_up(&RuntimeFrame::PrepareStatus(
            binding,
            PrepareStatus {
                prepare_id,
                revision,
                state,
            },
        ));
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

/// The code of an execution request that its binding does not allow.
fn prepare_code(code: RefusalCode) -> PrepareCode {
    match code {
        RefusalCode::BindingConflict => PrepareCode::BindingConflict,
        _ => PrepareCode::BindingStale,
    }
}
