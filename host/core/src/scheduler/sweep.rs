//! What is removed after its time: deleted Sessions, old deltas, records of writes, blobs that nothing refers to.

use std::sync::Arc;
use std::time::Duration;

use store::units::retention::{PruneWriteOperations, SweepDeleted, TrimEvents};

use super::Shared;

/// Period of the scans (scheduler 3).
const PERIOD: Duration = Duration::from_secs(5);
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
                if let Err(error) = shared.store.write(SweepDeleted).await {
                    tracing::warn!(%error, "deleted Sessions could not be swept");
                }
                if let Err(error) = shared.store.write(TrimEvents).await {
                    tracing::warn!(%error, "old deltas could not be trimmed");
                }
            }
            _ = records.tick() => {
                if let Err(error) = shared.store.write(PruneWriteOperations { retention_ms, most: PRUNED }).await {
                    tracing::warn!(%error, "old records of writes could not be pruned");
                }
            }
            _ = blobs.tick() => sweep_blobs(&shared).await,
        }
    }
}

/// Bytes of a dropped capture, and of Artifacts whose Session is gone.
async fn sweep_blobs(shared: &Shared) {
    let age = i64::try_from(BLOBS.as_millis()).unwrap_or(i64::MAX);
    let before = match shared.store.now().await {
        Ok(now) => now.millis().saturating_sub(age),
        Err(error) => return tracing::warn!(%error, "blobs could not be swept"),
    };
    let older = match shared.blobs.older(before).await {
        Ok(older) => older,
        Err(error) => return tracing::warn!(%error, "blobs could not be listed"),
    };
    for digest in older {
        match shared
            .store
            .read()
            .blob_is_referenced(&digest.to_string())
            .await
        {
            Ok(true) => {}
            Ok(false) => {
                if let Err(error) = shared.blobs.delete_older(digest, before).await {
                    tracing::warn!(%error, "a blob could not be removed");
                }
            }
            Err(error) => return tracing::warn!(%error, "blobs could not be swept"),
        }
    }
}
