//! Devices and the bindings of Sessions to them.

use domain::{
    DeviceId, Digest, SessionId,
    binding::{Binding, Device},
};

use crate::{
    conn::Conn,
    convert::{json_column, to_json},
    error::StoreError,
};

/// Inserts or replaces a device.
pub(crate) async fn put(conn: &mut Conn, device: &Device) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO devices (id, environment_id, credential, revoked, body) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO UPDATE SET credential = excluded.credential, revoked = excluded.revoked, body = excluded.body",
    )
    .bind(device.id.to_string())
    .bind(device.environment_id.map(|id| id.to_string()))
    .bind(device.credential.to_string())
    .bind(i64::from(device.revoked_at.is_some()))
    .bind(to_json(device)?)
    .execute(conn)
    .await?;
    Ok(())
}

/// One device.
pub(crate) async fn get(conn: &mut Conn, id: DeviceId) -> Result<Option<Device>, StoreError> {
    let row = sqlx::query("SELECT body FROM devices WHERE id = $1")
        .bind(id.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| json_column(&row, "devices", "body"))
        .transpose()
}

/// The device that presents a credential with this digest, revoked ones included.
pub(crate) async fn by_credential(
    conn: &mut Conn,
    digest: Digest,
) -> Result<Option<Device>, StoreError> {
    let row = sqlx::query("SELECT body FROM devices WHERE credential = $1")
        .bind(digest.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| json_column(&row, "devices", "body"))
        .transpose()
}

/// Inserts or replaces a binding.
pub(crate) async fn put_binding(conn: &mut Conn, binding: &Binding) -> Result<(), StoreError> {
    let owed = binding
        .release
        .is_some_and(|release| release.acknowledged_at.is_none());
    sqlx::query(
        "INSERT INTO bindings (id, session_id, device_id, release_owed, body) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO UPDATE SET release_owed = excluded.release_owed, body = excluded.body",
    )
    .bind(binding.id.to_string())
    .bind(binding.session_id.to_string())
    .bind(binding.device_id.to_string())
    .bind(i64::from(owed))
    .bind(to_json(binding)?)
    .execute(conn)
    .await?;
    Ok(())
}

/// The binding of a Session.
pub(crate) async fn binding(
    conn: &mut Conn,
    session: SessionId,
) -> Result<Option<Binding>, StoreError> {
    let row = sqlx::query("SELECT body FROM bindings WHERE session_id = $1")
        .bind(session.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| json_column(&row, "bindings", "body"))
        .transpose()
}
