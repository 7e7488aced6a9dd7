//! What a sandbox provider remembers (SP-14.2, SP-14.3): small sealed values under its name, per allocation or not.

use std::convert::Infallible;

use domain::{AllocationId, Secret};
use seal::{Binding, KeyRing, Purpose};
use sqlx::Row;

use crate::{
    conn::Conn,
    error::{StoreError, UnitError},
    tx::Tx,
    unit::Unit,
};

/// Where a value belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateKey {
    /// The provider.
    pub provider: String,
    /// The allocation; none = the whole provider.
    pub allocation: Option<AllocationId>,
    /// The provider's own key.
    pub key: String,
}

impl StateKey {
    fn scope(&self) -> String {
        self.allocation.map(|id| id.to_string()).unwrap_or_default()
    }
}

/// Reads a value.
pub(crate) async fn get(
    conn: &mut Conn,
    keys: &KeyRing,
    key: &StateKey,
) -> Result<Option<Secret>, StoreError> {
    let scope = key.scope();
    let row = sqlx::query(
        "SELECT sealed FROM provider_state WHERE provider = $1 AND scope = $2 AND key = $3",
    )
    .bind(key.provider.clone())
    .bind(scope.clone())
    .bind(key.key.clone())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let owner = [key.provider.as_str(), scope.as_str(), key.key.as_str()];
    let plain = keys.open(
        &Binding::new(Purpose::ProviderState, &owner),
        &row.try_get::<Vec<u8>, _>("sealed")?,
    )?;
    Ok(Some(Secret::new(plain.as_slice())))
}

/// Removes every value of an allocation.
pub(crate) async fn forget(
    conn: &mut Conn,
    provider: &str,
    allocation: AllocationId,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM provider_state WHERE provider = $1 AND scope = $2")
        .bind(provider)
        .bind(allocation.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// Stores a value, or removes it. Durable when it answers; refused by the lease if a newer owner exists (SP-4.9).
#[derive(Debug, Clone)]
pub struct PutProviderState {
    /// Where.
    pub key: StateKey,
    /// The value; none removes it.
    pub value: Option<Secret>,
}

impl Unit for PutProviderState {
    const NAME: &'static str = "PutProviderState";
    const LEASED: bool = true;
    type Answer = ();
    type Refusal = Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Infallible>> {
        let StateKey { provider, key, .. } = &self.key;
        let scope = self.key.scope();
        let Some(value) = &self.value else {
            sqlx::query(
                "DELETE FROM provider_state WHERE provider = $1 AND scope = $2 AND key = $3",
            )
            .bind(provider.clone())
            .bind(scope)
            .bind(key.clone())
            .execute(&mut *tx.conn)
            .await?;
            return Ok(());
        };
        put(tx, &self.key, value).await.map_err(UnitError::from)
    }
}

/// Stores a value.
pub(crate) async fn put(tx: &mut Tx<'_>, at: &StateKey, value: &Secret) -> Result<(), StoreError> {
    let (StateKey { provider, key, .. }, scope) = (at, at.scope());
    let owner = [provider.as_str(), scope.as_str(), key.as_str()];
    let sealed = tx.keys.seal(
        &Binding::new(Purpose::ProviderState, &owner),
        value.expose(),
    )?;
    let now = tx.now().await?;
    sqlx::query(
        "INSERT INTO provider_state (provider, scope, key, sealed, updated_at) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (provider, scope, key) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at",
    )
    .bind(provider.clone())
    .bind(scope.clone())
    .bind(key.clone())
    .bind(sealed)
    .bind(now.millis())
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}
