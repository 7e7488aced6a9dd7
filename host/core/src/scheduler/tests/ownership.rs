//! Taking, keeping and losing the execution lease when rows or the database are bad.

use std::sync::Arc;
use std::time::Duration;

use domain::OwnerId;
use domain::lease::Authority;
use store::{Durability, Unit, UnitError};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::core::{SOON, scheduler};
use crate::api::tests::fixture::Fixture;
use crate::scheduler::ownership::renew;
use crate::scheduler::run;

/// Each attempt to own writes an epoch with its fsync: one that fails is not repeated at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_fails_is_repeated_after_a_pause() {
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    let store = api.core.store.clone();
    api.database
        .execute("ALTER TABLE environments RENAME TO missing")
        .await
        .unwrap();
    let stop = CancellationToken::new();
    let scheduler = scheduler(&api, None, &stop).await;
    let (owned, mut ownership) = watch::channel(None);
    let running = tokio::spawn(run(scheduler, owned, stop.clone()));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let attempts = store.lease_row().await.unwrap().epoch.0;
    assert!((1..=4).contains(&attempts), "{attempts} attempts in 2.5 s");
    assert!(ownership.borrow().is_none());
    api.database
        .execute("ALTER TABLE missing RENAME TO environments")
        .await
        .unwrap();
    timeout(SOON, ownership.wait_for(Option::is_some))
        .await
        .unwrap()
        .unwrap();
    stop.cancel();
    timeout(SOON, running).await.expect("it drains").unwrap();
}

/// A write that the database does not answer: whatever comes behind it waits.
struct Stuck(Arc<Semaphore>);

impl Unit for Stuck {
    const NAME: &'static str = "Stuck";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = std::convert::Infallible;

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    async fn run(&self, _: &mut store::tx::Tx<'_>) -> Result<(), UnitError<Self::Refusal>> {
        let _ = self.0.acquire().await;
        Ok(())
    }
}

/// SC-12.4: who cannot renew does not own, before anybody else can.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_answer_ends_the_ownership() {
    let api = Fixture::on(store::testing::TestDatabase::sqlite()).await;
    let store = api.core.store.clone();
    let owner = OwnerId::new(Uuid::new_v4());
    let acquired = store.acquire_lease(owner, Authority::Folder).await.unwrap();
    let store::Acquired::Held(token) = acquired else {
        panic!("nobody else wants it")
    };
    let lost = CancellationToken::new();
    let (period, margin) = (Duration::from_millis(50), Duration::from_millis(500));
    let renewing = tokio::spawn(renew(store.clone(), token, lost.clone(), period, margin));
    tokio::time::sleep(margin * 2).await;
    assert!(!lost.is_cancelled(), "it renews");
    let gate = Arc::new(Semaphore::new(0));
    let stuck = tokio::spawn({
        let (store, gate) = (store.clone(), gate.clone());
        async move { store.write(Stuck(gate)).await }
    });
    // The unit that does not end is still there: nothing was answered.
    timeout(SOON, lost.cancelled()).await.expect("it gives up");
    assert!(!stuck.is_finished());
    assert!(store.lease().borrow().is_none());
    renewing.await.unwrap();
    gate.add_permits(1);
    stuck.await.unwrap().unwrap();
}
