//! Request ids that were seen, with their receipts: a repeat is answered from here and never executed again (RP-6.2).

use std::collections::{HashMap, VecDeque};

use domain::run::Binding;
use domain::{BindingId, FrameId};

use crate::wire::limits::{RELEASED, REMEMBERED};
use crate::wire::{Answer, RequestType};

#[derive(Debug)]
struct Entry {
    binding: Binding,
    of: RequestType,
    answer: Option<Answer>,
    connection: u64,
}

impl Entry {
    /// Its end is told by other frames, so no answer may ever come.
    fn ends_otherwise(&self) -> bool {
        matches!(
            self.of,
            RequestType::ExecutionPrepare | RequestType::ExecutionStart
        )
    }
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
    /// Bindings that were released, oldest first: of each only the receipt of its release is left.
    released: VecDeque<BindingId>,
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
        if of == RequestType::Bind {
            // It is in use again.
            self.released.retain(|released| *released != binding.id);
        }
        order.push_back(id);
        if order.len() > REMEMBERED {
            // One that still waits is never forgotten: its answer would be lost with it. There are few (RP-6.3).
            let over = order.iter().position(|id| {
                let entry = self.entries.get(id);
                entry.is_none_or(|entry| entry.answer.is_some() || entry.ends_otherwise())
            });
            if let Some(over) = over.and_then(|over| order.remove(over)) {
                self.entries.remove(&over);
            }
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

    /// The binding is released by this request: nothing older of it is asked for any more.
    pub fn released(&mut self, binding: &Binding, by: FrameId) {
        let entries = &mut self.entries;
        if let Some(order) = self.order.get_mut(&binding.id) {
            order.retain(|id| {
                let newer = |entry: &Entry| entry.binding.epoch > binding.epoch;
                let keep = *id == by || entries.get(id).is_some_and(newer);
                if !keep {
                    entries.remove(id);
                }
                keep
            });
        }
        if !self.released.contains(&binding.id) {
            self.released.push_back(binding.id);
        }
        if self.released.len() > RELEASED
            && let Some(oldest) = self.released.pop_front()
        {
            for id in self.order.remove(&oldest).unwrap_or_default() {
                self.entries.remove(&id);
            }
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len() + self.order.len() + self.released.len()
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
