//! Artifact rows: published output files. Their bytes are blobs.

use std::collections::HashMap;

use domain::{ArtifactId, SessionId, Timestamp, artifact::Artifact};
use sqlx::{Row, any::AnyRow};

use crate::{
    conn::Conn,
    convert::{count_column, expect_written, id_column, int},
    error::StoreError,
};

/// Inserts an Artifact, or notes its deletion.
pub(crate) async fn put(conn: &mut Conn, artifact: &Artifact) -> Result<(), StoreError> {
    let done = sqlx::query(
        "INSERT INTO artifacts (id, session_id, turn_id, environment_id, path, digest, size, created_at, deleted_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO UPDATE SET deleted_at = excluded.deleted_at \
         WHERE artifacts.deleted_at IS NULL",
    )
    .bind(artifact.id.to_string())
    .bind(artifact.session_id.to_string())
    .bind(artifact.turn_id.to_string())
    .bind(artifact.environment_id.to_string())
    .bind(artifact.path.clone())
    .bind(artifact.digest.to_string())
    .bind(int(artifact.size_bytes)?)
    .bind(artifact.created_at.millis())
    .bind(artifact.deleted_at.map(Timestamp::millis))
    .execute(conn)
    .await?;
    expect_written(done.rows_affected(), "artifacts")
}

/// A remaining Artifact of a Session.
pub(crate) async fn get(
    conn: &mut Conn,
    session: SessionId,
    id: ArtifactId,
) -> Result<Option<Artifact>, StoreError> {
    let row = sqlx::query(
        "SELECT id, session_id, turn_id, environment_id, path, digest, size, created_at, deleted_at FROM artifacts \
         WHERE session_id = $1 AND id = $2 AND deleted_at IS NULL",
    )
    .bind(session.to_string())
    .bind(id.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read(&row)).transpose()
}

/// Of the Artifacts of a Session that remain the newest of each path (ART-007), in one read: a Turn may have thousands.
pub(crate) async fn newest(
    conn: &mut Conn,
    session: SessionId,
) -> Result<Vec<Artifact>, StoreError> {
    let rows = sqlx::query(
        "SELECT id, session_id, turn_id, environment_id, path, digest, size, created_at, deleted_at FROM artifacts \
         WHERE session_id = $1 AND deleted_at IS NULL ORDER BY created_at, id",
    )
    .bind(session.to_string())
    .fetch_all(conn)
    .await?;
    let mut newest = HashMap::new();
    for row in &rows {
        let artifact = read(row)?;
        newest.insert(artifact.path.clone(), artifact);
    }
    Ok(newest.into_values().collect())
}

/// Reads a whole row.
pub(crate) fn read(row: &AnyRow) -> Result<Artifact, StoreError> {
    Ok(Artifact {
        id: id_column(row, "artifacts", "id")?,
        session_id: id_column(row, "artifacts", "session_id")?,
        turn_id: id_column(row, "artifacts", "turn_id")?,
        environment_id: id_column(row, "artifacts", "environment_id")?,
        path: row.try_get("path")?,
        digest: id_column(row, "artifacts", "digest")?,
        size_bytes: count_column(row, "artifacts", "size")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        deleted_at: row
            .try_get::<Option<i64>, _>("deleted_at")?
            .map(Timestamp::from_millis),
    })
}
