//! Root Turn rows, and the messages on their way to a Run.

use domain::{
    SessionId, TurnId,
    input::Input,
    turn::{Turn, TurnStatus},
};

use crate::{
    conn::Conn,
    convert::{expect_written, int, json_column, to_json},
    error::StoreError,
};

/// Inserts a Turn, or replaces one that is not terminal.
pub(crate) async fn put(conn: &mut Conn, turn: &Turn) -> Result<(), StoreError> {
    let done = sqlx::query(
        "INSERT INTO turns (id, session_id, work_seq, status, live, created_at, body) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET status = excluded.status, \
         live = excluded.live, body = excluded.body WHERE turns.live = 1",
    )
    .bind(turn.id.to_string())
    .bind(turn.session_id.to_string())
    .bind(int(turn.work_seq.0)?)
    .bind(match turn.status() {
        TurnStatus::Queued => "queued",
        TurnStatus::InProgress => "in_progress",
        TurnStatus::Waiting => "waiting",
        TurnStatus::Completed => "completed",
        TurnStatus::Failed => "failed",
        TurnStatus::Cancelled => "cancelled",
    })
    .bind(i64::from(turn.is_live()))
    .bind(turn.created_at.millis())
    .bind(to_json(turn)?)
    .execute(conn)
    .await?;
    expect_written(done.rows_affected(), "turns")
}

/// Inserts or replaces a message.
pub(crate) async fn put_input(
    conn: &mut Conn,
    session: SessionId,
    input: &Input,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO inputs (id, session_id, turn_id, position, body) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
    )
    .bind(input.id.to_string())
    .bind(session.to_string())
    .bind(input.turn_id.to_string())
    .bind(i64::from(input.position))
    .bind(to_json(input)?)
    .execute(conn)
    .await?;
    Ok(())
}

/// The messages of a Turn by position.
pub(crate) async fn inputs(conn: &mut Conn, turn: TurnId) -> Result<Vec<Input>, StoreError> {
    let rows = sqlx::query("SELECT body FROM inputs WHERE turn_id = $1 ORDER BY position")
        .bind(turn.to_string())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| json_column(row, "inputs", "body"))
        .collect()
}
