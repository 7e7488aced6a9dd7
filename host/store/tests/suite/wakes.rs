//! Two processes on one PostgreSQL (SC-12.1, SC-12.3).

use std::time::Duration;

use berth_store::{notify::Committed, testing::TestDatabase};
use domain::{Hint, session::Placement};
use tokio::time::timeout;

use crate::fixture::Fixture;

/// Far more than a wake takes; nothing here scans.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_wakes_the_other_process_once_and_its_own_once() {
    let db = TestDatabase::postgres().await;
    let here = Fixture::new(&db).await;
    let there = db.open().await;
    let (mut own, mut events, mut hints) = (here.store.commits(), there.commits(), there.hints());
    // The other end may not listen yet: commits go on until one is heard.
    let heard = async {
        loop {
            let session = here.create(Placement::None, &["hi"]).await;
            let heard = timeout(Duration::from_millis(500), events.recv()).await;
            if let Ok(committed) = heard {
                return (session, committed.expect("a wake"));
            }
        }
    };
    let (session, committed) = timeout(PATIENCE, heard).await.expect("a wake");
    let last_event = here.events(session).await.len() as u64;
    assert_eq!(
        committed,
        Committed {
            session,
            last_event
        }
    );
    let hint = async {
        loop {
            if hints.recv().await.expect("a hint") == Hint::Queued(session) {
                return;
            }
        }
    };
    timeout(PATIENCE, hint)
        .await
        .expect("the hint of a queued Turn");
    // What it said itself comes back to it over the same channel; it does not act on it twice.
    let mut count = 0;
    while let Ok(committed) = own.try_recv() {
        count += usize::from(committed.session == session);
    }
    assert_eq!(count, 1);
    there.close().await;
    here.store.close().await;
}
