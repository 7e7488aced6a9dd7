//! Rows and events of one Session, applied as the store applies them.

use std::collections::BTreeMap;

use crate::allocation::Allocation;
use crate::artifact::Artifact;
use crate::binding::{Binding, Device};
use crate::call::{Call, CallId};
use crate::environment::Environment;
use crate::event::EventPayload;
use crate::input::{Input, Receipt, ReceiptTarget};
use crate::item::Item;
use crate::reservation::Reservation;
use crate::session::Session;
use crate::session_state::{OpenFileWrite, PartialText, Retry};
use crate::turn::Turn;
use crate::{
    ArtifactId, Changes, DeviceId, InputId, ItemId, ReceiptId, ReservationId, SessionState, TurnId,
    Write,
};

/// The rows of one Session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub session: Option<Session>,
    pub environment: Option<Environment>,
    pub reservations: BTreeMap<ReservationId, Reservation>,
    pub turns: BTreeMap<TurnId, Turn>,
    pub inputs: BTreeMap<InputId, Input>,
    pub items: BTreeMap<ItemId, Item>,
    pub calls: BTreeMap<(TurnId, CallId), Call>,
    pub receipts: BTreeMap<ReceiptId, Receipt>,
    pub devices: BTreeMap<DeviceId, Device>,
    pub binding: Option<Binding>,
    pub allocation: Option<Allocation>,
    pub artifacts: BTreeMap<ArtifactId, Artifact>,
    pub events: Vec<EventPayload>,
    pub file_write: Option<OpenFileWrite>,
}

impl Model {
    /// Loads the whole aggregate; `key` is the idempotency key of the command.
    pub fn load(&self, key: Option<&str>) -> SessionState {
        let mut state = SessionState::of(self.session.clone().expect("the Session was created"));
        state.environment = self.environment.clone();
        state.reservation = self
            .reservations
            .values()
            .max_by_key(|row| row.work_seq)
            .cloned();
        state.turn = self.newest_turn().cloned();
        let newest = state.turn.as_ref().map(|turn| turn.id);
        state.inputs = self
            .inputs
            .values()
            .filter(|row| Some(row.turn_id) == newest)
            .cloned()
            .collect();
        state.inputs.sort_by_key(|row| row.position);
        state.items = self
            .items
            .values()
            .filter(|row| Some(row.turn_id) == newest)
            .cloned()
            .collect();
        state.items.sort_by_key(|row| row.position);
        state.calls = self.calls.values().cloned().collect();
        state.partial = self.partial();
        state.retry = key.and_then(|key| self.retry(key));
        state.file_write = self.file_write;
        state.binding = self.binding.clone();
        state.device = self
            .binding
            .as_ref()
            .and_then(|binding| self.devices.get(&binding.device_id).cloned());
        state.allocation = self.allocation.clone();
        state
    }

    pub fn newest_turn(&self) -> Option<&Turn> {
        self.turns.values().max_by_key(|row| row.work_seq)
    }

    fn retry(&self, key: &str) -> Option<Retry> {
        let receipt = self
            .receipts
            .values()
            .find(|row| row.key.as_deref() == Some(key))?
            .clone();
        let reservation = match receipt.target {
            ReceiptTarget::Reservation(id) => self.reservations.get(&id).cloned(),
            ReceiptTarget::Turn(_) | ReceiptTarget::None => None,
        };
        Some(Retry {
            receipt,
            reservation,
        })
    }

    fn partial(&self) -> Vec<PartialText> {
        let mut parts = Vec::<PartialText>::new();
        for (at, delta) in self.events.iter().filter_map(EventPayload::delta_of) {
            match parts
                .iter_mut()
                .find(|part| part.item_id == at.item_id && part.index == at.index)
            {
                Some(part) => part.text.push_str(delta),
                None => parts.push(PartialText {
                    item_id: at.item_id,
                    index: at.index,
                    text: delta.to_owned(),
                }),
            }
        }
        parts
    }

    /// Applies a decision with the constraints of the real tables; a violation is a failed test.
    pub fn apply(&mut self, changes: Changes) {
        for write in changes.writes {
            self.write(write);
        }
        self.events.extend(changes.events);
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::PutSession(row) => {
                assert!(
                    self.session
                        .as_ref()
                        .is_none_or(|old| old.id == row.id && old.deleted_at.is_none())
                );
                self.session = Some(row);
            }
            Write::PutEnvironment(row) => {
                assert!(
                    self.environment.as_ref().is_none_or(|old| old.id == row.id),
                    "one Environment per Session"
                );
                self.environment = Some(row);
            }
            Write::PutReservation(row) => {
                if let Some(old) = self.reservations.get(&row.id) {
                    assert!(old.is_pending(), "a settled reservation changed (I15)");
                }
                self.reservations.insert(row.id, row);
            }
            Write::PutTurn(row) => {
                if let Some(old) = self.turns.get(&row.id) {
                    assert!(old.is_live(), "an ended Turn changed (I15)");
                    assert_eq!(old.work_seq, row.work_seq);
                }
                self.turns.insert(row.id, row);
            }
            Write::PutInput(row) => {
                assert!(
                    self.turns.contains_key(&row.turn_id),
                    "an input without its Turn"
                );
                assert!(
                    self.items.contains_key(&row.item_id),
                    "an input without its Item"
                );
                self.inputs.insert(row.id, row);
            }
            Write::PutItem(row) => {
                assert!(
                    self.turns.contains_key(&row.turn_id),
                    "an Item without its Turn"
                );
                if let Some(old) = self.items.get(&row.id) {
                    assert!(!old.is_ended(), "an ended Item changed (I13)");
                    assert_eq!(
                        (old.position, old.output_index),
                        (row.position, row.output_index),
                        "S-ITEM-1, S-ITEM-2"
                    );
                }
                self.items.insert(row.id, row);
            }
            Write::PutCall(row) => {
                if let Some(old) = self.calls.get(&(row.turn_id, row.call_id.clone())) {
                    assert!(old.state.is_open(), "a terminal call changed (I15)");
                    assert_eq!((&old.name, &old.arguments), (&row.name, &row.arguments));
                }
                self.calls.insert((row.turn_id, row.call_id.clone()), row);
            }
            Write::AddReceipt(row) => {
                let same_key = |old: &Receipt| row.key.is_some() && old.key == row.key;
                assert!(
                    !self.receipts.values().any(same_key),
                    "a key has one receipt (I16)"
                );
                assert!(self.receipts.insert(row.id, row).is_none());
            }
            Write::PutDevice(row) => {
                if let Some(old) = self.devices.get(&row.id) {
                    assert_eq!(
                        (old.environment_id, old.credential),
                        (row.environment_id, row.credential),
                        "I23"
                    );
                    assert!(old.revoked_at.is_none(), "a revoked device changed");
                }
                self.devices.insert(row.id, row);
            }
            Write::PutBinding(row) => {
                if let Some(old) = &self.binding {
                    assert_eq!(
                        (old.id, old.device_id, old.environment_id),
                        (row.id, row.device_id, row.environment_id),
                        "I23"
                    );
                    assert!(old.epoch <= row.epoch, "RP-2.4");
                    assert!(
                        old.release.is_none_or(|old| old.acknowledged_at.is_none()),
                        "I15"
                    );
                }
                self.binding = Some(row);
            }
            Write::PutAllocation(row) => {
                if let Some(old) = &self.allocation {
                    assert_eq!(
                        (old.id, old.environment_id),
                        (row.id, row.environment_id),
                        "I22"
                    );
                    assert_ne!(
                        old.phase,
                        crate::allocation::AllocationPhase::Released,
                        "I15"
                    );
                    assert!(old.revision < row.revision, "SP-4.9");
                }
                self.allocation = Some(row);
            }
            Write::PutArtifact(row) => {
                self.artifacts.insert(row.id, row);
            }
            Write::PurgeSession(_) => {}
        }
    }
}
