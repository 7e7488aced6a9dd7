//! What goes after its time goes in short steps, and a step that never came leaves nothing broken.

use berth_store::{
    provider_state::{PutProviderState, StateKey},
    testing::TestDatabase,
    units::{
        allocation::FinishRelease,
        environment::AckRelease,
        retention::{SweepDeleted, Swept},
        session::DeleteSession,
        turn::{FinishTurn, SettleRun},
    },
};
use domain::{
    Digest, SessionId,
    artifact::CapturedFile,
    session::Placement,
    turn::{Ending, Outcome, Settled},
};

use crate::fixture::{Fixture, answer};

/// A deleted `none` Session with thousands of events and nothing owed.
async fn long_and_deleted(fixture: &Fixture) -> SessionId {
    let session = fixture.create(Placement::None, &["hi"]).await;
    let machine = fixture.bind(session).await;
    let run = fixture.claim_queued(machine).await;
    let mut seq = 1;
    for batch in 0..12 {
        let events: Vec<_> = (0..50)
            .flat_map(|n| answer(&format!("m{batch}-{n}")))
            .collect();
        let count = events.len() as u64;
        fixture.append(session, run, seq, events).await;
        seq += count;
    }
    fixture.complete(session, run).await;
    fixture
        .write(DeleteSession {
            project: fixture.project,
            session,
            by: None,
        })
        .await;
    let releases = fixture.store.read().releases(machine.device).await.unwrap();
    let owed = releases
        .iter()
        .find(|owed| owed.session_id == session)
        .unwrap();
    assert!(
        fixture
            .write(AckRelease {
                session,
                binding: owed.id,
                epoch: owed.epoch
            })
            .await
    );
    session
}

both! {
    /// The writer serves others between two slices, and a process that ends between them leaves a Session whose purge goes on.
    async fn a_long_session_is_purged_in_slices(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = long_and_deleted(&fixture).await;
        assert_eq!(fixture.store.write(SweepDeleted { session }).await.unwrap(), Swept::Part);
        fixture.check(true).await;
        assert_eq!(fixture.store.read().sessions_to_purge(None, 10).await.unwrap().len(), 1, "it is still due");
        fixture.store.close().await;

        let fixture = Fixture::again(&db, fixture.project).await;
        let mut slices = 0;
        while fixture.store.write(SweepDeleted { session }).await.unwrap() == Swept::Part {
            slices += 1;
            fixture.check(true).await;
        }
        assert!(slices >= 1, "4200 events are more than two slices");
        assert!(fixture.store.read().sessions_to_purge(None, 10).await.unwrap().is_empty());
        assert_eq!(fixture.store.write(SweepDeleted { session }).await.unwrap(), Swept::Whole, "again changes nothing");
        fixture.check(true).await;
        let dump = db.dump().await.unwrap();
        assert!(!dump.contains("Hello"), "content outlives the purge");
        fixture.store.close().await;
    }

    /// RP-15.16: a path of 4096 bytes, which no compression makes shorter, is published.
    async fn a_long_path_is_published(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        let machine = fixture.boot(session).await;
        let (_, run) = fixture.promote(machine).await;
        assert_eq!(fixture.write(SettleRun { session, run }).await, Settled::Capture);
        let name: String = (0..60).map(|n: u32| Digest::of(&n.to_be_bytes()).to_string()).collect();
        let mut path = format!("/workspace/outputs/{name}");
        path.truncate(4096);
        assert!(path.len() > 3800);
        let file = |path: &str| CapturedFile { path: path.to_owned(), digest: Digest::of(path.as_bytes()), size_bytes: 1 };
        let captured = vec![file(&path), file("/workspace/outputs/a")];
        let finish = FinishTurn { session, run, ending: Ending::Completed, captured };
        assert_eq!(fixture.write(finish).await, Settled::Ended(Outcome::Completed));
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// Secrets of an allocation do not outlive it; what the provider knows for all of them does.
    async fn what_a_provider_knew_of_an_allocation_goes_with_it(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::OpenaiHosted, &[]).await;
        fixture.boot(session).await;
        let allocation = fixture.store.read().state(session, &berth_store::Parts::whole()).await.unwrap().unwrap().allocation.unwrap();
        let key = |allocation| StateKey { provider: "local".to_owned(), allocation, key: "k".to_owned() };
        for scope in [None, Some(allocation.id)] {
            let value = Some("v".to_owned().into());
            fixture.store.write(PutProviderState { key: key(scope), value }).await.unwrap();
        }
        fixture.write(DeleteSession { project: fixture.project, session, by: None }).await;
        let stored = async |scope| fixture.store.read().provider_state(&key(scope)).await.unwrap().is_some();
        assert!(stored(Some(allocation.id)).await, "it is needed to remove the machine");
        let revision = fixture.revision(session).await;
        assert!(fixture.write(FinishRelease { session, revision }).await);
        assert!(!stored(Some(allocation.id)).await);
        assert!(stored(None).await);
        fixture.store.close().await;
    }

    /// What ended before it was prepared has nothing to prepare, and is not looked at again and again.
    async fn an_environment_that_ended_waits_for_nothing(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::OpenaiHosted, &[]).await;
        let machine = fixture.allocate(session).await;
        let waiting = async || fixture.store.read().environments_to_initialize(None, 10).await.unwrap().len();
        assert_eq!(waiting().await, 0, "nothing can be prepared without a Runtime");
        fixture.connect(session, machine).await;
        assert_eq!(waiting().await, 1);
        fixture.write(DeleteSession { project: fixture.project, session, by: None }).await;
        assert_eq!(waiting().await, 0);
        let environment = fixture.store.read().state(session, &berth_store::Parts::default()).await.unwrap().unwrap().environment.unwrap();
        assert_eq!(environment.initialization, domain::environment::Initialization::Failed);
        fixture.store.close().await;
    }
}
