//! Reservation rows. Messages have a column of their own: a status is read without them.

use domain::{
    ReservationId,
    reservation::{Reservation, ReservationState},
};
use sqlx::any::AnyRow;

use crate::{
    conn::Conn,
    convert::{expect_written, int, json_column, optional_json_column, to_json},
    error::StoreError,
};

/// Inserts a reservation, or settles a pending one.
pub(crate) async fn put(conn: &mut Conn, reservation: &Reservation) -> Result<(), StoreError> {
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

/// Columns of a reservation that another statement joins. A settled one comes without its messages, which may be megabytes:
/// nothing reads them any more, and every unit of the Session loads this row.
macro_rules! columns {
    ($table:literal) => {
        concat!(
            $table,
            ".body AS reservation, CASE WHEN ",
            $table,
            ".state = 'pending' THEN ",
            $table,
            ".messages ELSE '[]' END AS messages"
        )
    };
}
pub(crate) use columns;

/// The reservation in a row with [`columns`], if one was joined.
pub(crate) fn joined(row: &AnyRow) -> Result<Option<Reservation>, StoreError> {
    let bare: Option<Reservation> = optional_json_column(row, "reservations", "reservation")?;
    bare.map(|bare| with_messages(bare, row)).transpose()
}

/// One reservation.
pub(crate) async fn get(
    conn: &mut Conn,
    id: ReservationId,
) -> Result<Option<Reservation>, StoreError> {
    let row = sqlx::query("SELECT body, messages FROM reservations WHERE id = $1")
        .bind(id.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| whole(&row)).transpose()
}

/// The state of one reservation.
pub(crate) async fn state(
    conn: &mut Conn,
    id: ReservationId,
) -> Result<Option<ReservationState>, StoreError> {
    let row = sqlx::query("SELECT body FROM reservations WHERE id = $1")
        .bind(id.to_string())
        .fetch_optional(conn)
        .await?;
    let bare: Option<Reservation> = row
        .map(|row| json_column(&row, "reservations", "body"))
        .transpose()?;
    Ok(bare.map(|bare| bare.state))
}

fn whole(row: &AnyRow) -> Result<Reservation, StoreError> {
    with_messages(json_column(row, "reservations", "body")?, row)
}

fn with_messages(bare: Reservation, row: &AnyRow) -> Result<Reservation, StoreError> {
    Ok(Reservation {
        messages: json_column(row, "reservations", "messages")?,
        ..bare
    })
}
