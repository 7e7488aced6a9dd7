//! What is removed after its time: deleted Sessions, old deltas, records of writes, blobs that nothing refers to.

use std::sync::Arc;
use std::time::Duration;

use blobs::{BlobError, Blobs};
use domain::SessionId;
use store::units::retention::{PruneWriteOperations, SweepDeleted, Swept, TrimEvents};
use store::{Store, StoreError, Unit, WriteError};

use super::Shared;

/// Period of the scans (scheduler 3), and Sessions of one page.
const PERIOD: Duration = Duration::from_secs(5);
const PAGE: u32 = 32;
/// Period in which records of writes are pruned (OPS-066).
const RECORDS: Duration = Duration::from_secs(60);
/// Most records that one pruning removes (OPS-066).
const PRUNED: u32 = 1000;
/// Period of the blob sweep, and the age under which a blob may still be on its way into a row.
const BLOBS: Duration = Duration::from_secs(3600);

/// Runs until the ownership ends.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut records = tokio::time::interval(RECORDS);
    records.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let retention_ms = i64::try_from(shared.write_audit_retention.as_millis()).unwrap_or(i64::MAX);
    let mut blobs = tokio::time::interval(BLOBS);
    blobs.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = tick.tick() => {
                if let Err(error) = purge(&shared).await {
                    tracing::warn!(%error, "deleted Sessions could not be swept");
                }
                if let Err(error) = trim(&shared).await {
                    tracing::warn!(%error, "old deltas could not be trimmed");
                }
            }
            _ = records.tick() => {
                if let Err(error) = shared.store.write(PruneWriteOperations { retention_ms, most: PRUNED }).await {
                    tracing::warn!(%error, "old records of writes could not be pruned");
                }
            }
            _ = blobs.tick() => {
                if let Err(error) = sweep_blobs(&shared.store, &shared.blobs).await {
                    tracing::warn!(%error, "blobs could not be swept");
                }
            }
        }
    }
}

async fn purge(shared: &Shared) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = shared.store.read().sessions_to_purge(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(*last);
        for deleted in page {
            let session = deleted.session;
            whole(shared, session, || SweepDeleted { session }).await?;
        }
    }
}

async fn trim(shared: &Shared) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = shared.store.read().sessions_to_trim(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(*last);
        for session in page {
            whole(shared, session, || TrimEvents { session }).await?;
        }
    }
}

/// Slice by slice to the end: other units come between two of them.
async fn whole<U: Unit<Answer = Swept>>(
    shared: &Shared,
    session: SessionId,
    slice: impl Fn() -> U,
) -> Result<(), StoreError> {
    while !shared.stop.is_cancelled() {
        match shared.store.write(slice()).await {
            Ok(Swept::Part) => {}
            Ok(Swept::Kept | Swept::Whole) | Err(WriteError::Refused(_)) => break,
            Err(WriteError::Store(error)) if error.is_of_these_rows() => {
                tracing::error!(%session, %error, "a Session cannot be swept");
                break;
            }
            Err(WriteError::Store(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Why blobs were not swept.
#[derive(Debug, thiserror::Error)]
pub(super) enum SweepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Bytes of a dropped capture, and of Artifacts whose Session is gone. Their age is judged by the clock of the object store,
/// which dated them: the database's may be another.
pub(super) async fn sweep_blobs(store: &Store, blobs: &Blobs) -> Result<(), SweepError> {
    let age = i64::try_from(BLOBS.as_millis()).unwrap_or(i64::MAX);
    let before = blobs.now().await?.saturating_sub(age);
    for digest in blobs.older(before).await? {
        if !store.read().blob_is_referenced(&digest.to_string()).await?
            && let Err(error) = blobs.delete_older(digest, before).await
        {
            tracing::warn!(%error, "a blob could not be removed");
        }
    }
    Ok(())
}
