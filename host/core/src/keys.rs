//! Is the key of an open stream still valid? One query a second for all streams of a key (S-LS-5, architecture 10).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::KeyId;
use store::Store;

/// An answer holds for so long.
const FRESH: Duration = Duration::from_secs(1);
/// A look-up may take so long; a failure closes the stream.
const LOOKUP: Duration = Duration::from_secs(5);

/// What is known of the keys of open streams.
#[derive(Default)]
pub(crate) struct StreamKeys {
    known: Mutex<HashMap<KeyId, Arc<Known>>>,
}

/// The last answer about one key. Whoever finds it stale asks; the others wait for that answer.
#[derive(Default)]
struct Known {
    last: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl StreamKeys {
    /// Asks at most once a second; nothing may be sent while this waits.
    pub(crate) async fn is_valid(&self, store: &Store, key: KeyId) -> bool {
        let known = self.known(key);
        let mut last = known.last.lock().await;
        if let Some((at, valid)) = *last
            && at.elapsed() < FRESH
        {
            return valid;
        }
        let read = store.read();
        let valid = match tokio::time::timeout(LOOKUP, read.key_is_valid(key)).await {
            Ok(Ok(valid)) => valid,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the key of a stream could not be looked up");
                false
            }
            Err(_) => false,
        };
        *last = Some((Instant::now(), valid));
        valid
    }

    fn known(&self, key: KeyId) -> Arc<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return found.clone();
        }
        // Keys that no stream asks about any more are dropped here.
        known.retain(|_, entry| {
            Arc::strong_count(entry) > 1 || entry.last.try_lock().is_ok_and(|last| is_recent(&last))
        });
        known.entry(key).or_default().clone()
    }
}

fn is_recent(last: &Option<(Instant, bool)>) -> bool {
    last.is_some_and(|(at, _)| at.elapsed() < FRESH)
}
