//! Requests of Core: what is stale, repeated or out of place is refused here, the rest is handed on, and each answer is remembered.

use domain::run::{Binding, PrepareCode, PrepareState, PrepareStatus, RefusalCode};
use domain::{FrameId, PrepareId};

use super::{RuntimeEnd, Work, memory};
use crate::moment::Moment;
use crate::wire::{Answer, Operation, Receipt, Request, RequestType, RuntimeFrame};

impl RuntimeEnd {
    pub(super) fn request(&mut self, now: Moment, request: Request) {
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
    pub(super) fn answer(&mut self, id: FrameId, answer: Answer) {
        let Some((binding, of)) = self.memory.record(id, &answer) else {
            return;
        };
        if answer.is_final() {
            self.transfers.finish(id);
        }
        if of == RequestType::Bind && answer == Answer::Ok(crate::wire::Proof::Bound) {
            self.bindings.bound(&binding);
        }
        let released = of == RequestType::Release && matches!(answer, Answer::Ok(_));
        if released {
            self.memory.released(&binding, id);
            self.runs.released(binding.session);
        }
        // An answer of an older connection proves nothing on this one: Core has settled that request already.
        if self.memory.is_current(id) {
            self.send_receipt(binding, id, of, answer);
        }
    }

    pub(super) fn send_receipt(
        &mut self,
        binding: Binding,
        re: FrameId,
        of: RequestType,
        answer: Answer,
    ) {
        self.send_if_up(&RuntimeFrame::Receipt(Box::new(Receipt {
            binding,
            re,
            of,
            answer,
        })));
    }

    pub(super) fn send_status(
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
}

/// The code of an execution request that its binding does not allow.
fn prepare_code(code: RefusalCode) -> PrepareCode {
    match code {
        RefusalCode::BindingConflict => PrepareCode::BindingConflict,
        _ => PrepareCode::BindingStale,
    }
}
