//! Loading one Session's aggregate, with only the parts that a decision needs.

use domain::input::ReceiptTarget;
use domain::{SessionId, SessionState, call::CallId, session_state::Retry};

use crate::{
    allocations, calls,
    conn::Conn,
    convert::{count_column, json_column, optional_json_column},
    devices,
    error::StoreError,
    items, receipts, reservations, turns,
};

/// What every decision loads, in one statement: each one costs two hops between threads, whatever it reads.
const CORE: &str = concat!(
    "SELECT s.body AS session, s.last_event AS last_event, \
     (SELECT e.body FROM environments e WHERE e.session_id = s.id) AS environment, \
     (SELECT t.body FROM turns t WHERE t.session_id = s.id ORDER BY t.work_seq DESC LIMIT 1) AS turn, ",
    reservations::columns!("r"),
    " FROM sessions s LEFT JOIN reservations r ON r.id = \
     (SELECT n.id FROM reservations n WHERE n.session_id = s.id ORDER BY n.work_seq DESC LIMIT 1) \
     WHERE s.id = $1"
);

/// Which parts beyond Session, Environment, newest reservation and newest root Turn are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Messages of the newest Turn.
    pub inputs: bool,
    /// Open calls of the newest Turn.
    pub calls: bool,
    /// Calls that a command names.
    pub named_calls: Vec<CallId>,
    /// Items in progress of the newest Turn.
    pub open_items: bool,
    /// Items of the newest Turn with these keys of the harness.
    pub item_keys: Vec<String>,
    /// Streamed text of the Items in progress.
    pub partial: bool,
    /// What an idempotency key named before.
    pub retry_key: Option<String>,
    /// Binding and device.
    pub binding: bool,
    /// Allocation.
    pub allocation: bool,
}

impl Parts {
    /// Everything that an end of a Turn, a deletion or a recovery may touch.
    pub fn whole() -> Self {
        Self {
            inputs: true,
            calls: true,
            open_items: true,
            partial: true,
            binding: true,
            allocation: true,
            ..Self::default()
        }
    }
}

/// Loads one Session, deleted ones included.
pub(crate) async fn load(
    conn: &mut Conn,
    id: SessionId,
    parts: &Parts,
) -> Result<Option<(SessionState, u64)>, StoreError> {
    let row = sqlx::query(CORE)
        .bind(id.to_string())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let last_event = count_column(&row, "sessions", "last_event")?;
    let mut state = SessionState::of(json_column(&row, "sessions", "session")?);
    state.environment = optional_json_column(&row, "environments", "environment")?;
    state.reservation = reservations::joined(&row)?;
    state.turn = optional_json_column(&row, "turns", "turn")?;
    if let Some(turn) = state.turn.as_ref().map(|turn| turn.id) {
        if parts.inputs {
            state.inputs = turns::inputs(conn, turn).await?;
        }
        if parts.calls {
            state.calls = calls::open(conn, turn).await?;
        }
        if parts.open_items || parts.partial {
            state.items = items::open(conn, turn).await?;
        }
        for key in &parts.item_keys {
            let known = |item: &domain::item::Item| item.key.as_ref() == Some(key);
            if !state.items.iter().any(known) {
                state.items.extend(items::by_key(conn, turn, key).await?);
            }
        }
        if parts.partial {
            for item in state.items.clone() {
                if !item.is_ended() {
                    state.partial.extend(items::partial(conn, item.id).await?);
                }
            }
        }
    }
    for call in &parts.named_calls {
        for call in calls::named(conn, id, call).await? {
            if !state
                .calls
                .iter()
                .any(|known| known.turn_id == call.turn_id && known.call_id == call.call_id)
            {
                state.calls.push(call);
            }
        }
    }
    if let Some(key) = &parts.retry_key
        && let Some(receipt) = receipts::by_key(conn, id, key).await?
    {
        let reservation = match receipt.target {
            ReceiptTarget::Reservation(id) => reservations::get(conn, id).await?,
            ReceiptTarget::Turn(_) | ReceiptTarget::None => None,
        };
        state.retry = Some(Retry {
            receipt,
            reservation,
        });
    }
    if parts.binding || parts.allocation {
        state.binding = devices::binding(conn, id).await?;
        if let Some(binding) = &state.binding {
            state.device = devices::get(conn, binding.device_id).await?;
        }
    }
    if parts.allocation && state.environment.is_some() {
        state.allocation = allocations::of_session(conn, id).await?;
    }
    Ok(Some((state, last_event)))
}
