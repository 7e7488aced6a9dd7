//! Frozen configurations of Sessions (S-SES-12): written once with the Session, read by the API and by dispatch.

use domain::{
    ConfigurationId, ProjectId, Secret, SessionId, Timestamp, configuration::SessionConfiguration,
};
use seal::{Binding, KeyRing, Purpose};
use sqlx::Row;

use crate::{conn::Conn, convert::to_json, error::StoreError};

/// A configuration to freeze. Secrets travel apart and are sealed (MDL-029).
#[derive(Debug, Clone)]
pub struct NewConfiguration {
    /// Identity.
    pub id: ConfigurationId,
    /// Everything but the secrets.
    pub body: SessionConfiguration,
    /// Key of the effective model provider.
    pub provider_key: Option<Secret>,
    /// Variables, setup commands and file data of a hosted Environment, as one JSON text.
    pub environment_secrets: Option<Secret>,
}

/// The opened secrets of a configuration: for dispatch, at the point of use.
#[derive(Debug, Clone)]
pub struct ConfigurationSecrets {
    /// Key of the effective model provider.
    pub provider_key: Option<Secret>,
    /// Variables, setup commands and file data.
    pub environment: Option<Secret>,
}

pub(crate) async fn add(
    conn: &mut Conn,
    keys: &KeyRing,
    project: ProjectId,
    session: SessionId,
    new: &NewConfiguration,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO configurations (id, session_id, body, sealed_provider, sealed_environment, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(new.id.to_string())
    .bind(session.to_string())
    .bind(to_json(&new.body)?)
    .bind(seal(keys, Purpose::SessionProvider, project, session, new.provider_key.as_ref())?)
    .bind(seal(keys, Purpose::EnvironmentSetup, project, session, new.environment_secrets.as_ref())?)
    .bind(now.millis())
    .execute(conn)
    .await?;
    Ok(())
}

/// Opens the secrets of a Session's configuration. A snapshot that does not open fails closed (MDL-031).
pub(crate) async fn secrets(
    conn: &mut Conn,
    keys: &KeyRing,
    project: ProjectId,
    session: SessionId,
) -> Result<Option<ConfigurationSecrets>, StoreError> {
    let row = sqlx::query(
        "SELECT c.sealed_provider, c.sealed_environment FROM sessions s JOIN configurations c \
         ON c.id = s.configuration_id WHERE s.id = $1 AND s.project_id = $2",
    )
    .bind(session.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let provider: Option<Vec<u8>> = row.try_get("sealed_provider")?;
    let environment: Option<Vec<u8>> = row.try_get("sealed_environment")?;
    Ok(Some(ConfigurationSecrets {
        provider_key: open(keys, Purpose::SessionProvider, project, session, provider)?,
        environment: open(
            keys,
            Purpose::EnvironmentSetup,
            project,
            session,
            environment,
        )?,
    }))
}

fn seal(
    keys: &KeyRing,
    purpose: Purpose,
    project: ProjectId,
    session: SessionId,
    secret: Option<&Secret>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let (project, session) = (project.to_string(), session.to_string());
    let owner = [project.as_str(), session.as_str()];
    Ok(secret
        .map(|secret| keys.seal(&Binding::new(purpose, &owner), secret.expose()))
        .transpose()?)
}

fn open(
    keys: &KeyRing,
    purpose: Purpose,
    project: ProjectId,
    session: SessionId,
    sealed: Option<Vec<u8>>,
) -> Result<Option<Secret>, StoreError> {
    let (project, session) = (project.to_string(), session.to_string());
    let owner = [project.as_str(), session.as_str()];
    let opened = sealed
        .map(|sealed| keys.open(&Binding::new(purpose, &owner), &sealed))
        .transpose()?;
    Ok(opened.map(|plain| Secret::new(plain.as_slice())))
}
