//! Environment rows.

use domain::environment::{
    ConnectionState, Environment, EnvironmentKind, EnvironmentStatus, Initialization,
};

use crate::{conn::Conn, convert::to_json, error::StoreError};

/// Inserts or replaces an Environment.
pub(crate) async fn put(conn: &mut Conn, environment: &Environment) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO environments (id, session_id, kind, status, initialization, connection, body) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET status = excluded.status, \
         initialization = excluded.initialization, connection = excluded.connection, body = excluded.body",
    )
    .bind(environment.id.to_string())
    .bind(environment.session_id.to_string())
    .bind(match environment.kind {
        EnvironmentKind::OpenaiHosted => "openai_hosted",
        EnvironmentKind::SelfHosted => "self_hosted",
    })
    .bind(match environment.status {
        EnvironmentStatus::Pending => "pending",
        EnvironmentStatus::Connected => "connected",
        EnvironmentStatus::Disconnected => "disconnected",
        EnvironmentStatus::Expired => "expired",
        EnvironmentStatus::Failed => "failed",
    })
    .bind(match environment.initialization {
        Initialization::Pending => "pending",
        Initialization::Running { .. } => "running",
        Initialization::Complete { .. } => "complete",
        Initialization::Failed => "failed",
    })
    .bind(match environment.observation.state {
        ConnectionState::None => "none",
        ConnectionState::Registered => "registered",
        ConnectionState::Connected => "connected",
        ConnectionState::Closed => "closed",
    })
    .bind(to_json(environment)?)
    .execute(conn)
    .await?;
    Ok(())
}
