//! I28: races have exactly these outcomes, in any order of commits.

use berth_store::{
    WriteError,
    retries::RetryKey,
    testing::TestDatabase,
    units::{create::Created, input::AdmitInput, session::DeleteSession},
};
use domain::{
    Digest, Refusal,
    input::{Admission, Batch},
    session::Placement,
};

use crate::fixture::{Fixture, admit, answer, creation, message};

const ROUNDS: usize = 12;

both! {
    /// W-IDEM-11: one key, many requests: one Session.
    async fn creations_with_one_key_make_one_session(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        for round in 0..ROUNDS {
            let key = format!("key-{round}");
            let tasks: Vec<_> = (0..6)
                .map(|_| {
                    let store = fixture.store.clone();
                    let mut unit = creation(fixture.project, Placement::None, vec![message("hi")], Some(&key));
                    unit.key = Some(RetryKey { key: key.clone(), digest: Digest::of(b"same") });
                    tokio::spawn(async move { store.write(unit).await.unwrap() })
                })
                .collect();
            let (mut made, mut named) = (0, std::collections::BTreeSet::new());
            for task in tasks {
                match task.await.unwrap() {
                    Created::Now { state, .. } => {
                        made += 1;
                        named.insert(state.session.id);
                    }
                    Created::Before { session } => {
                        named.insert(session);
                    }
                }
            }
            assert_eq!((made, named.len()), (1, 1));
        }
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// S-DEL-7: (202, refused) or (not found, deleted), never both effects.
    async fn delete_against_admission(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        for round in 0..ROUNDS {
            let session = fixture.create(Placement::OpenaiHosted, &[]).await;
            let send = AdmitInput {
                project: fixture.project,
                session,
                admit: admit(Batch::Messages(vec![message("x")]), None, "x"),
                provenance: None,
            };
            let delete = DeleteSession { project: fixture.project, session, by: None };
            let (one, two) = (fixture.store.clone(), fixture.store.clone());
            let sent = tokio::spawn(async move { one.write(send).await });
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            let deleted = tokio::spawn(async move { two.write(delete).await });
            match (sent.await.unwrap(), deleted.await.unwrap()) {
                (Ok(Admission::Waits { .. }), Err(WriteError::Refused(Refusal::NotDeletable)))
                | (Err(WriteError::Refused(Refusal::NotFound)), Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// W-IDEM-9: one key, many equal batches: admitted once.
    async fn equal_batches_with_one_key_are_admitted_once(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["first"]).await;
        for round in 0..ROUNDS {
            let tasks: Vec<_> = (0..6)
                .map(|_| {
                    let store = fixture.store.clone();
                    let admit = admit(Batch::Messages(vec![message("x")]), Some(&format!("k{round}")), "x");
                    let unit = AdmitInput { project: fixture.project, session, admit, provenance: None };
                    tokio::spawn(async move { store.write(unit).await.unwrap() })
                })
                .collect();
            for task in tasks {
                assert!(matches!(task.await.unwrap(), Admission::Stored { .. }));
            }
        }
        let state = fixture.store.read().state(session, &berth_store::Parts::whole()).await.unwrap().unwrap();
        assert_eq!(state.inputs.len(), 1 + ROUNDS);
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// I13: events of writers that race are numbered without a hole, and every reader sees one sequence.
    async fn events_of_racing_writers_have_no_holes(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["first"]).await;
        let run = fixture.claim_queued(fixture.bind(session).await).await;
        let mut wakes = fixture.store.commits();
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                let store = fixture.store.clone();
                let admit = admit(Batch::Messages(vec![message("x")]), None, &n.to_string());
                let unit = AdmitInput { project: fixture.project, session, admit, provenance: None };
                tokio::spawn(async move { store.write(unit).await.unwrap() })
            })
            .collect();
        for n in 0..10 {
            fixture.append(session, run, n * 5 + 1, answer(&format!("m{n}"))).await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        fixture.check(true).await;
        let last = fixture.store.read().last_event(session).await.unwrap().unwrap();
        let mut woken = 0;
        while woken < last {
            // A wake is sent after its commit, so what it names can be read.
            let wake = wakes.recv().await.unwrap();
            assert_eq!(wake.session, session);
            woken = woken.max(wake.last_event);
        }
        assert_eq!(woken, last);
        fixture.store.close().await;
    }

    /// A snapshot shows one state: status and events never disagree while writers work (S-ST-4, I9).
    async fn readers_see_one_state(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["first"]).await;
        let machine = fixture.bind(session).await;
        let store = fixture.store.clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let reader = tokio::spawn(async move {
            let mut stopped = stopped;
            let mut reads = 0;
            while stopped.try_recv().is_err() {
                let found = berth_store::testing::violations(&store, false).await.unwrap();
                assert!(found.is_empty(), "{}", found.join("\n"));
                reads += 1;
            }
            reads
        });
        for n in 0..8 {
            if n > 0 {
                fixture.send(session, &["next"], None).await;
            }
            let run = fixture.claim_queued(machine).await;
            fixture.append(session, run, 1, answer("m")).await;
            fixture.complete(session, run).await;
        }
        stop.send(()).unwrap();
        assert!(reader.await.unwrap() > 0);
        fixture.store.close().await;
    }
}

/// SC-3.1, SC-2.4: on PostgreSQL a Session that somebody holds locked delays nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_session_delays_nobody_on_postgres() {
    use berth_store::units::{
        environment::FailEnvironment,
        reservation::{ExpireReservation, Expired},
    };
    use domain::environment::FailureReason;
    use sqlx::Connection;

    let db = TestDatabase::postgres().await;
    let fixture = Fixture::new(&db).await;
    let locked = fixture.create(Placement::OpenaiHosted, &["x"]).await;
    let free = fixture.create(Placement::OpenaiHosted, &["x"]).await;
    let reservation = fixture.pending(locked).await;
    let berth_store::Location::Server { url, .. } = db.location() else {
        panic!("a server")
    };
    let mut holder = sqlx::AnyConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN").execute(&mut holder).await.unwrap();
    sqlx::query("SELECT id FROM sessions WHERE id = $1 FOR UPDATE")
        .bind(locked.to_string())
        .fetch_all(&mut holder)
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let store = fixture.store.clone();
        async move {
            store
                .write(FailEnvironment {
                    session: locked,
                    reason: FailureReason::Incomplete,
                })
                .await
        }
    });
    let started = std::time::Instant::now();
    assert!(
        fixture
            .write(FailEnvironment {
                session: free,
                reason: FailureReason::Incomplete
            })
            .await
    );
    assert!(started.elapsed() < std::time::Duration::from_secs(2));
    assert_eq!(
        fixture
            .write(ExpireReservation {
                session: locked,
                reservation
            })
            .await,
        Expired::Locked
    );
    assert!(!waiting.is_finished());
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    assert!(waiting.await.unwrap().unwrap());
    fixture.check(true).await;
    fixture.store.close().await;
}
