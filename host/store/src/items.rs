//! Item rows, and the text that still streams.

use domain::{ItemId, SessionId, TurnId, item::Item, session_state::PartialText};
use sqlx::Row;

use crate::{
    conn::Conn,
    convert::{expect_written, int, json_column, to_json},
    error::StoreError,
};

/// Inserts an Item, or replaces one that has not ended (I13).
pub(crate) async fn put(
    conn: &mut Conn,
    session: SessionId,
    item: &Item,
) -> Result<(), StoreError> {
    let done = sqlx::query(
        "INSERT INTO items (id, session_id, turn_id, position, native_key, ended, body) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET ended = excluded.ended, \
         body = excluded.body WHERE items.ended = 0",
    )
    .bind(item.id.to_string())
    .bind(session.to_string())
    .bind(item.turn_id.to_string())
    .bind(int(item.position)?)
    .bind(item.key.clone())
    .bind(i64::from(item.is_ended()))
    .bind(to_json(item)?)
    .execute(conn)
    .await?;
    expect_written(done.rows_affected(), "items")
}

/// The Items of a Turn that have not ended, by position.
pub(crate) async fn open(conn: &mut Conn, turn: TurnId) -> Result<Vec<Item>, StoreError> {
    let rows =
        sqlx::query("SELECT body FROM items WHERE turn_id = $1 AND ended = 0 ORDER BY position")
            .bind(turn.to_string())
            .fetch_all(conn)
            .await?;
    rows.iter()
        .map(|row| json_column(row, "items", "body"))
        .collect()
}

/// One Item.
pub(crate) async fn get(conn: &mut Conn, id: ItemId) -> Result<Option<Item>, StoreError> {
    let row = sqlx::query("SELECT body FROM items WHERE id = $1")
        .bind(id.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| json_column(&row, "items", "body"))
        .transpose()
}

/// The Item of a Turn with the harness's key.
pub(crate) async fn by_key(
    conn: &mut Conn,
    turn: TurnId,
    key: &str,
) -> Result<Option<Item>, StoreError> {
    let row = sqlx::query("SELECT body FROM items WHERE turn_id = $1 AND native_key = $2")
        .bind(turn.to_string())
        .bind(key)
        .fetch_optional(conn)
        .await?;
    row.map(|row| json_column(&row, "items", "body"))
        .transpose()
}

/// All Items of a Turn by position.
pub(crate) async fn of_turn(
    conn: &mut Conn,
    turn: TurnId,
    limit: u32,
) -> Result<Vec<Item>, StoreError> {
    let rows = sqlx::query("SELECT body FROM items WHERE turn_id = $1 ORDER BY position LIMIT $2")
        .bind(turn.to_string())
        .bind(i64::from(limit))
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| json_column(row, "items", "body"))
        .collect()
}

/// The text streamed so far of an Item, by part.
pub(crate) async fn partial(conn: &mut Conn, item: ItemId) -> Result<Vec<PartialText>, StoreError> {
    let rows = sqlx::query("SELECT part, body FROM events WHERE delta_of = $1 ORDER BY number")
        .bind(item.to_string())
        .fetch_all(conn)
        .await?;
    let mut parts: Vec<PartialText> = Vec::new();
    for row in rows {
        let index =
            u32::try_from(row.try_get::<i64, _>("part")?).map_err(|_| StoreError::Corrupt {
                table: "events",
                column: "part",
            })?;
        let event: domain::EventPayload = json_column(&row, "events", "body")?;
        let Some((_, delta)) = event.delta_of() else {
            continue;
        };
        match parts.iter_mut().find(|part| part.index == index) {
            Some(part) => part.text.push_str(delta),
            None => parts.push(PartialText {
                item_id: item,
                index,
                text: delta.to_owned(),
            }),
        }
    }
    Ok(parts)
}
