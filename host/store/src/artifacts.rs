//! Artifact rows: output files of completed Turns. Their bytes are blobs named by digest.

use domain::artifact::Artifact;
use sqlx::AnyConnection;

use crate::{
    convert::{expect_written, int},
    error::StoreError,
};

/// Inserts an Artifact, or notes its deletion.
pub(crate) async fn put(conn: &mut AnyConnection, artifact: &Artifact) -> Result<(), StoreError> {
    let done = sqlx::query(
        "INSERT INTO artifacts (id, session_id, turn_id, environment_id, path, digest, size, created_at, deleted_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
         ON CONFLICT (id) DO UPDATE SET deleted_at = excluded.deleted_at WHERE artifacts.deleted_at IS NULL",
    )
    .bind(artifact.id.to_string())
    .bind(artifact.session_id.to_string())
    .bind(artifact.turn_id.to_string())
    .bind(artifact.environment_id.to_string())
    .bind(artifact.path.clone())
    .bind(artifact.digest.to_string())
    .bind(int(artifact.size_bytes)?)
    .bind(artifact.created_at.millis())
    .bind(artifact.deleted_at.map(|at| at.millis()))
    .execute(conn)
    .await?;
    expect_written(done.rows_affected(), "artifacts")
}
