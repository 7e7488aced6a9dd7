//! Bodies that arrive in chunks, and the steps they belong to: one mutating operation at a time per binding (RP-9.3).

use std::collections::HashMap;

use domain::run::{Binding, RefusalCode};
use domain::{BindingId, FrameId};

use super::{RuntimeEnd, Work};
use crate::moment::Moment;
use crate::transfer::Receiving;
use crate::wire::limits::TRANSFER;
use crate::wire::{
    Answer, Chunk, CloseReason, Incoming, InitStep, Progress, RuntimePrepare, Transfer,
    TransferStep, WorkspaceWrite,
};

/// Time for the body of a file write (RP-15.12).
const BODY_MS: u64 = 120_000;

#[derive(Debug)]
enum Target {
    Step(InitStep),
    Write(WorkspaceWrite),
}

#[derive(Debug)]
struct Open {
    id: FrameId,
    binding: Binding,
    target: Target,
    receiving: Receiving,
    deadline: Moment,
}

#[derive(Debug, Default)]
pub(super) struct Transfers {
    open: HashMap<u32, Open>,
    /// The mutating operation of each binding.
    mutating: HashMap<BindingId, FrameId>,
}

impl Transfers {
    pub fn next_deadline(&self) -> Option<Moment> {
        self.open.values().map(|open| open.deadline).min()
    }

    pub fn finish(&mut self, id: FrameId) {
        self.mutating.retain(|_, other| *other != id);
        self.open.retain(|_, open| open.id != id);
    }

    /// The connection is gone: incomplete bodies never reach a writer (RP-15.12), and keep no later one waiting.
    pub fn clear(&mut self) {
        let cut: Vec<_> = self.open.drain().map(|(_, open)| open.id).collect();
        self.mutating.retain(|_, id| !cut.contains(id));
    }
}

impl RuntimeEnd {
    pub(super) fn begin_step(
        &mut self,
        now: Moment,
        id: FrameId,
        binding: Binding,
        prepare: RuntimePrepare,
    ) {
        let RuntimePrepare { budget_ms, step } = prepare;
        if !self.begin_mutation(id, &binding) {
            return;
        }
        match step.incoming().cloned() {
            Some(incoming) => {
                self.begin_body(now, id, binding, &incoming, Target::Step(step), budget_ms)
            }
            None => self.work(Work::Initialize {
                id,
                binding,
                step,
                budget_ms,
                body: None,
            }),
        }
    }

    pub(super) fn begin_write(
        &mut self,
        now: Moment,
        id: FrameId,
        binding: Binding,
        write: WorkspaceWrite,
    ) {
        if self.begin_mutation(id, &binding) {
            let incoming = write.body.clone();
            self.begin_body(now, id, binding, &incoming, Target::Write(write), BODY_MS);
        }
    }

    fn begin_mutation(&mut self, id: FrameId, binding: &Binding) -> bool {
        if self.transfers.mutating.contains_key(&binding.id) {
            self.answer(id, Answer::Rejected(RefusalCode::Busy.into()));
            return false;
        }
        self.transfers.mutating.insert(binding.id, id);
        true
    }

    fn begin_body(
        &mut self,
        now: Moment,
        id: FrameId,
        binding: Binding,
        incoming: &Incoming,
        target: Target,
        budget_ms: u64,
    ) {
        let refusal = if incoming.size > TRANSFER {
            Some(RefusalCode::LimitExceeded)
        } else if self.transfers.open.contains_key(&incoming.stream) {
            Some(RefusalCode::TransferMismatch)
        } else {
            None
        };
        if let Some(code) = refusal {
            return self.answer(id, Answer::Rejected(code.into()));
        }
        let receiving = Receiving::new(incoming.size);
        let open = Open {
            id,
            binding,
            target,
            receiving,
            deadline: now.after(budget_ms),
        };
        self.transfers.open.insert(incoming.stream, open);
        self.answer(id, Answer::Progress(Progress::Ready));
    }

    pub(super) fn chunk(&mut self, chunk: Chunk) {
        // Late chunks of an ended transfer are inert: streams are never used again on a connection.
        let Some(open) = self.transfers.open.get_mut(&chunk.stream) else {
            return;
        };
        let id = open.id;
        match open.receiving.take(&chunk) {
            Ok(offset) => self.answer(id, Answer::Progress(Progress::Received(offset))),
            Err(_) => self.answer(id, Answer::Rejected(RefusalCode::TransferMismatch.into())),
        }
    }

    pub(super) fn transfer(&mut self, now: Moment, binding: Binding, transfer: Transfer) {
        match self.transfers.open.get(&transfer.stream) {
            Some(open) if open.binding == binding => {}
            Some(_) => return self.close(CloseReason::ProtocolViolation),
            // It ended here already and its receipt says how.
            None => return,
        }
        let Some(open) = self.transfers.open.remove(&transfer.stream) else {
            return;
        };
        let budget_ms = open.deadline.0.saturating_sub(now.0);
        let body = match transfer.step {
            TransferStep::Commit => open.receiving.finish(),
            TransferStep::Abort => None,
        };
        let Open {
            id,
            binding,
            target,
            ..
        } = open;
        match (target, body) {
            (_, None) => self.answer(id, Answer::Rejected(RefusalCode::TransferMismatch.into())),
            (Target::Step(step), Some(body)) => self.work(Work::Initialize {
                id,
                binding,
                step,
                budget_ms,
                body: Some(body),
            }),
            (Target::Write(write), Some(body)) => self.work(Work::Write {
                id,
                binding,
                write,
                body,
            }),
        }
    }

    pub(super) fn expire_transfers(&mut self, now: Moment) {
        let due: Vec<_> = self
            .transfers
            .open
            .values()
            .filter(|open| now >= open.deadline)
            .map(|open| open.id)
            .collect();
        for id in due {
            self.answer(id, Answer::Rejected(RefusalCode::LimitExceeded.into()));
        }
    }

    /// Transfers that are not applied yet end as stale when their binding is released (RP-8.5).
    pub(super) fn end_transfers_of(&mut self, binding: &Binding) {
        let ended = self
            .transfers
            .open
            .values()
            .filter(|open| open.binding.session == binding.session)
            .map(|open| open.id);
        for id in ended.collect::<Vec<_>>() {
            self.answer(id, Answer::Rejected(RefusalCode::BindingStale.into()));
        }
    }
}
