//! The input that a database holds, for comparing it with what clients were told was accepted (reliability 4.1).

use domain::{
    SessionId,
    item::{InputPart, Item, ItemBody, UserMessage},
    reservation::{Reservation, ReservationState},
};

use crate::{
    Store, StoreError,
    conn::Conn,
    convert::{id_column, json_column},
};

/// A message of a user, wherever it is: in a Turn, or in a reservation that became none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its Session.
    pub session: SessionId,
    /// The texts of its parts, one after another.
    pub text: String,
}

/// Every message of every Session that is not deleted, each as often as it is stored.
///
/// # Errors
/// What the database says.
pub async fn messages(store: &Store) -> Result<Vec<StoredMessage>, StoreError> {
    let mut snapshot = store.inner.readers.snapshot().await?;
    let conn: &mut Conn = &mut snapshot;
    let mut found = Vec::new();
    let rows = sqlx::query(
        "SELECT i.session_id AS session_id, i.body AS body FROM items i \
         JOIN sessions s ON s.id = i.session_id WHERE s.deleted_at IS NULL ORDER BY i.session_id, i.position",
    )
    .fetch_all(&mut *conn)
    .await?;
    for row in rows {
        let item: Item = json_column(&row, "items", "body")?;
        if let ItemBody::UserMessage(message) = &item.body {
            found.push(StoredMessage {
                session: id_column(&row, "items", "session_id")?,
                text: text(message),
            });
        }
    }
    let rows = sqlx::query(
        "SELECT r.session_id AS session_id, r.body AS body, r.messages AS messages FROM reservations r \
         JOIN sessions s ON s.id = r.session_id WHERE s.deleted_at IS NULL ORDER BY r.session_id, r.work_seq",
    )
    .fetch_all(&mut *conn)
    .await?;
    for row in rows {
        let reservation: Reservation = json_column(&row, "reservations", "body")?;
        if matches!(reservation.state, ReservationState::Admitted { .. }) {
            continue;
        }
        let messages: Vec<UserMessage> = json_column(&row, "reservations", "messages")?;
        let session = id_column(&row, "reservations", "session_id")?;
        found.extend(messages.iter().map(|message| StoredMessage {
            session,
            text: text(message),
        }));
    }
    snapshot.end().await?;
    Ok(found)
}

/// Sessions that are not deleted.
///
/// # Errors
/// What the database says.
pub async fn live_sessions(store: &Store) -> Result<Vec<SessionId>, StoreError> {
    let rows = sqlx::query("SELECT id FROM sessions WHERE deleted_at IS NULL ORDER BY id")
        .fetch_all(&mut store.inner.readers.connection().await?)
        .await?;
    rows.iter()
        .map(|row| id_column(row, "sessions", "id"))
        .collect()
}

fn text(message: &UserMessage) -> String {
    let parts = message.content.iter().map(|part| match part {
        InputPart::InputText { text } => text.as_str(),
        InputPart::InputImage { image_url } => image_url.as_str(),
    });
    parts.collect()
}
