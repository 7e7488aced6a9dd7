//! Request ids that were seen, with their receipts: a repeat is answered from here and never executed again (RP-6.2).

use std::collections::{HashMap, VecDeque};

use domain::run::Binding;
use domain::{BindingId, FrameId};

use crate::wire::limits::REMEMBERED;
use crate::wire::{Answer, RequestType};

#[derive(Debug)]
struct Entry {
    binding: Binding,
    of: RequestType,
    answer: Option<Answer>,
    connection: u64,
}

/// What is known of a request id.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is new, and remembered from now on.
    Never,
    /// It was begun and has no final answer.
    UnderWay,
    /// It was answered.
    Answered(Answer),
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: HashMap<FrameId, Entry>,
    /// Oldest first, per binding.
    order: HashMap<BindingId, VecDeque<FrameId>>,
    connection: u64,
}

impl Memory {
    pub fn begin(&mut self, binding: Binding, id: FrameId, of: RequestType) -> Seen {
        if let Some(entry) = self.entries.get_mut(&id) {
            return match &entry.answer {
                Some(answer) => Seen::Answered(answer.clone()),
                None => Seen::UnderWay,
            };
        }
        self.entries.insert(
            id,
            Entry {
                binding,
                of,
                answer: None,
                connection: self.connection,
            },
        );
        let order = self.order.entry(binding.id).or_default();
        order.push_back(id);
        if order.len() > REMEMBERED
            && let Some(oldest) = order.pop_front()
        {
            self.entries.remove(&oldest);
        }
        Seen::Never
    }

    /// Notes an answer. None if the request is unknown or has its final answer already.
    pub fn record(&mut self, id: FrameId, answer: &Answer) -> Option<(Binding, RequestType)> {
        let entry = self.entries.get_mut(&id)?;
        if entry.answer.is_some() {
            return None;
        }
        if answer.is_final() {
            entry.answer = Some(answer.clone());
        }
        Some((entry.binding, entry.of))
    }

    /// The request came on the present connection.
    pub fn is_current(&self, id: FrameId) -> bool {
        self.entries
            .get(&id)
            .is_some_and(|entry| entry.connection == self.connection)
    }

    pub fn disconnected(&mut self) {
        self.connection += 1;
    }
}
