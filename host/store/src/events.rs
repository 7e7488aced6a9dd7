//! Public events: numbered when applied, read by cursor.

use domain::{EventId, EventPayload, SessionId, Timestamp, event::EVENT_VERSION};
use sqlx::Row;

use crate::{
    conn::Conn,
    convert::{count_column, id_column, int, json_column, to_json},
    error::StoreError,
    sessions,
};

/// One committed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in the Session.
    pub number: u64,
    /// Its public id.
    pub id: EventId,
    /// Database time of its unit.
    pub at: Timestamp,
    /// What it says.
    pub payload: EventPayload,
}

/// Numbers and adds events; the answer is the newest number.
pub(crate) async fn add(
    conn: &mut Conn,
    session: SessionId,
    events: &[EventPayload],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let rows = events
        .iter()
        .map(|event| Ok((event.delta_of(), to_json(event)?)))
        .collect::<Result<Vec<_>, StoreError>>()?;
    let deltas = rows.iter().filter(|(delta, _)| delta.is_some());
    let delta_bytes = deltas.map(|(_, body)| body.len() as u64).sum();
    let last = sessions::take_numbers(conn, session, rows.len() as u64, delta_bytes).await?;
    let mut number = last + 1 - rows.len() as u64;
    for group in groups(&rows) {
        let statement = if group.len() == GROUP { FOUR } else { ONE };
        let mut insert = sqlx::query(statement)
            .bind(session.to_string())
            .bind(i64::from(EVENT_VERSION))
            .bind(now.millis());
        for (delta, body) in group {
            insert = insert
                .bind(int(number)?)
                .bind(EventId::new(uuid::Uuid::new_v4()).to_string())
                .bind(delta.map(|(at, _)| at.item_id.to_string()))
                .bind(delta.map(|(at, _)| i64::from(at.index)))
                .bind(body.as_str());
            number += 1;
        }
        insert.execute(&mut *conn).await?;
    }
    Ok(last)
}

/// Events that one statement adds, if there are so many left. Most commits hold one, or the four to eight of a beginning or an end.
const GROUP: usize = 4;

macro_rules! insert {
    ($($row:literal),+) => {
        concat!(
            "INSERT INTO events (session_id, version, at, number, id, delta_of, part, body) VALUES ",
            $($row),+
        )
    };
}

const ONE: &str = insert!("($1, $2, $3, $4, $5, $6, $7, $8)");
const FOUR: &str = insert!(
    "($1, $2, $3, $4, $5, $6, $7, $8), ",
    "($1, $2, $3, $9, $10, $11, $12, $13), ",
    "($1, $2, $3, $14, $15, $16, $17, $18), ",
    "($1, $2, $3, $19, $20, $21, $22, $23)"
);

/// Groups of four, then one by one.
fn groups<T>(rows: &[T]) -> impl Iterator<Item = &[T]> {
    let whole = rows.chunks_exact(GROUP);
    let rest = whole.remainder().chunks(1);
    whole.chain(rest)
}

/// Events after a number, at most `limit` and about `bytes` of them (SC-11.6); at least one if there is any. The database cuts,
/// so that no more of them are in memory than are wanted, however large they are.
pub(crate) async fn after(
    conn: &mut Conn,
    session: SessionId,
    number: u64,
    limit: u32,
    bytes: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = sqlx::query(
        "SELECT e.number, e.id, e.at, e.body FROM (SELECT number, size, SUM(size) OVER (ORDER BY number) AS total \
         FROM (SELECT number, OCTET_LENGTH(body) AS size FROM events WHERE session_id = $1 AND number > $2 \
         ORDER BY number LIMIT $3) AS near) AS sized \
         JOIN events e ON e.session_id = $1 AND e.number = sized.number \
         WHERE sized.total <= $4 OR sized.total = sized.size ORDER BY e.number",
    )
    .bind(session.to_string())
    .bind(int(number)?)
    .bind(i64::from(limit))
    .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(StoredEvent {
                number: count_column(row, "events", "number")?,
                id: id_column(row, "events", "id")?,
                at: Timestamp::from_millis(row.try_get("at")?),
                payload: json_column(row, "events", "body")?,
            })
        })
        .collect()
}

/// Removes deltas of ended Items up to a number, at most `slice` of them; `false`: there may be more.
pub(crate) async fn trim(
    conn: &mut Conn,
    session: SessionId,
    through: u64,
    slice: u32,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "DELETE FROM events WHERE session_id = $1 AND number IN (SELECT number FROM events WHERE session_id = $1 \
         AND number <= $2 AND delta_of IS NOT NULL \
         AND delta_of IN (SELECT id FROM items WHERE session_id = $1 AND ended = 1) ORDER BY number LIMIT $3)",
    )
    .bind(session.to_string())
    .bind(int(through)?)
    .bind(i64::from(slice))
    .execute(&mut *conn)
    .await?;
    sessions::set_trimmed(conn, session, through).await?;
    Ok(done.rows_affected() < u64::from(slice))
}

/// The newest delta that, with all newer ones, is over so many bytes; none if all of them are not.
pub(crate) async fn oversized(
    conn: &mut Conn,
    session: SessionId,
    bytes: u64,
) -> Result<Option<u64>, StoreError> {
    let row = sqlx::query(
        "SELECT number FROM (SELECT number, SUM(OCTET_LENGTH(body)) OVER (ORDER BY number DESC) AS size \
         FROM events WHERE session_id = $1 AND delta_of IS NOT NULL) AS deltas \
         WHERE size > $2 ORDER BY number DESC LIMIT 1",
    )
    .bind(session.to_string())
    .bind(int(bytes)?)
    .fetch_optional(conn)
    .await?;
    row.map(|row| count_column(&row, "events", "number"))
        .transpose()
}
