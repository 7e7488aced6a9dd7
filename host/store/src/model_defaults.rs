//! The deployment's default model of each harness (DEF-001); its key is sealed.

use std::convert::Infallible;

use domain::{
    Secret, Timestamp,
    json::Opaque,
    model::{ModelConfiguration, ProviderView},
};
use seal::{Binding, KeyRing, Purpose};
use serde::{Deserialize, Serialize};
use sqlx::{Row, any::AnyRow};

use crate::{
    conn::Conn,
    convert::{json_column, to_json},
    error::{StoreError, UnitError},
    provenance::{Administrator, Operation, audit},
    tx::Tx,
    unit::Unit,
};

/// A default without its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDefault {
    /// The harness.
    pub harness: String,
    /// Drawn anew by each change (DEF-005).
    pub revision: String,
    /// Provider without its key.
    pub provider: ProviderView,
    /// Exact model id.
    pub model: String,
    /// Native parameters; `{}` = none.
    pub harness_config: Opaque,
    /// Latest change.
    pub updated_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    provider: ProviderView,
    model: String,
    harness_config: Opaque,
}

fn read(row: &AnyRow) -> Result<ModelDefault, StoreError> {
    let body: Body = json_column(row, "model_defaults", "body")?;
    Ok(ModelDefault {
        harness: row.try_get("harness")?,
        revision: row.try_get("revision")?,
        provider: body.provider,
        model: body.model,
        harness_config: body.harness_config,
        updated_at: Timestamp::from_millis(row.try_get("updated_at")?),
    })
}

/// Every default.
pub(crate) async fn all(conn: &mut Conn) -> Result<Vec<ModelDefault>, StoreError> {
    let rows = sqlx::query(
        "SELECT harness, revision, body, updated_at FROM model_defaults ORDER BY harness",
    )
    .fetch_all(conn)
    .await?;
    rows.iter().map(read).collect()
}

/// The default of a harness with its key, for the creation of a Session. Fails closed (DEF-004).
pub(crate) async fn with_key(
    conn: &mut Conn,
    keys: &KeyRing,
    harness: &str,
) -> Result<Option<(ModelDefault, Secret)>, StoreError> {
    let row = sqlx::query("SELECT harness, revision, body, sealed_key, updated_at FROM model_defaults WHERE harness = $1")
        .bind(harness)
        .fetch_optional(conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let sealed: Vec<u8> = row.try_get("sealed_key")?;
    let plain = keys.open(
        &Binding::new(Purpose::DeploymentDefault, &[harness]),
        &sealed,
    )?;
    Ok(Some((read(&row)?, Secret::new(plain.as_slice()))))
}

/// Sets the default of a harness (DEF-003).
#[derive(Debug)]
pub struct SetModelDefault {
    /// The harness.
    pub harness: String,
    /// The complete configuration.
    pub configuration: ModelConfiguration,
    /// Who.
    pub by: Administrator,
}

impl Unit for SetModelDefault {
    const NAME: &'static str = "SetModelDefault";
    const LEASED: bool = false;
    type Answer = ModelDefault;
    type Refusal = Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<ModelDefault, UnitError<Infallible>> {
        let now = tx.now().await?;
        let ModelConfiguration {
            provider,
            model,
            harness_config,
        } = &self.configuration;
        let default = ModelDefault {
            harness: self.harness.clone(),
            revision: uuid::Uuid::new_v4().to_string(),
            provider: provider.view.clone(),
            model: model.clone(),
            harness_config: harness_config.clone(),
            updated_at: now,
        };
        let body = Body {
            provider: provider.view.clone(),
            model: model.clone(),
            harness_config: harness_config.clone(),
        };
        let binding = [self.harness.as_str()];
        let sealed = tx.keys.seal(
            &Binding::new(Purpose::DeploymentDefault, &binding),
            provider.api_key.expose(),
        );
        sqlx::query(
            "INSERT INTO model_defaults (harness, revision, body, sealed_key, updated_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (harness) DO UPDATE SET revision = excluded.revision, body = excluded.body, \
             sealed_key = excluded.sealed_key, updated_at = excluded.updated_at",
        )
        .bind(default.harness.clone())
        .bind(default.revision.clone())
        .bind(to_json(&body)?)
        .bind(sealed.map_err(StoreError::from)?)
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        audit(
            tx,
            None,
            &self.by,
            Operation::new("set", "deployment_model_provider", &self.harness),
        )
        .await?;
        Ok(default)
    }
}

/// Removes the default of a harness; removing none is success. The answer tells whether there was one.
#[derive(Debug, Clone)]
pub struct ClearModelDefault {
    /// The harness.
    pub harness: String,
    /// Who.
    pub by: Administrator,
}

impl Unit for ClearModelDefault {
    const NAME: &'static str = "ClearModelDefault";
    const LEASED: bool = false;
    type Answer = bool;
    type Refusal = Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, UnitError<Infallible>> {
        let done = sqlx::query("DELETE FROM model_defaults WHERE harness = $1")
            .bind(self.harness.clone())
            .execute(&mut *tx.conn)
            .await?;
        audit(
            tx,
            None,
            &self.by,
            Operation::new("delete", "deployment_model_provider", &self.harness),
        )
        .await?;
        Ok(done.rows_affected() == 1)
    }
}
