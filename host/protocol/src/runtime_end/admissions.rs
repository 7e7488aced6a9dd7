//! Execution admissions (RP-10, state-machines 1.10): `preparing → ready → starting → started`, or an end before it.

use std::collections::HashMap;

use domain::run::{Binding, ExecutionConfiguration, PrepareCode, PrepareState};
use domain::{ExecutorId, FrameId, PrepareId, RunId};

use super::{Notice, RuntimeEnd, Work};
use crate::moment::Moment;
use crate::wire::limits::ADMISSIONS;
use crate::wire::{Answer, ExecutionStart, Operation, Request};

/// An admission expires so long after it was granted (RP-10.4).
const LIFETIME_MS: u64 = 5 * 60 * 1000;

#[derive(Debug)]
struct Admission {
    binding: Binding,
    revision: u64,
    state: PrepareState,
    expires: Moment,
    /// The start request and its Run, once there is one.
    start: Option<(FrameId, RunId)>,
}

impl Admission {
    fn is_open(&self) -> bool {
        matches!(
            self.state,
            PrepareState::Preparing | PrepareState::Ready { .. }
        )
    }
}

#[derive(Debug, Default)]
pub(super) struct Admissions(HashMap<PrepareId, Admission>);

impl Admissions {
    pub fn next_expiry(&self) -> Option<Moment> {
        self.0
            .values()
            .filter(|admission| admission.is_open())
            .map(|admission| admission.expires)
            .min()
    }

    fn of_run(&mut self, run_id: RunId) -> Option<(PrepareId, FrameId)> {
        self.0
            .iter()
            .find_map(|(id, admission)| match admission.start {
                Some((start, run)) if run == run_id => Some((*id, start)),
                _ => None,
            })
    }

    fn open_ids(&self, belongs: impl Fn(&Admission) -> bool) -> Vec<PrepareId> {
        let open = self
            .0
            .iter()
            .filter(|(_, admission)| admission.is_open() && belongs(admission));
        let mut ids: Vec<_> = open.map(|(id, _)| *id).collect();
        ids.sort();
        ids
    }
}

impl RuntimeEnd {
    pub(super) fn begin_admission(
        &mut self,
        now: Moment,
        prepare_id: PrepareId,
        binding: Binding,
        configuration: Box<ExecutionConfiguration>,
    ) {
        let id = FrameId::new(prepare_id.uuid());
        // Records of ended admissions are kept for repeats as long as there is room.
        if self.admissions.0.len() >= ADMISSIONS {
            self.admissions
                .0
                .retain(|_, admission| !admission.state.is_final());
        }
        let refusal = if self.admissions.0.len() >= ADMISSIONS {
            Some(PrepareCode::Capacity)
        } else if self.runs.has_unsettled(&binding) {
            Some(PrepareCode::Busy)
        } else {
            None
        };
        if let Some(code) = refusal {
            return self.answer(id, Answer::Rejected(code.into()));
        }
        let admission = Admission {
            binding,
            revision: 1,
            state: PrepareState::Preparing,
            expires: now.after(LIFETIME_MS),
            start: None,
        };
        self.admissions.0.insert(prepare_id, admission);
        self.send_status(binding, prepare_id, 1, PrepareState::Preparing);
        self.work(Work::Prepare {
            prepare_id,
            binding,
            configuration,
        });
    }

    /// An identical request again: its stored status again (RP-6.2).
    pub(super) fn repeat_status(&mut self, binding: Binding, request: &Request) {
        let prepare_id = match &request.operation {
            Operation::ExecutionPrepare(_) => request.prepare_id(),
            Operation::ExecutionStart(start) => start.prepare_id,
            // Every other request under way answers by itself.
            _ => return,
        };
        if let Some(admission) = self.admissions.0.get(&prepare_id)
            && admission.binding == binding
        {
            let (revision, state) = (admission.revision, admission.state);
            self.send_status(binding, prepare_id, revision, state);
        }
    }

    fn advance(&mut self, prepare_id: PrepareId, state: PrepareState) {
        let Some(admission) = self.admissions.0.get_mut(&prepare_id) else {
            return;
        };
        admission.revision += 1;
        admission.state = state;
        let (binding, revision) = (admission.binding, admission.revision);
        self.send_status(binding, prepare_id, revision, state);
    }

    pub(super) fn prepared(&mut self, now: Moment, prepare_id: PrepareId, executor_id: ExecutorId) {
        match self.admissions.0.get(&prepare_id) {
            Some(admission) if admission.state == PrepareState::Preparing => {
                let expires_in_ms = admission.expires.0.saturating_sub(now.0);
                self.advance(
                    prepare_id,
                    PrepareState::Ready {
                        executor_id,
                        expires_in_ms,
                    },
                );
            }
            // It ended meanwhile, and the daemon was told.
            _ => {}
        }
    }

    pub(super) fn prepare_failed(
        &mut self,
        prepare_id: PrepareId,
        code: PrepareCode,
        rejected: bool,
    ) {
        let Some(admission) = self.admissions.0.get_mut(&prepare_id) else {
            return;
        };
        if !admission.is_open() {
            return;
        }
        if rejected && admission.state == PrepareState::Preparing {
            self.admissions.0.remove(&prepare_id);
            let id = FrameId::new(prepare_id.uuid());
            return self.answer(id, Answer::Rejected(code.into()));
        }
        self.advance(prepare_id, PrepareState::Failed(code));
    }

    pub(super) fn begin_start(&mut self, id: FrameId, binding: Binding, start: ExecutionStart) {
        let admission = self
            .admissions
            .0
            .get_mut(&start.prepare_id)
            .filter(|admission| admission.binding == binding);
        let refusal = match admission {
            Some(admission) => match admission.state {
                PrepareState::Ready { executor_id, .. } if executor_id == start.executor_id => {
                    admission.start = Some((id, start.run_id));
                    None
                }
                PrepareState::Ready { .. } => Some(PrepareCode::ExecutorUnavailable),
                _ => Some(PrepareCode::NotReady),
            },
            None => Some(PrepareCode::NotReady),
        };
        // A Run id is never used again (RP-2): one that is known here runs nothing.
        let refusal = refusal
            .or_else(|| (!self.runs.begin(start.run_id, binding)).then_some(PrepareCode::NotReady));
        match refusal {
            Some(code) => self.answer(id, Answer::Rejected(code.into())),
            None => {
                self.advance(start.prepare_id, PrepareState::Starting);
                self.work(Work::Start { binding, start });
            }
        }
    }

    pub(super) fn started(&mut self, run_id: RunId) {
        if let Some((prepare_id, _)) = self.admissions.of_run(run_id)
            && self
                .admissions
                .0
                .get(&prepare_id)
                .is_some_and(|admission| admission.state == PrepareState::Starting)
        {
            self.advance(prepare_id, PrepareState::Started);
        }
    }

    pub(super) fn not_started(&mut self, run_id: RunId, code: PrepareCode) {
        self.runs.forget(run_id);
        let Some((prepare_id, start)) = self.admissions.of_run(run_id) else {
            return;
        };
        let starting = self
            .admissions
            .0
            .get(&prepare_id)
            .is_some_and(|admission| admission.state == PrepareState::Starting);
        if starting {
            // The receipt answers the start; the status ends the admission, whose Executor is not reserved any more.
            self.answer(start, Answer::Rejected(code.into()));
            self.advance(prepare_id, PrepareState::Failed(code));
        }
    }

    pub(super) fn release_admission(&mut self, id: FrameId, prepare_id: PrepareId) {
        let state = self
            .admissions
            .0
            .get(&prepare_id)
            .map(|admission| admission.state);
        match state {
            Some(PrepareState::Preparing | PrepareState::Ready { .. }) => {
                self.end_admission(prepare_id, PrepareState::Released);
                self.answer(id, Answer::Ok(crate::wire::Proof::Released));
            }
            // After start only `run_cancel` helps (RP-10.8).
            Some(PrepareState::Starting | PrepareState::Started) => {
                self.answer(id, Answer::Rejected(PrepareCode::NotReady.into()));
            }
            Some(PrepareState::Released | PrepareState::Expired | PrepareState::Failed(_))
            | None => {
                self.answer(id, Answer::Ok(crate::wire::Proof::Released));
            }
        }
    }

    pub(super) fn expire_admissions(&mut self, now: Moment) {
        for prepare_id in self
            .admissions
            .open_ids(|admission| now >= admission.expires)
        {
            self.end_admission(prepare_id, PrepareState::Expired);
        }
    }

    pub(super) fn end_admissions_of(&mut self, binding: &Binding) {
        for prepare_id in self
            .admissions
            .open_ids(|admission| admission.binding.session == binding.session)
        {
            self.end_admission(prepare_id, PrepareState::Released);
        }
    }

    /// The socket is gone: no admission outlives it, the duty to clean up does (state-machines 1.10).
    pub(super) fn end_admissions(&mut self) {
        for prepare_id in self.admissions.open_ids(|_| true) {
            self.end_admission(prepare_id, PrepareState::Released);
        }
        self.admissions.0.clear();
    }

    fn end_admission(&mut self, prepare_id: PrepareId, state: PrepareState) {
        let Some(admission) = self.admissions.0.get(&prepare_id) else {
            return;
        };
        let session = admission.binding.session;
        self.advance(prepare_id, state);
        self.notice(Notice::AdmissionEnded {
            session,
            prepare_id,
        });
    }
}
