//! Receipts of admitted batches: written once, never changed (W-IDEM-10).

use domain::{SessionId, input::Receipt};

use crate::{
    conn::Conn,
    convert::{json_column, to_json},
    error::StoreError,
};

/// Adds a receipt.
pub(crate) async fn add(conn: &mut Conn, receipt: &Receipt) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO receipts (id, session_id, key, body) VALUES ($1, $2, $3, $4)")
        .bind(receipt.id.to_string())
        .bind(receipt.session_id.to_string())
        .bind(receipt.key.clone())
        .bind(to_json(receipt)?)
        .execute(conn)
        .await?;
    Ok(())
}

/// The receipt that holds a key of a Session.
pub(crate) async fn by_key(
    conn: &mut Conn,
    session: SessionId,
    key: &str,
) -> Result<Option<Receipt>, StoreError> {
    let row = sqlx::query("SELECT body FROM receipts WHERE session_id = $1 AND key = $2")
        .bind(session.to_string())
        .bind(key)
        .fetch_optional(conn)
        .await?;
    row.map(|row| json_column(&row, "receipts", "body"))
        .transpose()
}
