//! A decision in the making: the loaded state, the state as it will be, and the events on the way.
//!
//! A decision changes [`Draft::state`] freely; which rows are written follows from comparing the two states, so a row
//! cannot be changed without being written, nor written without a change.

use crate::changes::{Changes, Decided, Hint, Write};
use crate::event::{Cause, EnvironmentEvent, EventPayload, SessionEvent, TurnEvent};
use crate::session::project;
use crate::session::{Projection, SessionStatus};
use crate::session_state::SessionState;
use crate::{Refusal, Timestamp};

pub(crate) struct Draft<'a> {
    loaded: &'a SessionState,
    /// The state as decided so far.
    pub state: SessionState,
    /// The projection that the last Session event, or the loaded state, showed.
    shown: Projection,
    changes: Changes,
}

impl<'a> Draft<'a> {
    pub fn of(loaded: &'a SessionState) -> Self {
        let shown = project(loaded);
        Self {
            loaded,
            state: loaded.clone(),
            shown,
            changes: Changes::default(),
        }
    }

    /// Adds an event. A deleted Session has none (I27).
    pub fn event(&mut self, event: EventPayload) {
        if self.loaded.session.deleted_at.is_none() {
            self.changes.events.push(event);
        }
    }

    pub fn hint(&mut self, hint: Hint) {
        self.changes.hints.push(hint);
    }

    /// Wakes the Session's actor.
    pub fn wake(&mut self) {
        self.hint(Hint::Session(self.loaded.session.id));
    }

    /// Writes a row that is not part of the state.
    pub fn write(&mut self, write: Write) {
        self.changes.writes.push(write);
    }

    /// Notes activity of the Session (D34).
    pub fn touch(&mut self, now: Timestamp) {
        let session = &mut self.state.session;
        session.last_active_at = session.last_active_at.max(now);
    }

    /// Takes the next `work_seq`.
    pub fn next_work(&mut self) -> crate::session::WorkSeq {
        self.state.session.work_seq.0 += 1;
        self.state.session.work_seq
    }

    /// Takes the next Item position.
    pub fn next_position(&mut self) -> u64 {
        self.state.session.item_position += 1;
        self.state.session.item_position
    }

    /// One Session event if status, error or required actions changed, and always for the end of a Turn, and for the
    /// settlement of a reservation while no root Turn is active (1.1, D3).
    pub fn announce(&mut self, cause: Cause) {
        let now = project(&self.state);
        let changed = now.status != self.shown.status
            || now.error != self.shown.error
            || now.required_actions != self.shown.required_actions;
        let always = match cause {
            Cause::TurnEnded { .. } | Cause::InitFailed => true,
            Cause::ReservationSettled { .. } => self.state.live_turn().is_none(),
            Cause::Created | Cause::Other => false,
        };
        if changed || always {
            self.session_event(of_status(now.status), cause, now);
        }
    }

    /// The Session event of the current projection, changed or not.
    pub fn announce_always(&mut self, cause: Cause) {
        let now = project(&self.state);
        self.session_event(of_status(now.status), cause, now);
    }

    /// `agent.session.created`, with the projection of its commit (D19).
    pub fn created(&mut self) {
        let now = project(&self.state);
        self.session_event(SessionEvent::Created, Cause::Created, now);
    }

    fn session_event(&mut self, event: SessionEvent, cause: Cause, snapshot: Projection) {
        let metadata = self.state.session.metadata.clone();
        self.shown = snapshot.clone();
        self.event(EventPayload::Session {
            event,
            cause,
            snapshot,
            metadata,
        });
    }

    /// An event of the newest root Turn as it is now.
    pub fn turn_event(&mut self, event: TurnEvent) -> Result<(), Refusal> {
        let turn = self
            .state
            .turn
            .as_ref()
            .ok_or(Refusal::Impossible("a Turn event without a Turn"))?
            .snapshot();
        self.event(EventPayload::Turn { event, turn });
        Ok(())
    }

    /// An event of the Environment (ENV-033).
    pub fn environment_event(&mut self, event: EnvironmentEvent) {
        let turn_id = self.state.live_turn().map(|turn| turn.id);
        if let Some(environment) = &self.state.environment {
            let (environment_id, environment_kind) = (environment.id, environment.kind);
            self.event(EventPayload::Environment {
                event,
                environment_id,
                environment_kind,
                turn_id,
            });
        }
    }

    /// The decision: rows that differ, in an order that keeps references whole.
    pub fn decide<A>(self, answer: A) -> Decided<A> {
        let Self {
            loaded,
            state,
            changes:
                Changes {
                    writes: others,
                    events,
                    hints,
                },
            ..
        } = self;
        let mut writes = Vec::new();
        if state.session != loaded.session {
            writes.push(Write::PutSession(state.session));
        }
        put_one(
            &mut writes,
            &loaded.environment,
            state.environment,
            Write::PutEnvironment,
        );
        put_one(&mut writes, &loaded.device, state.device, Write::PutDevice);
        put_one(
            &mut writes,
            &loaded.binding,
            state.binding,
            Write::PutBinding,
        );
        put_one(
            &mut writes,
            &loaded.allocation,
            state.allocation,
            Write::PutAllocation,
        );
        put_one(&mut writes, &loaded.turn, state.turn, Write::PutTurn);
        put_one(
            &mut writes,
            &loaded.reservation,
            state.reservation,
            Write::PutReservation,
        );
        put_all(
            &mut writes,
            &loaded.items,
            state.items,
            |item| item.id,
            Write::PutItem,
        );
        put_all(
            &mut writes,
            &loaded.inputs,
            state.inputs,
            |input| input.id,
            Write::PutInput,
        );
        put_all(
            &mut writes,
            &loaded.calls,
            state.calls,
            |call| (call.turn_id, call.call_id.clone()),
            Write::PutCall,
        );
        writes.extend(others);
        Decided {
            answer,
            changes: Changes {
                writes,
                events,
                hints,
            },
        }
    }

    /// The decision that creates the Session: its row is written although it equals the loaded one.
    pub fn decide_new<A>(self, answer: A) -> Decided<A> {
        let session = self.state.session.clone();
        let mut decided = self.decide(answer);
        decided
            .changes
            .writes
            .retain(|write| !matches!(write, Write::PutSession(_)));
        decided.changes.writes.insert(0, Write::PutSession(session));
        decided
    }
}

fn put_one<T: PartialEq>(
    writes: &mut Vec<Write>,
    old: &Option<T>,
    new: Option<T>,
    put: fn(T) -> Write,
) {
    if *old != new {
        writes.extend(new.map(put));
    }
}

fn put_all<T: PartialEq, K: PartialEq>(
    writes: &mut Vec<Write>,
    old: &[T],
    new: Vec<T>,
    key: impl Fn(&T) -> K,
    put: fn(T) -> Write,
) {
    for row in new {
        let same = old.iter().find(|old| key(old) == key(&row));
        if same != Some(&row) {
            writes.push(put(row));
        }
    }
}

fn of_status(status: SessionStatus) -> SessionEvent {
    match status {
        SessionStatus::Idle => SessionEvent::Idle,
        SessionStatus::InProgress => SessionEvent::InProgress,
        SessionStatus::RequiresAction => SessionEvent::RequiresAction,
        SessionStatus::Failed => SessionEvent::Failed,
    }
}
