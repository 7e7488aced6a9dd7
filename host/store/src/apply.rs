//! The one place where a decision becomes rows and numbered events.

use domain::{Changes, SessionId, Write};

use crate::{
    allocations, artifacts, calls, devices, environments, error::StoreError, events, items,
    notify::Committed, receipts, reservations, sessions, turns, tx::Tx,
};

/// Writes the rows in their order, then numbers and adds the events, in the transaction of the unit.
pub(crate) async fn apply(
    tx: &mut Tx<'_>,
    session: SessionId,
    changes: Changes,
) -> Result<(), StoreError> {
    let now = tx.now().await?;
    for write in &changes.writes {
        let conn = &mut *tx.conn;
        match write {
            Write::PutSession(row) => sessions::put(conn, row).await?,
            Write::PutEnvironment(row) => environments::put(conn, row).await?,
            Write::PutReservation(row) => reservations::put(conn, row).await?,
            Write::PutTurn(row) => turns::put(conn, row).await?,
            Write::PutInput(row) => turns::put_input(conn, session, row).await?,
            Write::PutItem(row) => items::put(conn, session, row).await?,
            Write::PutCall(row) => calls::put(conn, session, row).await?,
            Write::AddReceipt(row) => receipts::add(conn, row).await?,
            Write::PutDevice(row) => devices::put(conn, row).await?,
            Write::PutBinding(row) => devices::put_binding(conn, row).await?,
            Write::PutAllocation(row) => allocations::put(conn, row).await?,
            Write::PutArtifact(row) => artifacts::put(conn, row).await?,
            Write::PurgeSession(id) => sessions::purge(conn, *id, now.millis()).await?,
        }
    }
    if !changes.events.is_empty() {
        let last_event = events::add(tx.conn, session, &changes.events, now).await?;
        tx.outbox.events.push(Committed {
            session,
            last_event,
        });
    }
    tx.outbox.hints.extend(changes.hints);
    Ok(())
}
