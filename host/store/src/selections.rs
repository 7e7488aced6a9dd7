//! Which sandbox provider the deployment uses, and which it used (SP-2.1, SP-2.6).

use std::collections::BTreeMap;

use domain::Secret;
use domain::selection::{Choice, Selection, SelectionRefused, select};
use sqlx::{Row, any::AnyRow};

use crate::{
    conn::Conn,
    convert::{count_column, int, json_column, to_json},
    error::{StoreError, UnitError},
    provenance::{Administrator, Operation, audit},
    provider_state::{self, StateKey},
    tx::Tx,
    unit::Unit,
};

const TABLE: &str = "provider_selections";

fn read(row: &AnyRow) -> Result<Selection, StoreError> {
    Ok(Selection {
        generation: count_column(row, TABLE, "generation")?,
        choice: Choice {
            provider: row.try_get("provider")?,
            settings: json_column(row, TABLE, "settings")?,
        },
    })
}

/// The newest.
pub(crate) async fn current(conn: &mut Conn) -> Result<Selection, StoreError> {
    let row = sqlx::query(
        "SELECT generation, provider, settings FROM provider_selections ORDER BY generation DESC LIMIT 1",
    )
    .fetch_optional(conn)
    .await?;
    let corrupt = StoreError::Corrupt {
        table: TABLE,
        column: "generation",
    };
    read(&row.ok_or(corrupt)?)
}

/// That of one generation, if there was one; never another one in its place (SP-2.6).
pub(crate) async fn of(conn: &mut Conn, generation: u64) -> Result<Option<Selection>, StoreError> {
    let row = sqlx::query(
        "SELECT generation, provider, settings FROM provider_selections WHERE generation = $1",
    )
    .bind(int(generation)?)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read).transpose()
}

/// Changes the selection. The answer is the one that holds then; the same one where nothing was to change.
#[derive(Debug, Clone)]
pub struct SelectProvider {
    /// The generation that the caller saw (SP-2.2).
    pub expected: u64,
    /// What is wanted, already judged by the provider (SP-2.3).
    pub choice: Choice,
    /// Its secret settings, by the names under which the provider's host remembers them.
    pub secrets: BTreeMap<String, Secret>,
    /// Who.
    pub by: Administrator,
}

impl Unit for SelectProvider {
    const NAME: &'static str = "SelectProvider";
    const LEASED: bool = false;
    type Answer = Selection;
    type Refusal = SelectionRefused;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Selection, UnitError<SelectionRefused>> {
        let current = current(&mut *tx.conn).await?;
        let held = unreleased(&mut *tx.conn).await?;
        let renews = !self.secrets.is_empty();
        let change = select(&current, self.expected, self.choice.clone(), renews, held)
            .map_err(UnitError::Refused)?;
        let Some(change) = change else {
            return Ok(current);
        };
        let now = tx.now().await?;
        // Of two changes at one time the key lets one through.
        let done = sqlx::query(
            "INSERT INTO provider_selections (generation, provider, settings, created_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (generation) DO NOTHING",
        )
        .bind(int(change.generation)?)
        .bind(change.choice.provider.clone())
        .bind(to_json(&change.choice.settings)?)
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        if done.rows_affected() == 0 {
            return Err(UnitError::Refused(SelectionRefused::Stale(
                change.generation,
            )));
        }
        if let (Some(former), 0) = (&current.choice.provider, held) {
            // Nobody needs the secrets of its selections any more.
            sqlx::query(
                "DELETE FROM provider_state WHERE provider = $1 AND scope = '' AND key LIKE 'setting.%'",
            )
            .bind(former.clone())
            .execute(&mut *tx.conn)
            .await?;
        }
        if let Some(provider) = &change.choice.provider {
            for (key, value) in &self.secrets {
                let key = StateKey {
                    provider: provider.clone(),
                    allocation: None,
                    key: key.clone(),
                };
                provider_state::put(tx, &key, value).await?;
            }
        }
        let operation = Operation::new("change", "sandbox_deployment", change.generation);
        audit(tx, None, &self.by, operation).await?;
        Ok(change)
    }
}

/// Allocations of any provider that are not released.
async fn unreleased(conn: &mut Conn) -> Result<u32, StoreError> {
    let row = sqlx::query("SELECT count(*) AS held FROM allocations WHERE phase <> 'released'")
        .fetch_one(conn)
        .await?;
    u32::try_from(row.try_get::<i64, _>("held")?).map_err(|_| StoreError::Corrupt {
        table: "allocations",
        column: "phase",
    })
}
