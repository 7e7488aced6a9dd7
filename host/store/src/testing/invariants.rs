//! The invariants of the design over a whole database (reliability 4, state-machines 2). Run after every crash, race and
//! suite; the answer lists what is violated, empty if nothing is.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    EventPayload, ItemId, SessionId, SessionState, TurnId,
    environment::{EnvironmentStatus, Initialization},
    event::{EnvironmentEvent, SessionEvent, TurnEvent},
    input::{BatchKind, Input, Receipt, ReceiptTarget},
    item::{Item, ItemBody},
    reservation::{Reservation, ReservationState},
    session::{Session, SessionStatus, project},
    turn::{Outcome, RunPhase, Turn, TurnState},
    usage::UsageSum,
};
use sqlx::Row;

use crate::{
    Parts, Store, StoreError,
    conn::Conn,
    convert::{count_column, from_json, id_column, json_column},
    events::{self, StoredEvent},
    load::load,
    tx::read_clock,
};

/// Checks every Session. With `quiescent` nothing may be under way any more: no due reservation, no claim without owner.
///
/// # Errors
/// What the database says.
pub async fn violations(store: &Store, quiescent: bool) -> Result<Vec<String>, StoreError> {
    let mut snapshot = store.inner.readers.snapshot().await?;
    let conn: &mut Conn = &mut snapshot;
    let now = read_clock(conn, store.inner.dialect).await?;
    let epoch = crate::lease::read(conn).await?.epoch;
    let rows =
        sqlx::query("SELECT id, last_event, trimmed_through, purged_at FROM sessions ORDER BY id")
            .fetch_all(&mut *conn)
            .await?;
    let mut report = Report::default();
    for row in rows {
        let id: SessionId = id_column(&row, "sessions", "id")?;
        report.session = Some(id);
        if row.try_get::<Option<i64>, _>("purged_at")?.is_some() {
            purged(conn, id, &mut report).await?;
            continue;
        }
        let last = count_column(&row, "sessions", "last_event")?;
        let trimmed = count_column(&row, "sessions", "trimmed_through")?;
        let parts = Parts {
            calls: true,
            inputs: true,
            open_items: true,
            binding: true,
            allocation: true,
            ..Parts::default()
        };
        let Some((state, _)) = load(conn, id, &parts).await? else {
            continue;
        };
        let history = History::read(conn, id, last).await?;
        let first = history.events.first().map(|event| event.number);
        if first != Some(1) && !domain::retention::purge(&state).is_empty() {
            continue; // a purge that goes on with its next slice
        }
        numbers(&history, last, trimmed, &mut report);
        turn_events(&history, &mut report);
        item_events(&history, &mut report);
        environment_events(&history, &state, &mut report);
        newest_session_event(&history, &state, &mut report);
        state_facts(&state, &history, &mut report);
        inputs(&history, &mut report);
        if quiescent {
            for reservation in history.reservations.iter().filter(|row| row.is_pending()) {
                report.check(reservation.deadline > now, "reliability 4.9", || {
                    format!("{} is past its deadline", reservation.id)
                });
            }
            for turn in &history.turns {
                if let TurnState::Active { claim, .. } = &turn.state {
                    report.check(claim.owner_epoch == epoch, "I21", || {
                        format!("Turn {} is claimed by a former owner", turn.id)
                    });
                }
            }
        }
    }
    columns(conn, &mut report).await?;
    snapshot.end().await?;
    Ok(report.found)
}

#[derive(Default)]
struct Report {
    session: Option<SessionId>,
    found: Vec<String>,
}

impl Report {
    fn check(&mut self, holds: bool, rule: &str, say: impl FnOnce() -> String) {
        if !holds {
            let session = self
                .session
                .map(|id| format!("Session {id}: "))
                .unwrap_or_default();
            self.found.push(format!("{rule}: {session}{}", say()));
        }
    }
}

struct History {
    events: Vec<StoredEvent>,
    turns: Vec<Turn>,
    items: Vec<Item>,
    inputs: Vec<Input>,
    reservations: Vec<Reservation>,
    receipts: Vec<Receipt>,
}

impl History {
    async fn read(conn: &mut Conn, id: SessionId, last: u64) -> Result<Self, StoreError> {
        let limit = u32::try_from(last).unwrap_or(u32::MAX).saturating_add(1);
        Ok(Self {
            events: events::after(conn, id, 0, limit, usize::MAX).await?,
            turns: bodies(
                conn,
                "SELECT body FROM turns WHERE session_id = $1 ORDER BY work_seq",
                id,
            )
            .await?,
            items: bodies(
                conn,
                "SELECT body FROM items WHERE session_id = $1 ORDER BY position",
                id,
            )
            .await?,
            inputs: bodies(
                conn,
                "SELECT body FROM inputs WHERE session_id = $1 ORDER BY turn_id, position",
                id,
            )
            .await?,
            reservations: bodies(
                conn,
                "SELECT body FROM reservations WHERE session_id = $1 ORDER BY work_seq",
                id,
            )
            .await?,
            receipts: bodies(
                conn,
                "SELECT body FROM receipts WHERE session_id = $1 ORDER BY id",
                id,
            )
            .await?,
        })
    }
}

async fn bodies<T: serde::de::DeserializeOwned>(
    conn: &mut Conn,
    sql: &'static str,
    id: SessionId,
) -> Result<Vec<T>, StoreError> {
    let rows = sqlx::query(sql)
        .bind(id.to_string())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| json_column(row, "history", "body"))
        .collect()
}

/// I13: 1..n without a hole; only trimmed deltas may be absent. Number 1 is `S.created`.
fn numbers(history: &History, last: u64, trimmed: u64, report: &mut Report) {
    let present: BTreeSet<u64> = history.events.iter().map(|event| event.number).collect();
    report.check(
        present.last().copied().unwrap_or(0) == last || last <= trimmed,
        "I13",
        || "the newest event is missing".into(),
    );
    for number in 1..=last {
        report.check(
            number <= trimmed || present.contains(&number),
            "I13",
            || format!("event {number} is missing"),
        );
    }
    let ids: BTreeSet<String> = history
        .events
        .iter()
        .map(|event| event.id.to_string())
        .collect();
    report.check(ids.len() == history.events.len(), "S-SSE-2", || {
        "an event id repeats".into()
    });
    let created = history
        .events
        .iter()
        .filter(|event| is_created(&event.payload))
        .count();
    report.check(
        created == 1
            && history
                .events
                .first()
                .is_some_and(|event| is_created(&event.payload)),
        "I13",
        || "the first event is not the only agent.session.created".into(),
    );
}

fn is_created(event: &EventPayload) -> bool {
    matches!(
        event,
        EventPayload::Session {
            event: SessionEvent::Created,
            ..
        }
    )
}

/// I11: `created (in_progress)* end?`, nothing with this Turn after its end. I12: a Session event follows in the commit.
fn turn_events(history: &History, report: &mut Report) {
    let mut seen: BTreeMap<TurnId, Vec<TurnEvent>> = BTreeMap::new();
    let mut ended: BTreeSet<TurnId> = BTreeSet::new();
    for (index, event) in history.events.iter().enumerate() {
        let about = turn_of(&event.payload);
        if let Some(turn) = about {
            report.check(!ended.contains(&turn), "I11", || {
                format!("event {} is about the ended Turn {turn}", event.number)
            });
        }
        if let EventPayload::Turn { event: kind, turn } = &event.payload {
            seen.entry(turn.id).or_default().push(*kind);
            if matches!(
                kind,
                TurnEvent::Completed | TurnEvent::Failed | TurnEvent::Cancelled
            ) {
                ended.insert(turn.id);
                let next = history
                    .events
                    .get(index + 1)
                    .map(|next| (&next.payload, next.at));
                let follows =
                    matches!(next, Some((EventPayload::Session { .. }, at)) if at == event.at);
                report.check(follows, "I12", || {
                    format!("no Session event follows the end of Turn {}", turn.id)
                });
            }
        }
    }
    for turn in &history.turns {
        let kinds = seen.remove(&turn.id).unwrap_or_default();
        let (first, rest) = kinds
            .split_first()
            .map_or((None, &[][..]), |(first, rest)| (Some(*first), rest));
        report.check(first == Some(TurnEvent::Created), "I11", || {
            format!("Turn {} was not created first", turn.id)
        });
        let ends = rest
            .iter()
            .filter(|kind| **kind != TurnEvent::InProgress)
            .count();
        let end = rest
            .last()
            .copied()
            .filter(|kind| *kind != TurnEvent::InProgress);
        let expected = match &turn.state {
            TurnState::Ended {
                outcome: Outcome::Completed,
                ..
            } => Some(TurnEvent::Completed),
            TurnState::Ended {
                outcome: Outcome::Failed { .. },
                ..
            } => Some(TurnEvent::Failed),
            TurnState::Ended {
                outcome: Outcome::Cancelled,
                ..
            } => Some(TurnEvent::Cancelled),
            TurnState::Queued | TurnState::Active { .. } => None,
        };
        report.check(end == expected && ends <= 1, "I11", || {
            format!("Turn {} has the events {kinds:?}", turn.id)
        });
    }
    report.check(seen.is_empty(), "I11", || {
        format!("events of unknown Turns: {:?}", seen.keys())
    });
}

fn turn_of(event: &EventPayload) -> Option<TurnId> {
    match event {
        EventPayload::Turn { turn, .. } => Some(turn.id),
        EventPayload::ItemAdded { item } | EventPayload::ItemDone { item } => Some(item.turn_id),
        EventPayload::ContentPartAdded { at }
        | EventPayload::TextDelta { at, .. }
        | EventPayload::TextDone { at, .. }
        | EventPayload::ContentPartDone { at, .. }
        | EventPayload::SummaryPartAdded { at }
        | EventPayload::SummaryDelta { at, .. }
        | EventPayload::SummaryDone { at, .. }
        | EventPayload::SummaryPartDone { at, .. }
        | EventPayload::CommandDelta { at, .. } => Some(at.turn_id),
        EventPayload::Session { .. }
        | EventPayload::Environment { .. }
        | EventPayload::Error { .. } => None,
    }
}

/// I13: `I.done` follows its `I.added`, once; an ended Item is what its last event says.
fn item_events(history: &History, report: &mut Report) {
    let (mut added, mut done): (BTreeMap<ItemId, &Item>, BTreeMap<ItemId, &Item>) =
        Default::default();
    for event in &history.events {
        match &event.payload {
            EventPayload::ItemAdded { item } => {
                report.check(added.insert(item.id, item).is_none(), "I13", || {
                    format!("{} was added twice", item.id)
                });
            }
            EventPayload::ItemDone { item } => {
                report.check(added.contains_key(&item.id), "I13", || {
                    format!("{} was done before it was added", item.id)
                });
                report.check(done.insert(item.id, item).is_none(), "I13", || {
                    format!("{} was done twice", item.id)
                });
            }
            _ => {}
        }
    }
    for item in &history.items {
        report.check(added.contains_key(&item.id), "I13", || {
            format!("{} was never added", item.id)
        });
        let last = done.get(&item.id).or_else(|| added.get(&item.id));
        report.check(!item.is_ended() || last == Some(&item), "I13", || {
            format!("{} differs from its last event", item.id)
        });
    }
    let positions: Vec<u64> = history.items.iter().map(|item| item.position).collect();
    report.check(
        positions.iter().copied().eq(1..=positions.len() as u64),
        "S-ITEM-1",
        || "Item positions have holes".into(),
    );
}

/// I14: `pending (connected ready? disconnected)* … failed?`, `ready` at most once, never `failed` after `ready`.
fn environment_events(history: &History, state: &SessionState, report: &mut Report) {
    let kinds: Vec<EnvironmentEvent> = history
        .events
        .iter()
        .filter_map(|event| match &event.payload {
            EventPayload::Environment { event, .. } => Some(*event),
            _ => None,
        })
        .collect();
    report.check(
        state.environment.is_some() != kinds.is_empty(),
        "I14",
        || "Environment events and row disagree".into(),
    );
    let (mut connected, mut ready, mut failed) = (false, false, false);
    for (index, kind) in kinds.iter().enumerate() {
        let fits = !failed
            && match kind {
                EnvironmentEvent::Pending => index == 0,
                EnvironmentEvent::Connected => {
                    index > 0 && !std::mem::replace(&mut connected, true)
                }
                EnvironmentEvent::Disconnected => std::mem::replace(&mut connected, false),
                EnvironmentEvent::Ready => connected && !std::mem::replace(&mut ready, true),
                EnvironmentEvent::Failed => !ready && !std::mem::replace(&mut failed, true),
            };
        report.check(fits, "I14", || format!("Environment events {kinds:?}"));
    }
}

/// I9: the newest Session event shows what a read shows; neighbours without a cause differ.
fn newest_session_event(history: &History, state: &SessionState, report: &mut Report) {
    if state.session.deleted_at.is_some() {
        return;
    }
    let now = project(state);
    let newest = history
        .events
        .iter()
        .rev()
        .find_map(|event| match &event.payload {
            EventPayload::Session { snapshot, .. } => Some(snapshot),
            _ => None,
        });
    let equal = newest.is_some_and(|shown| {
        shown.status == now.status
            && shown.error == now.error
            && shown.required_actions == now.required_actions
    });
    report.check(equal, "I9", || {
        format!(
            "a read shows {:?}, the newest event {:?}",
            now.status,
            newest.map(|shown| shown.status)
        )
    });
}

/// I2, I3, I4, I5, I7, I8, I25, I26 and the table of states that may exist together.
fn state_facts(state: &SessionState, history: &History, report: &mut Report) {
    let pending = state.pending_reservation().is_some();
    let live = state.live_turn();
    if let Some(environment) = &state.environment {
        report.check(!(pending && environment.status.is_terminal()), "I2", || {
            "input waits for an ended Environment".into()
        });
        if environment.status == EnvironmentStatus::Failed {
            let status = project(state).status;
            report.check(
                status == SessionStatus::Failed && live.is_none(),
                "I3",
                || format!("status {status:?}"),
            );
        }
        if environment.status == EnvironmentStatus::Expired {
            report.check(live.is_none_or(|turn| turn.cancel.is_some()), "I4", || {
                "a Turn goes on uncancelled".into()
            });
            if let Some(device) = &state.device {
                report.check(
                    device.revoked_at.is_some() || state.allocation.is_none(),
                    "I4",
                    || "the device keeps its authority".into(),
                );
            }
        }
        let complete = matches!(environment.initialization, Initialization::Complete { .. });
        report.check(state.turn.is_none() || complete, "I5", || {
            "a Turn without a complete initialization".into()
        });
    } else {
        report.check(!pending, "I2", || {
            "input waits without an Environment".into()
        });
    }
    if let Some(turn) = live {
        let open = state
            .calls
            .iter()
            .filter(|call| call.turn_id == turn.id && call.state.is_open())
            .count();
        if let TurnState::Active { phase, .. } = &turn.state {
            report.check((*phase == RunPhase::Waiting) == (open > 0), "I7", || {
                format!("{phase:?} with {open} open calls")
            });
            report.check(
                !pending || matches!(phase, RunPhase::Capturing { .. }),
                "I2",
                || "input waits beside a Run".into(),
            );
        }
    }
    report.check(
        history.turns.iter().filter(|turn| turn.is_live()).count() <= 1,
        "I1",
        || "two live Turns".into(),
    );
    for turn in &history.turns {
        if matches!(
            turn.state,
            TurnState::Ended {
                outcome: Outcome::Completed,
                ..
            }
        ) {
            let unapplied = history
                .inputs
                .iter()
                .filter(|input| input.turn_id == turn.id && !input.delivery.is_applied())
                .count();
            report.check(unapplied == 0, "I25", || {
                format!(
                    "Turn {} completed with {unapplied} unapplied inputs",
                    turn.id
                )
            });
        }
        if !turn.is_live() {
            let open = history
                .items
                .iter()
                .filter(|item| item.turn_id == turn.id && !item.is_ended())
                .count();
            report.check(open == 0, "I12", || {
                format!("Turn {} ended with {open} open Items", turn.id)
            });
        }
    }
    let sum = history
        .turns
        .iter()
        .filter(|turn| !turn.is_live())
        .fold(UsageSum::Nothing, |sum, turn| sum.with_turn(turn.usage));
    report.check(sum == state.session.usage, "I26", || {
        format!(
            "usage {:?} of Turns that sum up to {sum:?}",
            state.session.usage
        )
    });
}

/// I10: every admitted message is in exactly one Turn or in one reservation, in one order.
fn inputs(history: &History, report: &mut Report) {
    let users: BTreeMap<ItemId, &Item> = history
        .items
        .iter()
        .filter(|item| matches!(item.body, ItemBody::UserMessage(_)))
        .map(|item| (item.id, item))
        .collect();
    let mut carried = BTreeSet::new();
    for turn in &history.turns {
        let inputs: Vec<&Input> = history
            .inputs
            .iter()
            .filter(|input| input.turn_id == turn.id)
            .collect();
        let ordered = inputs
            .iter()
            .map(|input| u64::from(input.position))
            .eq(0..inputs.len() as u64);
        report.check(ordered && !inputs.is_empty(), "I10", || {
            format!("inputs of Turn {}", turn.id)
        });
        let positions: Vec<u64> = inputs
            .iter()
            .filter_map(|input| users.get(&input.item_id))
            .map(|item| item.position)
            .collect();
        report.check(
            positions.len() == inputs.len() && positions.is_sorted(),
            "I10",
            || format!("order of input in Turn {}", turn.id),
        );
        carried.extend(inputs.iter().map(|input| input.item_id));
    }
    report.check(
        carried.len() == users.len() && history.inputs.len() == users.len(),
        "I10",
        || "user Items and inputs differ".into(),
    );
    for receipt in history
        .receipts
        .iter()
        .filter(|receipt| receipt.kind == BatchKind::Messages)
    {
        let known = match receipt.target {
            ReceiptTarget::Turn(id) => history
                .inputs
                .iter()
                .any(|input| input.turn_id == id && input.batch_id == receipt.batch_id),
            ReceiptTarget::Reservation(id) => history
                .reservations
                .iter()
                .any(|row| row.id == id && row.batch_id == receipt.batch_id),
            ReceiptTarget::None => false,
        };
        report.check(known, "reliability 4.1", || {
            format!("batch {} was admitted to nothing", receipt.batch_id)
        });
    }
    for reservation in &history.reservations {
        let turn = history
            .inputs
            .iter()
            .find(|input| input.batch_id == reservation.batch_id)
            .map(|input| input.turn_id);
        let expected = match reservation.state {
            ReservationState::Admitted { turn_id } => Some(turn_id),
            _ => None,
        };
        report.check(turn == expected, "I10", || {
            format!("reservation {} and its Turn", reservation.id)
        });
    }
}

/// Reliability 4.10: of a purged Session only the tombstone, the retry identity and the settlement rows remain.
async fn purged(conn: &mut Conn, id: SessionId, report: &mut Report) -> Result<(), StoreError> {
    for (table, sql) in [
        (
            "events",
            "SELECT count(*) AS n FROM events WHERE session_id = $1",
        ),
        (
            "items",
            "SELECT count(*) AS n FROM items WHERE session_id = $1",
        ),
        (
            "inputs",
            "SELECT count(*) AS n FROM inputs WHERE session_id = $1",
        ),
        (
            "calls",
            "SELECT count(*) AS n FROM calls WHERE session_id = $1",
        ),
        (
            "artifacts",
            "SELECT count(*) AS n FROM artifacts WHERE session_id = $1",
        ),
    ] {
        let row = sqlx::query(sql)
            .bind(id.to_string())
            .fetch_one(&mut *conn)
            .await?;
        let left: i64 = row.try_get("n")?;
        report.check(left == 0, "reliability 4.10", || {
            format!("{left} {table} outlive the purge")
        });
    }
    Ok(())
}

/// The columns that repeat members of a row say what the row says.
async fn columns(conn: &mut Conn, report: &mut Report) -> Result<(), StoreError> {
    report.session = None;
    let rows =
        sqlx::query("SELECT turn_id FROM artifacts GROUP BY turn_id, path HAVING count(*) > 1")
            .fetch_all(&mut *conn)
            .await?;
    for row in rows {
        let turn: String = row.try_get("turn_id")?;
        report.check(false, "ART-007", || {
            format!("Turn {turn} published one path twice")
        });
    }
    let rows = sqlx::query("SELECT id, work_seq, live, body FROM turns")
        .fetch_all(&mut *conn)
        .await?;
    for row in rows {
        let turn: Turn = from_json(&row.try_get::<String, _>("body")?, "turns", "body")?;
        let equal = count_column(&row, "turns", "work_seq")? == turn.work_seq.0
            && (row.try_get::<i64, _>("live")? == 1) == turn.is_live()
            && row.try_get::<String, _>("id")? == turn.id.to_string();
        report.check(equal, "columns", || format!("Turn {}", turn.id));
    }
    let rows = sqlx::query("SELECT deleted_at, body FROM sessions")
        .fetch_all(&mut *conn)
        .await?;
    for row in rows {
        let session: Session = from_json(&row.try_get::<String, _>("body")?, "sessions", "body")?;
        let deleted: Option<i64> = row.try_get("deleted_at")?;
        report.check(
            deleted == session.deleted_at.map(|at| at.millis()),
            "columns",
            || format!("Session {}", session.id),
        );
    }
    Ok(())
}
