//! The requests of one connection: at most 32 unanswered, each settled exactly once (RP-5.1, RP-6.3).

use std::collections::{HashMap, HashSet, VecDeque};

use domain::FrameId;
use domain::dispatch::CANCEL_CONFIRMATION;
use domain::run::Binding;

use super::{CoreEnd, NotSent, Notice, Settled};
use crate::moment::Moment;
use crate::transfer::Sending;
use crate::wire::limits::{EXPORT_WINDOW, OUTSTANDING, USED};
use crate::wire::{
    Answer, CloseReason, CoreFrame, Message, Operation, Progress, Proof, Receipt, Request,
    RequestType, Transfer, TransferStep,
};

/// Between two parts of an export, in milliseconds.
const EXPORT_MS: u64 = 120_000;

/// How long Core waits for the final receipt of a request, in milliseconds; none where the Turn's own limits decide.
const fn patience(operation: &Operation) -> Option<u64> {
    match operation {
        Operation::Bind(_) | Operation::ExecutionRelease(_) | Operation::WorkspaceList(_) => {
            Some(15_000)
        }
        // Until a first status; the admission has its own five minutes afterwards (RP-10.4).
        Operation::ExecutionPrepare(_) => Some(30_000),
        Operation::ExecutionStart(_) => Some(30_000),
        // Until `written` (RP-12.2).
        Operation::RunInput(_) => Some(30_000),
        // RP-13.3
        Operation::RunCancel(_) => Some(CANCEL_CONFIRMATION.as_secs() * 1000),
        Operation::FunctionResult(_) => Some(10_000),
        Operation::Release(_) | Operation::Quiesce(_) | Operation::Thaw(_) => Some(60_000),
        // Its budget starts at the Runtime; the receipt needs its way back.
        Operation::RuntimePrepare(prepare) => Some(prepare.budget_ms.saturating_add(15_000)),
        Operation::WorkspaceWrite(_) => Some(120_000),
        // Until its next part: how long the whole takes depends on its size.
        Operation::WorkspaceExport(_) => Some(EXPORT_MS),
    }
}

#[derive(Debug)]
struct Sent {
    of: RequestType,
    binding: Binding,
    deadline: Option<Moment>,
    /// It counts against the limit until its first answer that promises more.
    counted: bool,
    body: Option<Sending>,
}

/// The ids that were used last. Ids are never used twice anywhere, so this only guards against a mistake of the caller.
#[derive(Debug, Default)]
struct Used {
    ids: HashSet<FrameId>,
    order: VecDeque<FrameId>,
}

impl Used {
    /// False if it was used before.
    fn insert(&mut self, id: FrameId) -> bool {
        let new = self.ids.insert(id);
        if new {
            self.order.push_back(id);
        }
        if self.order.len() > USED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        new
    }
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    sent: HashMap<FrameId, Sent>,
    queued: VecDeque<(Box<Request>, Option<Vec<u8>>)>,
    used: Used,
}

impl Requests {
    pub fn next_deadline(&self) -> Option<Moment> {
        self.sent.values().filter_map(|sent| sent.deadline).min()
    }

    /// Takes one request whose time is over.
    pub fn expire(&mut self, now: Moment) -> Option<(FrameId, RequestType)> {
        let due = self
            .sent
            .iter()
            .find(|(_, sent)| sent.deadline.is_some_and(|deadline| now >= deadline));
        let id = *due?.0;
        self.take(id)
    }

    /// Ends a request.
    pub fn take(&mut self, id: FrameId) -> Option<(FrameId, RequestType)> {
        self.sent.remove(&id).map(|sent| (id, sent.of))
    }

    pub fn forget(&mut self, id: FrameId) {
        self.sent.remove(&id);
        self.queued.retain(|(request, _)| request.id != id);
    }

    /// A first answer came that is not the last one.
    pub fn answered(&mut self, id: FrameId) {
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.counted = false;
            sent.deadline = None;
        }
    }

    /// An export goes on: a part came, or room for more was given.
    pub fn goes_on(&mut self, now: Moment, id: FrameId) {
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.deadline = Some(now.after(EXPORT_MS));
        }
    }

    /// The end of the connection: what was sent is unknown, what was not is not.
    pub fn drain(&mut self) -> Vec<(FrameId, RequestType, Settled)> {
        let sent = self
            .sent
            .drain()
            .map(|(id, sent)| (id, sent.of, Settled::Lost));
        let queued = self.queued.drain(..).map(|(request, _)| {
            (
                request.id,
                request.operation.kind(),
                Settled::NotSent(NotSent::Closed),
            )
        });
        let mut all: Vec<_> = sent.chain(queued).collect();
        all.sort_by_key(|(id, _, _)| *id);
        all
    }

    fn full(&self) -> bool {
        self.sent.values().filter(|sent| sent.counted).count() >= OUTSTANDING
    }
}

impl CoreEnd {
    pub(super) fn request(&mut self, now: Moment, request: Request, body: Option<Vec<u8>>) {
        let (id, of) = (request.id, request.operation.kind());
        let refusal = if !self.is_open() {
            Some(NotSent::Closed)
        } else if !self.may_send(&request) {
            Some(NotSent::NotBound)
        } else if !self.requests.used.insert(id) {
            Some(NotSent::Repeated)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.notice(Notice::Settled {
                id,
                of,
                settled: Settled::NotSent(refusal),
            });
        }
        // A cancel waits behind nothing (RP-13.5).
        if of != RequestType::RunCancel
            && (self.requests.full() || !self.requests.queued.is_empty())
        {
            self.requests.queued.push_back((Box::new(request), body));
        } else {
            self.transmit(now, request, body);
        }
    }

    /// Only `bind` and `release` may name a binding that is not bound here (RP-8.1).
    fn may_send(&self, request: &Request) -> bool {
        match request.operation {
            Operation::Bind(_) | Operation::Release(_) => true,
            // A cancel or input of a started Run stays admissible under the epoch that started it (RP-2.6).
            Operation::RunCancel(_) | Operation::RunInput(_) | Operation::FunctionResult(_) => self
                .bound
                .get(&request.binding.id)
                .is_some_and(|bound| bound.same_authority(&request.binding)),
            _ => self.bound.get(&request.binding.id) == Some(&request.binding),
        }
    }

    pub(super) fn pump_queue(&mut self, now: Moment) {
        while self.is_open() && !self.requests.full() {
            let Some((request, body)) = self.requests.queued.pop_front() else {
                return;
            };
            self.transmit(now, *request, body);
        }
    }

    fn transmit(&mut self, now: Moment, request: Request, body: Option<Vec<u8>>) {
        let (id, of, binding) = (request.id, request.operation.kind(), request.binding);
        let refuse = |end: &mut Self, why| {
            end.notice(Notice::Settled {
                id,
                of,
                settled: Settled::NotSent(why),
            });
        };
        let frame = CoreFrame::Request(Box::new(request));
        let Ok(text) = frame.encode() else {
            return refuse(self, NotSent::TooLong);
        };
        let CoreFrame::Request(request) = frame else {
            return;
        };
        let mut sending = None;
        match &request.operation {
            Operation::ExecutionPrepare(_)
                if !self.admissions.open(request.prepare_id(), binding) =>
            {
                return refuse(self, NotSent::TooManyAdmissions);
            }
            Operation::ExecutionStart(start) => {
                self.admissions.starting(start.prepare_id, id);
                self.runs.open(start.run_id, binding, id);
            }
            Operation::Release(_) => {
                // Fenced from here on: no further frame of this authority (RP-2.4).
                self.bound.remove(&binding.id);
            }
            Operation::RuntimePrepare(prepare) => {
                sending = prepare
                    .step
                    .incoming()
                    .zip(body)
                    .map(|(incoming, body)| Sending::new(incoming.stream, body));
            }
            Operation::WorkspaceWrite(write) => {
                sending = body.map(|body| Sending::new(write.body.stream, body))
            }
            Operation::WorkspaceExport(export) => self.exports.open(id, binding, export.stream),
            _ => {}
        }
        let deadline = patience(&request.operation).map(|ms| now.after(ms));
        self.requests.sent.insert(
            id,
            Sent {
                of,
                binding,
                deadline,
                counted: of != RequestType::RunCancel,
                body: sending,
            },
        );
        self.outputs
            .push_back(super::Output::Send(Message::Text(text)));
        match &request.operation {
            Operation::ExecutionStart(start) => self.notice(Notice::StartSent {
                run_id: start.run_id,
            }),
            Operation::WorkspaceExport(export) => {
                self.credit(now, binding, export.stream, EXPORT_WINDOW)
            }
            _ => {}
        }
    }

    pub(super) fn receipt(&mut self, now: Moment, receipt: Receipt) {
        let Receipt {
            binding,
            re,
            of,
            answer,
        } = receipt;
        let Some(sent) = self.requests.sent.get_mut(&re) else {
            return;
        };
        // A reply that names another binding or type proves nothing (RP-6.1).
        if sent.binding != binding || sent.of != of {
            return;
        }
        match answer {
            Answer::Progress(progress) => self.progress(re, progress),
            Answer::Ok(_) | Answer::Rejected(_) | Answer::Failed { .. } | Answer::Unknown(_) => {
                self.requests.sent.remove(&re);
                if answer == Answer::Ok(Proof::Bound) {
                    self.bound.insert(binding.id, binding);
                    self.notice(Notice::Bound(binding));
                }
                if of == RequestType::ExecutionStart {
                    self.runs.refused(re);
                }
                self.settle(re, of, Settled::Receipt(answer));
                self.pump_queue(now);
            }
        }
    }

    fn progress(&mut self, id: FrameId, progress: Progress) {
        let window = self.settings.limits.window_chunks;
        let Some(sent) = self.requests.sent.get_mut(&id) else {
            return;
        };
        let binding = sent.binding;
        let fits = match (progress, sent.of) {
            (Progress::Written, RequestType::RunInput) => {
                // `accepted` has the Turn's lifetime (RP-12.2).
                sent.counted = false;
                sent.deadline = None;
                true
            }
            (Progress::Ready, RequestType::RuntimePrepare | RequestType::WorkspaceWrite) => {
                sent.body.is_some()
            }
            (
                Progress::Received(offset),
                RequestType::RuntimePrepare | RequestType::WorkspaceWrite,
            ) => sent
                .body
                .as_mut()
                .is_some_and(|body| body.acknowledge(offset)),
            _ => false,
        };
        if !fits {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        if let Some(body) = sent.body.as_mut()
            && !matches!(progress, Progress::Written)
        {
            let mut chunks = Vec::new();
            while let Some(chunk) = body.next(window) {
                chunks.push(chunk.encode());
            }
            let commit = body.complete().then(|| Transfer {
                stream: body.stream(),
                step: TransferStep::Commit,
            });
            if commit.is_some() {
                sent.body = None;
            }
            for chunk in chunks {
                self.outputs
                    .push_back(super::Output::Send(Message::Binary(chunk)));
            }
            if let Some(commit) = commit {
                self.send(&CoreFrame::Transfer(binding, commit));
            }
        }
        self.notice(Notice::Progress { id, progress });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_a_long_connection_has_a_bound() {
        let mut used = Used::default();
        let id = |n| FrameId::new(uuid::Uuid::from_u128(n));
        for n in 0..2 * USED as u128 {
            assert!(used.insert(id(n)));
            assert!(!used.insert(id(n)));
        }
        assert_eq!((used.ids.len(), used.order.len()), (USED, USED));
    }
}
