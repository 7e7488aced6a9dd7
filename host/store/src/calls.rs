//! Function call rows.

use domain::{
    SessionId, TurnId,
    call::{Call, CallId},
};

use crate::{
    conn::Conn,
    convert::{expect_written, json_column, to_json},
    error::StoreError,
};

/// Inserts a call, or replaces one that is open.
pub(crate) async fn put(
    conn: &mut Conn,
    session: SessionId,
    call: &Call,
) -> Result<(), StoreError> {
    let done = sqlx::query(
        "INSERT INTO calls (turn_id, call_id, session_id, position, open, body) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (turn_id, call_id) DO UPDATE SET open = excluded.open, body = excluded.body WHERE calls.open = 1",
    )
    .bind(call.turn_id.to_string())
    .bind(call.call_id.0.clone())
    .bind(session.to_string())
    .bind(i64::from(call.position))
    .bind(i64::from(call.state.is_open()))
    .bind(to_json(call)?)
    .execute(conn)
    .await?;
    expect_written(done.rows_affected(), "calls")
}

/// The open calls of a Turn in order of registration.
pub(crate) async fn open(conn: &mut Conn, turn: TurnId) -> Result<Vec<Call>, StoreError> {
    let rows =
        sqlx::query("SELECT body FROM calls WHERE turn_id = $1 AND open = 1 ORDER BY position")
            .bind(turn.to_string())
            .fetch_all(conn)
            .await?;
    rows.iter()
        .map(|row| json_column(row, "calls", "body"))
        .collect()
}

/// The calls of a Session with this id, of whatever Turn.
pub(crate) async fn named(
    conn: &mut Conn,
    session: SessionId,
    call: &CallId,
) -> Result<Vec<Call>, StoreError> {
    let rows = sqlx::query(
        "SELECT body FROM calls WHERE session_id = $1 AND call_id = $2 ORDER BY turn_id",
    )
    .bind(session.to_string())
    .bind(call.0.clone())
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| json_column(row, "calls", "body"))
        .collect()
}
