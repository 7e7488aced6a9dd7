//! Reservation rows. Messages have a column of their own: a status is read without them.

use domain::{
    ReservationId, SessionId,
    reservation::{Reservation, ReservationState},
};
use sqlx::{AnyConnection, any::AnyRow};

use crate::{
    convert::{expect_written, int, json_column, to_json},
    error::StoreError,
};

/// Inserts a reservation, or settles a pending one.
pub(crate) async fn put(
    conn: &mut AnyConnection,
    reservation: &Reservation,
) -> Result<(), StoreError> {
    let bare = Reservation {
        messages: Vec::new(),
        ..reservation.clone()
    };
    let done = sqlx::query(
        "INSERT INTO reservations (id, session_id, work_seq, state, deadline, body, messages) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET state = excluded.state, \
         body = excluded.body WHERE reservations.state = 'pending'",
    )
    .bind(reservation.id.to_string())
    .bind(reservation.session_id.to_string())
    .bind(int(reservation.work_seq.0)?)
    .bind(match reservation.state {
        ReservationState::Pending => "pending",
        ReservationState::Admitted { .. } => "admitted",
        ReservationState::Expired => "expired",
        ReservationState::Cancelled => "cancelled",
        ReservationState::Failed { .. } => "failed",
    })
    .bind(reservation.deadline.millis())
    .bind(to_json(&bare)?)
    .bind(to_json(&reservation.messages)?)
    .execute(conn)
    .await?;
    expect_written(done.rows_affected(), "reservations")
}

/// The newest reservation of a Session. A settled one comes without its messages, which may be megabytes: nothing reads
/// them any more, and every unit of the Session loads this row.
pub(crate) async fn newest(
    conn: &mut AnyConnection,
    session: SessionId,
) -> Result<Option<Reservation>, StoreError> {
    let row = sqlx::query(
        "SELECT body, CASE WHEN state = 'pending' THEN messages ELSE '[]' END AS messages FROM reservations \
         WHERE session_id = $1 ORDER BY work_seq DESC LIMIT 1",
    )
    .bind(session.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| whole(&row)).transpose()
}

/// One reservation.
pub(crate) async fn get(
    conn: &mut AnyConnection,
    id: ReservationId,
) -> Result<Option<Reservation>, StoreError> {
    let row = sqlx::query("SELECT body, messages FROM reservations WHERE id = $1")
        .bind(id.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| whole(&row)).transpose()
}

fn whole(row: &AnyRow) -> Result<Reservation, StoreError> {
    let bare: Reservation = json_column(row, "reservations", "body")?;
    Ok(Reservation {
        messages: json_column(row, "reservations", "messages")?,
        ..bare
    })
}
