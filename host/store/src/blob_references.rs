//! Who keeps which blob. A blob without a reference and without an Artifact is swept after its grace period.

use domain::blob::BlobRef;

use crate::conn::Conn;
use crate::error::StoreError;

/// Notes that `holder` (a public id) keeps a blob whose bytes are stored.
pub(crate) async fn add(conn: &mut Conn, blob: &BlobRef, holder: &str) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO blob_references (blob, holder) VALUES ($1, $2) ON CONFLICT (blob, holder) DO NOTHING",
    )
    .bind(blob.name().to_string())
    .bind(holder.to_owned())
    .execute(conn)
    .await?;
    Ok(())
}

/// Lets go of everything that `holder` kept.
pub(crate) async fn release(conn: &mut Conn, holder: &str) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM blob_references WHERE holder = $1")
        .bind(holder.to_owned())
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether anything keeps the blob of this name.
pub(crate) async fn is_referenced(conn: &mut Conn, name: &str) -> Result<bool, StoreError> {
    let row = sqlx::query(
        "SELECT 1 FROM artifacts WHERE digest = $1 AND deleted_at IS NULL \
         UNION ALL SELECT 1 FROM blob_references WHERE blob = $1 LIMIT 1",
    )
    .bind(name.to_owned())
    .fetch_optional(conn)
    .await?;
    Ok(row.is_some())
}
