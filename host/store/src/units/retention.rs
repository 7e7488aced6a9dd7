//! `SweepDeleted`, `TrimEvents`, `PruneWriteOperations`: what may go, page by page.

use std::convert::Infallible;

use domain::{Changes, SessionId, Write, retention};

use crate::{
    apply::apply,
    convert::{count_column, id_column},
    error::UnitError,
    events,
    load::{Parts, load},
    tx::Tx,
    unit::{Durability, Unit},
};

/// Sessions in one page.
const PAGE: i64 = 32;

/// Purges deleted Sessions whose compute and releases are settled (reliability 4.10). Answers which.
#[derive(Debug, Clone, Copy)]
pub struct SweepDeleted;

impl Unit for SweepDeleted {
    const NAME: &'static str = "SweepDeleted";
    const LEASED: bool = true;
    type Answer = Vec<SessionId>;
    type Refusal = Infallible;

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<SessionId>, UnitError<Infallible>> {
        let rows = sqlx::query(
            "SELECT s.id FROM sessions s WHERE s.deleted_at IS NOT NULL AND s.purged_at IS NULL \
             AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_id = s.id AND t.live = 1) \
             AND NOT EXISTS (SELECT 1 FROM bindings b WHERE b.session_id = s.id AND b.release_owed = 1) \
             AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.session_id = s.id AND a.phase <> 'released') \
             ORDER BY s.deleted_at, s.id LIMIT $1",
        )
        .bind(PAGE)
        .fetch_all(&mut *tx.conn)
        .await?;
        let mut purged = Vec::with_capacity(rows.len());
        for row in rows {
            let session = id_column(&row, "sessions", "id")?;
            if !tx.try_lock_session(session).await? {
                continue;
            }
            // The page was read before the lock was held; the decision is made under it.
            let Some((state, _)) = load(tx.conn, session, &Parts::whole()).await? else {
                continue;
            };
            let changes = retention::purge(&state);
            if changes.is_empty() {
                continue;
            }
            apply(tx, session, changes).await?;
            purged.push(session);
        }
        Ok(purged)
    }
}

/// Removes records of public writes that are older than their retention; those of creations stay for ever (OPS-066). Answers
/// how many went.
#[derive(Debug, Clone, Copy)]
pub struct PruneWriteOperations {
    /// How long a record is kept, in milliseconds.
    pub retention_ms: i64,
    /// Most records that go at once.
    pub most: u32,
}

impl Unit for PruneWriteOperations {
    const NAME: &'static str = "PruneWriteOperations";
    const LEASED: bool = true;
    type Answer = u64;
    type Refusal = Infallible;

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<u64, UnitError<Infallible>> {
        let before = tx.now().await?.millis().saturating_sub(self.retention_ms);
        let done = sqlx::query(
            "DELETE FROM write_operations WHERE id IN (SELECT id FROM write_operations WHERE created_at < $1 \
             AND action NOT IN ('create', 'upload_version') ORDER BY created_at, id LIMIT $2)",
        )
        .bind(before)
        .bind(i64::from(self.most))
        .execute(&mut *tx.conn)
        .await?;
        Ok(done.rows_affected())
    }
}

/// Newest events of a Session that keep their deltas, and bytes that those may have (SC-11.6). A Session is looked at once it
/// has as many events more again, or more bytes: the index `sessions_to_trim` holds exactly those.
const WINDOW: u64 = 256;
const WINDOW_BYTES: u64 = 64 << 20;

/// Removes deltas of ended Items that are older than the window, in events or in bytes. Answers how many Sessions were looked at.
#[derive(Debug, Clone, Copy)]
pub struct TrimEvents;

impl Unit for TrimEvents {
    const NAME: &'static str = "TrimEvents";
    const LEASED: bool = true;
    type Answer = usize;
    type Refusal = Infallible;

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<usize, UnitError<Infallible>> {
        let rows = sqlx::query(
            "SELECT id, last_event FROM sessions WHERE purged_at IS NULL \
             AND (last_event - trimmed_through > 512 OR delta_bytes > 67108864) ORDER BY id LIMIT $1",
        )
        .bind(PAGE)
        .fetch_all(&mut *tx.conn)
        .await?;
        for row in &rows {
            let session_id = id_column(row, "sessions", "id")?;
            if !tx.try_lock_session(session_id).await? {
                continue;
            }
            let old = count_column(row, "sessions", "last_event")?.saturating_sub(WINDOW);
            let oversized = events::oversized(tx.conn, session_id, WINDOW_BYTES).await?;
            let through = oversized.unwrap_or(0).max(old);
            let writes = vec![Write::TrimDeltas {
                session_id,
                through,
            }];
            apply(
                tx,
                session_id,
                Changes {
                    writes,
                    ..Changes::default()
                },
            )
            .await?;
        }
        Ok(rows.len())
    }
}
