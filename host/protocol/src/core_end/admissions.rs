//! Admissions of one connection: which status is news (RP-10.3), and which start it belongs to.

use std::collections::HashMap;

use domain::run::{Binding, PrepareState, PrepareStatus};
use domain::{FrameId, PrepareId};

use super::{CoreEnd, Notice, Settled};
use crate::moment::Moment;
use crate::wire::limits::ADMISSIONS;

#[derive(Debug)]
struct Admission {
    binding: Binding,
    revision: u64,
    /// The request that uses it.
    start: Option<FrameId>,
}

#[derive(Debug, Default)]
pub(super) struct Admissions(HashMap<PrepareId, Admission>);

impl Admissions {
    /// Opens a record; false if there is no room (RP-10.13).
    pub fn open(&mut self, prepare_id: PrepareId, binding: Binding) -> bool {
        if self.0.len() == ADMISSIONS {
            return false;
        }
        self.0.insert(
            prepare_id,
            Admission {
                binding,
                revision: 0,
                start: None,
            },
        );
        true
    }

    pub fn starting(&mut self, prepare_id: PrepareId, start: FrameId) {
        if let Some(admission) = self.0.get_mut(&prepare_id) {
            admission.start = Some(start);
        }
    }

    pub fn forget(&mut self, prepare_id: PrepareId) {
        self.0.remove(&prepare_id);
    }
}

impl CoreEnd {
    pub(super) fn prepare_status(&mut self, now: Moment, binding: Binding, status: PrepareStatus) {
        let Some(admission) = self.admissions.0.get_mut(&status.prepare_id) else {
            return;
        };
        if admission.binding != binding || status.revision <= admission.revision {
            return;
        }
        admission.revision = status.revision;
        let start = admission.start;
        self.requests
            .answered(FrameId::new(status.prepare_id.uuid()));
        self.notice(Notice::Prepare { binding, status });
        if status.state == PrepareState::Started
            && let Some((id, of)) = start.and_then(|id| self.requests.take(id))
        {
            self.settle(id, of, Settled::Started);
        }
        if status.state.is_final() {
            self.admissions.forget(status.prepare_id);
            self.requests.forget(FrameId::new(status.prepare_id.uuid()));
        }
        self.pump_queue(now);
    }
}
