//! Session rows.

use domain::{
    SessionId,
    session::{Placement, Session},
};

use crate::{
    conn::Conn,
    convert::{count_column, int, json_column, to_json},
    error::StoreError,
};

/// Inserts or replaces a Session; its event counter stays.
pub(crate) async fn put(conn: &mut Conn, session: &Session) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO sessions (id, project_id, agent_id, configuration_id, placement, created_at, deleted_at, \
         last_event, trimmed_through, body) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8) \
         ON CONFLICT (id) DO UPDATE SET deleted_at = excluded.deleted_at, body = excluded.body",
    )
    .bind(session.id.to_string())
    .bind(session.project_id.to_string())
    .bind(session.agent_id.to_string())
    .bind(session.configuration.to_string())
    .bind(placement(session.placement))
    .bind(session.created_at.millis())
    .bind(session.deleted_at.map(|at| at.millis()))
    .bind(to_json(session)?)
    .execute(conn)
    .await?;
    Ok(())
}

/// Reads a Session, deleted ones included, with the number of its newest event.
pub(crate) async fn get(
    conn: &mut Conn,
    id: SessionId,
) -> Result<Option<(Session, u64)>, StoreError> {
    let row = sqlx::query("SELECT body, last_event FROM sessions WHERE id = $1")
        .bind(id.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| {
        Ok((
            json_column(&row, "sessions", "body")?,
            count_column(&row, "sessions", "last_event")?,
        ))
    })
    .transpose()
}

/// Takes the next `count` event numbers, for events with so many bytes of deltas; the answer is the last of them.
pub(crate) async fn take_numbers(
    conn: &mut Conn,
    id: SessionId,
    count: u64,
    delta_bytes: u64,
) -> Result<u64, StoreError> {
    let row = sqlx::query(
        "UPDATE sessions SET last_event = last_event + $2, delta_bytes = delta_bytes + $3 WHERE id = $1 \
         RETURNING last_event",
    )
    .bind(id.to_string())
    .bind(int(count)?)
    .bind(int(delta_bytes)?)
    .fetch_optional(conn)
    .await?
    .ok_or(StoreError::Missing { table: "sessions" })?;
    count_column(&row, "sessions", "last_event")
}

/// Notes that deltas up to a number may be absent, and counts those that are left.
pub(crate) async fn set_trimmed(
    conn: &mut Conn,
    id: SessionId,
    through: u64,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE sessions SET trimmed_through = CASE WHEN trimmed_through < $2 THEN $2 ELSE trimmed_through END, \
         delta_bytes = (SELECT COALESCE(SUM(OCTET_LENGTH(body)), 0) FROM events \
         WHERE session_id = $1 AND delta_of IS NOT NULL) WHERE id = $1",
    )
    .bind(id.to_string())
    .bind(int(through)?)
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes rows of a deleted Session, at most `slice` of each kind; `false`: there may be more. Its events go first and from
/// the first one, so that a Session without its first event is known as one that is being purged.
pub(crate) async fn purge_slice(
    conn: &mut Conn,
    id: SessionId,
    slice: u32,
) -> Result<bool, StoreError> {
    for statement in [
        "DELETE FROM events WHERE session_id = $1 AND number IN \
         (SELECT number FROM events WHERE session_id = $1 ORDER BY number LIMIT $2)",
        "DELETE FROM artifacts WHERE id IN (SELECT id FROM artifacts WHERE session_id = $1 LIMIT $2)",
        "DELETE FROM inputs WHERE id IN (SELECT id FROM inputs WHERE session_id = $1 LIMIT $2)",
        "DELETE FROM calls WHERE (turn_id, call_id) IN \
         (SELECT turn_id, call_id FROM calls WHERE session_id = $1 LIMIT $2)",
        "DELETE FROM items WHERE id IN (SELECT id FROM items WHERE session_id = $1 LIMIT $2)",
    ] {
        let done = sqlx::query(statement)
            .bind(id.to_string())
            .bind(i64::from(slice))
            .execute(&mut *conn)
            .await?;
        if done.rows_affected() >= u64::from(slice) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The end of a purge: what stays of a deleted Session is its tombstone, retry identity and settlement rows (reliability 4.10).
pub(crate) async fn purge(conn: &mut Conn, id: SessionId, now: i64) -> Result<(), StoreError> {
    while !purge_slice(conn, id, u32::MAX).await? {}
    let session = id.to_string();
    for statement in [
        "UPDATE reservations SET messages = '[]' WHERE session_id = $1",
        "UPDATE configurations SET body = '{}', sealed_provider = NULL, sealed_environment = NULL \
         WHERE id = (SELECT configuration_id FROM sessions WHERE id = $1)",
    ] {
        sqlx::query(statement)
            .bind(&session)
            .execute(&mut *conn)
            .await?;
    }
    let done =
        sqlx::query("UPDATE sessions SET purged_at = $2 WHERE id = $1 AND deleted_at IS NOT NULL")
            .bind(&session)
            .bind(now)
            .execute(conn)
            .await?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(StoreError::Missing { table: "sessions" })
    }
}

fn placement(placement: Placement) -> &'static str {
    match placement {
        Placement::None => "none",
        Placement::OpenaiHosted => "openai_hosted",
        Placement::SelfHosted => "self_hosted",
    }
}
