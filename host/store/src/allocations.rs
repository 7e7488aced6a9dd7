//! Allocation rows: compute that a provider holds.

use domain::{
    SessionId,
    allocation::{Allocation, AllocationPhase},
};
use sqlx::Row;

use crate::{
    conn::Conn,
    convert::{expect_written, int, json_column, to_json},
    error::StoreError,
    provider_state,
};

/// Inserts an allocation, or replaces one by its next revision (SP-4.9).
pub(crate) async fn put(conn: &mut Conn, allocation: &Allocation) -> Result<(), StoreError> {
    let done = sqlx::query(
        "INSERT INTO allocations (id, session_id, environment_id, device_id, provider, phase, revision, body) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, \
         revision = excluded.revision, body = excluded.body \
         WHERE allocations.phase <> 'released' AND allocations.revision < excluded.revision",
    )
    .bind(allocation.id.to_string())
    .bind(allocation.session_id.to_string())
    .bind(allocation.environment_id.to_string())
    .bind(allocation.device_id.to_string())
    .bind(allocation.provider.clone())
    .bind(match allocation.phase {
        AllocationPhase::Reserved => "reserved",
        AllocationPhase::Creating => "creating",
        AllocationPhase::Running => "running",
        AllocationPhase::Suspending { .. } => "suspending",
        AllocationPhase::Suspended => "suspended",
        AllocationPhase::Resuming { .. } => "resuming",
        AllocationPhase::Releasing => "releasing",
        AllocationPhase::Released => "released",
    })
    .bind(int(allocation.revision)?)
    .bind(to_json(allocation)?)
    .execute(&mut *conn)
    .await?;
    expect_written(done.rows_affected(), "allocations")?;
    if allocation.phase == AllocationPhase::Released {
        // Nothing of it is left at the provider, so nothing of it is remembered.
        provider_state::forget(conn, &allocation.provider, allocation.id).await?;
    }
    Ok(())
}

/// The allocation of a Session.
pub(crate) async fn of_session(
    conn: &mut Conn,
    session: SessionId,
) -> Result<Option<Allocation>, StoreError> {
    // Keyed by the Environment, of which a Session has at most one.
    let row = sqlx::query(
        "SELECT a.body FROM allocations a JOIN environments e ON e.id = a.environment_id WHERE e.session_id = $1",
    )
    .bind(session.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| json_column(&row, "allocations", "body"))
        .transpose()
}

/// Allocations of a provider that hold compute.
pub(crate) async fn holding(conn: &mut Conn, provider: &str) -> Result<u32, StoreError> {
    // Written so that the index of what is not released serves it.
    let row = sqlx::query(
        "SELECT count(*) AS held FROM allocations WHERE provider = $1 AND phase <> 'released' AND phase <> 'suspended'",
    )
    .bind(provider)
    .fetch_one(conn)
    .await?;
    u32::try_from(row.try_get::<i64, _>("held")?).map_err(|_| StoreError::Corrupt {
        table: "allocations",
        column: "phase",
    })
}
