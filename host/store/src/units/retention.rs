//! `SweepDeleted`, `TrimEvents`, `PruneWriteOperations`: what may go, slice by slice.

use std::convert::Infallible;

use domain::{SessionId, retention};

use crate::{
    apply::apply,
    convert::count_column,
    error::UnitError,
    events,
    load::{Parts, load},
    sessions,
    tx::Tx,
    unit::{Durability, Unit},
};

/// Rows of a kind that one unit removes: all other units wait for it, so it must be short.
const SLICE: u32 = 2000;

/// What a sweep of one Session did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swept {
    /// Nothing: it may not go yet, or somebody holds it.
    Kept,
    /// A slice is gone; there may be more.
    Part,
    /// All of it that may go is gone.
    Whole,
}

/// Purges a deleted Session whose compute and release are settled (reliability 4.10), slice by slice.
#[derive(Debug, Clone, Copy)]
pub struct SweepDeleted {
    /// The Session.
    pub session: SessionId,
}

impl Unit for SweepDeleted {
    const NAME: &'static str = "SweepDeleted";
    const LEASED: bool = true;
    type Answer = Swept;
    type Refusal = Infallible;

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Swept, UnitError<Infallible>> {
        let session = self.session;
        if !tx.try_lock_session(session).await? {
            return Ok(Swept::Kept);
        }
        let parts = Parts {
            binding: true,
            allocation: true,
            ..Parts::default()
        };
        let Some((state, _)) = load(tx.conn, session, &parts).await? else {
            return Ok(Swept::Kept);
        };
        let changes = retention::purge(&state);
        if changes.is_empty() {
            return Ok(Swept::Kept);
        }
        if !sessions::purge_slice(tx.conn, session, SLICE).await? {
            return Ok(Swept::Part);
        }
        apply(tx, session, changes).await?;
        Ok(Swept::Whole)
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

/// Removes deltas of ended Items that are older than the window, in events or in bytes, slice by slice.
#[derive(Debug, Clone, Copy)]
pub struct TrimEvents {
    /// The Session.
    pub session: SessionId,
}

impl Unit for TrimEvents {
    const NAME: &'static str = "TrimEvents";
    const LEASED: bool = true;
    type Answer = Swept;
    type Refusal = Infallible;

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Swept, UnitError<Infallible>> {
        let session = self.session;
        if !tx.try_lock_session(session).await? {
            return Ok(Swept::Kept);
        }
        let row =
            sqlx::query("SELECT last_event FROM sessions WHERE id = $1 AND purged_at IS NULL")
                .bind(session.to_string())
                .fetch_optional(&mut *tx.conn)
                .await?;
        let Some(row) = row else {
            return Ok(Swept::Kept);
        };
        let old = count_column(&row, "sessions", "last_event")?.saturating_sub(WINDOW);
        let oversized = events::oversized(tx.conn, session, WINDOW_BYTES).await?;
        let through = oversized.unwrap_or(0).max(old);
        let whole = events::trim(tx.conn, session, through, SLICE).await?;
        Ok(if whole { Swept::Whole } else { Swept::Part })
    }
}
