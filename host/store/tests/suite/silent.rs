//! A server that says nothing any more, not even that it is gone.

use std::time::Duration;

use berth_store::testing::TestDatabase;
use domain::session::Placement;
use tokio::{task::JoinSet, time::timeout};

use crate::fixture::{Fixture, creation, message};

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_keeps_nobody_for_long_and_is_used_again_when_it_speaks() {
    let (proxy, db) = TestDatabase::behind_a_proxy().await;
    let fixture = Fixture::new(&db).await;
    let session = fixture.create(Placement::None, &["hi"]).await;
    let project = fixture.project;
    // Connections of both pools that nobody uses at the moment it happens.
    let all = (0..8).map(|_| fixture.create(Placement::None, &["hi"]));
    futures_util::future::join_all(all).await;
    proxy.fall_silent();
    // More than there are connections, of every kind.
    let mut asked = JoinSet::new();
    for _ in 0..12 {
        let store = fixture.store.clone();
        asked.spawn(async move { store.read().last_event(session).await.is_err() });
        let store = fixture.store.clone();
        asked.spawn(async move { store.read().session(project, session).await.is_err() });
        let store = fixture.store.clone();
        let create = creation(project, Placement::None, vec![message("hi")], None);
        asked.spawn(async move { store.write(create).await.is_err() });
        let store = fixture.store.clone();
        asked.spawn(async move { store.renew_lease().await.is_err() });
    }
    let answers = timeout(SOON, asked.join_all())
        .await
        .expect("everybody is answered");
    assert!(
        answers.iter().all(|failed| *failed),
        "a silent server has no answers"
    );

    proxy.speak_again();
    let again = async {
        while fixture.store.read().last_event(session).await.is_err()
            || fixture.store.renew_lease().await.is_err()
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, again).await.expect("it is used again");
    // No connection of before is lent to anybody: nothing fails any more.
    let one_by_one = async {
        for _ in 0..8 {
            fixture.create(Placement::None, &["hi"]).await;
            assert!(
                fixture
                    .store
                    .read()
                    .last_event(session)
                    .await
                    .unwrap()
                    .is_some()
            );
        }
    };
    timeout(SOON, one_by_one).await.expect("it works");
    fixture.check(false).await;

    proxy.fall_silent();
    timeout(SOON, fixture.store.close())
        .await
        .expect("it closes");
}
