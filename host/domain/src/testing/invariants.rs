//! What must hold after every commit (state-machines 2). Each check names its invariant.

use std::collections::BTreeMap;

use super::Model;
use crate::allocation::AllocationPhase;
use crate::environment::{EnvironmentStatus, Initialization};
use crate::event::{Cause, EnvironmentEvent, EventPayload, SessionEvent, TurnEvent};
use crate::reservation::Reservation;
use crate::session::{Placement, Projection, RequiredAction, SessionStatus, project};
use crate::turn::{Outcome, RunPhase, Turn, TurnState, TurnStatus};
use crate::usage::UsageSum;
use crate::{ItemId, TurnId};

pub(super) fn check(before: &Model, after: &Model) {
    one_of_each(after);
    environment(before, after);
    turns(after);
    projection(after);
    allocation(after);
    events(after);
    commit(before, after);
}

fn live(model: &Model) -> impl Iterator<Item = &Turn> {
    model.turns.values().filter(|turn| turn.is_live())
}

fn pending(model: &Model) -> impl Iterator<Item = &Reservation> {
    model.reservations.values().filter(|row| row.is_pending())
}

fn is_capturing(turn: &Turn) -> bool {
    matches!(
        turn.state,
        TurnState::Active {
            phase: RunPhase::Capturing { .. },
            ..
        }
    )
}

fn one_of_each(model: &Model) {
    assert!(live(model).count() <= 1, "I1: one root Turn");
    assert!(pending(model).count() <= 1, "I1: one reservation");
    if pending(model).next().is_some() {
        let environment = model
            .environment
            .as_ref()
            .expect("I2: a reservation needs an Environment");
        assert!(!environment.status.is_terminal(), "I2: a live Environment");
        assert!(live(model).all(is_capturing), "I2: no active work");
    }
}

fn environment(before: &Model, after: &Model) {
    let Some(environment) = &after.environment else {
        return;
    };
    let placement = after.session.as_ref().map(|row| row.placement);
    if let Some(old) = &before.environment {
        if old.status.is_terminal() {
            assert_eq!(old.status, environment.status, "I15: terminal status");
        }
        if matches!(
            old.initialization,
            Initialization::Complete { .. } | Initialization::Failed
        ) {
            assert_eq!(
                old.initialization, environment.initialization,
                "I15: terminal initialization"
            );
        }
        let again = matches!(old.initialization, Initialization::Running { .. })
            && environment.initialization == Initialization::Pending;
        assert!(!again, "I6: one attempt");
        let (was, is) = (old.observation, environment.observation);
        assert!(
            (was.generation, was.revision) <= (is.generation, is.revision),
            "I20: observations only grow"
        );
        if old.status == EnvironmentStatus::Failed {
            assert_eq!(
                before.events.len(),
                after.events.len(),
                "I3: no further event"
            );
        }
    }
    if environment.status == EnvironmentStatus::Failed {
        assert!(
            pending(after).next().is_none(),
            "I3: no pending reservation"
        );
        assert!(live(after).next().is_none(), "I3: no active Turn");
        let shown = project(&after.load(None));
        assert_eq!(shown.status, SessionStatus::Failed, "I3");
        assert_eq!(
            Some(shown.last_active_at),
            environment.failure.map(|failure| failure.at),
            "I3: ENV-362"
        );
    }
    if environment.status == EnvironmentStatus::Expired {
        assert!(
            pending(after).next().is_none(),
            "I4: no pending reservation"
        );
        assert!(
            live(after).all(|turn| turn.cancel.is_some()),
            "I4: active work is cancelled"
        );
        if placement == Some(Placement::OpenaiHosted) {
            assert!(
                after
                    .devices
                    .values()
                    .all(|device| device.revoked_at.is_some()),
                "I4: authority revoked"
            );
            let gone = |phase| {
                matches!(
                    phase,
                    AllocationPhase::Releasing | AllocationPhase::Released
                )
            };
            assert!(
                after.allocation.as_ref().is_none_or(|row| gone(row.phase)),
                "I4: compute is reclaimed"
            );
        }
    }
    if !after.turns.is_empty() {
        assert!(
            matches!(environment.initialization, Initialization::Complete { .. }),
            "I5: a Turn needs a prepared Environment"
        );
    }
}

fn turns(model: &Model) {
    let placement = model.session.as_ref().map(|row| row.placement);
    for turn in model.turns.values() {
        let open = model
            .calls
            .values()
            .any(|call| call.turn_id == turn.id && call.state.is_open());
        assert_eq!(
            turn.status() == TurnStatus::Waiting,
            turn.is_live() && open,
            "I7: {turn:?}"
        );
        if turn.status() == TurnStatus::Queued || !is_capturing(turn) {
            assert!(
                turn.status() != TurnStatus::Queued || placement == Some(Placement::None),
                "2: queued only on none"
            );
        } else {
            assert_ne!(placement, Some(Placement::None), "2: no capture on none");
        }
        let mut inputs: Vec<_> = model
            .inputs
            .values()
            .filter(|row| row.turn_id == turn.id)
            .collect();
        inputs.sort_by_key(|row| row.position);
        assert!(!inputs.is_empty(), "I10: a Turn has input");
        let order: Vec<_> = inputs
            .iter()
            .map(|row| model.items[&row.item_id].position)
            .collect();
        assert!(order.is_sorted(), "I10: order of Items = order of delivery");
        if let TurnState::Ended { outcome, .. } = &turn.state {
            let open = model
                .items
                .values()
                .filter(|item| item.turn_id == turn.id && !item.is_ended())
                .count();
            assert_eq!(open, 0, "I12: every Item is ended");
            if *outcome == Outcome::Completed {
                assert!(inputs.iter().all(|row| row.delivery.is_applied()), "I25");
                assert!(
                    placement == Some(Placement::None) || turn.cancel.is_none(),
                    "D14"
                );
            }
        }
    }
    for artifact in model.artifacts.values() {
        assert_eq!(
            model.turns[&artifact.turn_id].status(),
            TurnStatus::Completed,
            "I24"
        );
    }
}

fn projection(model: &Model) {
    let state = model.load(None);
    let shown = project(&state);
    if state.session.deleted_at.is_some() {
        return;
    }
    let connection = shown
        .required_actions
        .iter()
        .any(|action| matches!(action, RequiredAction::EnvironmentConnection { .. }));
    let calls = shown
        .required_actions
        .iter()
        .any(|action| matches!(action, RequiredAction::FunctionCall { .. }));
    assert!(!(connection && calls), "I8: never both");
    assert_eq!(
        shown.status == SessionStatus::RequiresAction,
        connection || calls,
        "I8"
    );
    assert_eq!(
        shown.error.is_some(),
        shown.status == SessionStatus::Failed,
        "2.3: error only with failed"
    );
    let newest = model.events.iter().rev().find_map(|event| match event {
        EventPayload::Session { snapshot, .. } => Some(snapshot),
        _ => None,
    });
    assert_eq!(
        newest.map(facts),
        Some(facts(&shown)),
        "I9: the newest Session event shows what a read shows"
    );
    assert_eq!(shown.usage, expected_usage(model), "I26");
}

fn facts(projection: &Projection) -> (SessionStatus, &Option<String>, &Vec<RequiredAction>) {
    (
        projection.status,
        &projection.error,
        &projection.required_actions,
    )
}

fn expected_usage(model: &Model) -> Option<crate::usage::Usage> {
    if live(model).next().is_some() {
        return None;
    }
    model
        .turns
        .values()
        .fold(UsageSum::Nothing, |sum, turn| sum.with_turn(turn.usage))
        .public()
}

fn allocation(model: &Model) {
    let Some(allocation) = &model.allocation else {
        return;
    };
    assert_eq!(
        model.session.as_ref().map(|row| row.placement),
        Some(Placement::OpenaiHosted),
        "I22"
    );
    if allocation.phase == AllocationPhase::Released {
        assert!(
            allocation.create_settled,
            "I22: released only with a settled create"
        );
    }
}

fn events(model: &Model) {
    let first = model.events.first();
    assert!(
        matches!(
            first,
            Some(EventPayload::Session {
                event: SessionEvent::Created,
                ..
            })
        ),
        "I13: number 1"
    );
    let mut turns = BTreeMap::<TurnId, String>::new();
    let mut items = BTreeMap::<ItemId, bool>::new();
    let mut environment = String::new();
    let mut shown: Option<&Projection> = None;
    for event in &model.events {
        match event {
            EventPayload::Turn { event, turn } => {
                let letter = match event {
                    TurnEvent::Created => 'c',
                    TurnEvent::InProgress => 'p',
                    TurnEvent::Completed | TurnEvent::Failed | TurnEvent::Cancelled => 'e',
                };
                turns.entry(turn.id).or_default().push(letter);
            }
            EventPayload::ItemAdded { item } => {
                assert!(
                    items.insert(item.id, item.output_index.is_none()).is_none(),
                    "I13: added once"
                );
                assert_ne!(
                    turns
                        .get(&item.turn_id)
                        .and_then(|seen| seen.chars().last()),
                    Some('e'),
                    "I11: nothing after the end"
                );
            }
            EventPayload::ItemDone { item } => {
                assert_eq!(
                    items.insert(item.id, true),
                    Some(false),
                    "I13: done once, after added, outputs only"
                );
                assert!(item.is_ended(), "I13");
                assert_eq!(
                    model.items.get(&item.id),
                    Some(item),
                    "I13: an ended Item never changes"
                );
            }
            EventPayload::Environment { event, .. } => environment.push(match event {
                EnvironmentEvent::Pending => 'n',
                EnvironmentEvent::Connected => 'c',
                EnvironmentEvent::Ready => 'r',
                EnvironmentEvent::Disconnected => 'd',
                EnvironmentEvent::Failed => 'f',
            }),
            EventPayload::Session {
                event,
                cause,
                snapshot,
                ..
            } => {
                if *cause == Cause::Other
                    && let Some(shown) = shown
                {
                    assert_ne!(
                        facts(shown),
                        facts(snapshot),
                        "I9: neighbours without a cause differ"
                    );
                }
                shown = (*event != SessionEvent::Created).then_some(snapshot);
            }
            event => {
                if let Some((at, _)) = event.delta_of() {
                    assert_eq!(
                        items.get(&at.item_id),
                        Some(&false),
                        "a delta inside its Item"
                    );
                }
            }
        }
    }
    for (turn, seen) in turns {
        // created (in_progress (in_progress)*)? end?
        let inner = seen
            .strip_prefix('c')
            .unwrap_or("x")
            .trim_end_matches('e')
            .trim_matches('p');
        assert!(
            inner.is_empty() && seen.matches('e').count() <= 1,
            "I11: {seen}"
        );
        assert_eq!(
            model.turns[&turn].is_live(),
            !seen.ends_with('e'),
            "I11, I12"
        );
    }
    if !environment.is_empty() {
        assert!(
            environment.starts_with('n') && environment.matches('n').count() == 1,
            "I14: {environment}"
        );
        assert!(
            environment.matches('r').count() <= 1,
            "I14: ready at most once"
        );
        if let Some(failed) = environment.find('f') {
            assert_eq!(failed + 1, environment.len(), "I14: nothing after failed");
            assert!(!environment.contains('r'), "I14: never failed after ready");
        }
        let connections: String = environment
            .chars()
            .filter(|event| matches!(event, 'c' | 'd'))
            .collect();
        assert!(
            connections
                .as_bytes()
                .chunks(2)
                .all(|pair| pair == b"cd" || pair == b"c"),
            "I14: {environment}"
        );
    }
}

fn commit(before: &Model, after: &Model) {
    let new = &after.events[before.events.len()..];
    if before
        .session
        .as_ref()
        .is_some_and(|row| row.deleted_at.is_some())
    {
        assert!(new.is_empty(), "I27: no event after the deletion");
    }
    let ended = |event: &EventPayload| match event {
        EventPayload::Turn {
            event: TurnEvent::Completed | TurnEvent::Failed | TurnEvent::Cancelled,
            turn,
        } => Some(turn.id),
        _ => None,
    };
    if let Some((place, turn_id)) = new
        .iter()
        .enumerate()
        .find_map(|(place, event)| Some((place, ended(event)?)))
    {
        let rest = &new[place + 1..];
        let announced = |event: &EventPayload| matches!(event, EventPayload::Session { cause: Cause::TurnEnded { turn_id: of }, .. } if *of == turn_id);
        assert!(
            rest.iter().any(announced),
            "I12: the Session's event follows in the same commit"
        );
    }
}
