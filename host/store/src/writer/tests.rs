//! How units reach the disk, on both databases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use domain::{OwnerId, lease::Authority};
use sqlx::Row;
use tokio::sync::{Notify, Semaphore};

use crate::{
    Acquired, Durability, Store, StoreError, Unit, UnitError, WriteError, testing::TestDatabase,
    tx::Tx,
};

/// One test on both databases.
macro_rules! both {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident: TestDatabase) $body:block)*) => {$(
        mod $name {
            use super::*;
            async fn body($db: TestDatabase) $body
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() { body(TestDatabase::sqlite()).await }
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() { body(TestDatabase::postgres().await).await }
        }
    )*};
}

/// Adds a Project under a name, after waiting for a gate; may refuse, fail or panic after the row is written.
#[derive(Clone)]
struct Add {
    name: String,
    gate: Option<Arc<Semaphore>>,
    entered: Option<Arc<Notify>>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Commit,
    Refuse,
    Fail,
    Panic,
}

fn add(name: &str) -> Add {
    Add {
        name: name.to_owned(),
        gate: None,
        entered: None,
        then: Then::Commit,
    }
}

impl Add {
    async fn insert(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<&'static str>> {
        sqlx::query("INSERT INTO projects (id, name, created_at) VALUES ($1, $2, 0)")
            .bind(&self.name)
            .bind(&self.name)
            .execute(&mut *tx.conn)
            .await?;
        if let Some(entered) = &self.entered {
            entered.notify_one();
        }
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        match self.then {
            Then::Commit => Ok(()),
            Then::Refuse => Err(UnitError::Refused("no")),
            Then::Fail => Err(UnitError::Store(StoreError::Impossible("test".to_owned()))),
            Then::Panic => panic!("a bug"),
        }
    }
}

impl Unit for Add {
    const NAME: &'static str = "Add";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = &'static str;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<&'static str>> {
        self.insert(tx).await
    }
}

/// The same under the lease.
struct LeasedAdd(Add);

impl Unit for LeasedAdd {
    const NAME: &'static str = "LeasedAdd";
    const LEASED: bool = true;
    type Answer = ();
    type Refusal = &'static str;

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<&'static str>> {
        self.0.insert(tx).await
    }
}

async fn names(store: &Store) -> Vec<String> {
    let rows = sqlx::query("SELECT name FROM projects ORDER BY name")
        .fetch_all(&mut store.inner.readers.connection().await.unwrap())
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn own(store: &Store) -> OwnerId {
    let owner = OwnerId::new(uuid::Uuid::new_v4());
    assert!(matches!(
        store.acquire_lease(owner, Authority::Expiry).await.unwrap(),
        Acquired::Held(_)
    ));
    owner
}

both! {
    async fn whoever_gives_up_reading_takes_nothing_along(db: TestDatabase) {
        // S-ST-4: a reader may be dropped at any await; its connection shows nobody an old state, and none is lost.
        let store = db.open().await;
        let connections = store.inner.settings.readers;
        for round in 0..20_u32 {
            let mut snapshots = Vec::new();
            for _ in 0..connections {
                let mut snapshot = store.inner.readers.snapshot().await.unwrap();
                sqlx::query("SELECT name FROM projects").fetch_all(&mut *snapshot).await.unwrap();
                snapshots.push(snapshot);
            }
            drop(snapshots);
            for micros in [0, 10, 50, 200] {
                let given_up = tokio::time::timeout(Duration::from_micros(micros), names(&store));
                drop(given_up.await);
            }
            store.write(add(&format!("{round:02}"))).await.unwrap();
            for _ in 0..connections {
                assert_eq!(names(&store).await.len() as u32, round + 1);
            }
        }
        store.close().await;
    }

    async fn a_refusal_a_failure_and_a_panic_write_nothing_and_stop_nobody(db: TestDatabase) {
        let store = db.open().await;
        let before = db.dump().await.unwrap();
        let end = |then| Add { then, ..add("a") };
        assert!(matches!(store.write(end(Then::Refuse)).await, Err(WriteError::Refused("no"))));
        assert!(matches!(store.write(end(Then::Fail)).await, Err(WriteError::Store(StoreError::Impossible(_)))));
        assert!(matches!(store.write(end(Then::Panic)).await, Err(WriteError::Store(StoreError::Impossible(_)))));
        assert_eq!(db.dump().await.unwrap(), before);
        // The same under the lease, between units of one batch that do commit.
        own(&store).await;
        let gate = Arc::new(Semaphore::new(0));
        let mut units = Vec::new();
        for (name, then) in [("1", Then::Commit), ("2", Then::Refuse), ("3", Then::Fail), ("4", Then::Panic), ("5", Then::Commit)] {
            let unit = LeasedAdd(Add { gate: Some(gate.clone()), then, ..add(name) });
            let store = store.clone();
            units.push(tokio::spawn(async move { store.write(unit).await.is_ok() }));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        gate.add_permits(5);
        let mut committed = Vec::new();
        for unit in units {
            committed.push(unit.await.unwrap());
        }
        assert_eq!(committed, [true, false, false, false, true]);
        assert_eq!(names(&store).await, ["1", "5"]);
        store.close().await;
    }

    /// Every answer waits for the commit that it shares: while one unit of a batch is still at work, none of it is answered.
    async fn waiting_units_share_a_commit(db: TestDatabase) {
        let store = db.open().await;
        own(&store).await;
        let (gate, entered) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
        let held = |name: &str| LeasedAdd(Add { gate: Some(gate.clone()), entered: Some(entered.clone()), ..add(name) });
        let write = |unit| tokio::spawn({ let store = store.clone(); async move { store.write(unit).await.unwrap() } });
        let first = write(held("first"));
        entered.notified().await;
        let others: Vec<_> = (0..20).map(|n| write(LeasedAdd(add(&format!("{n:02}"))))).collect();
        // Spawned tasks have no order: the last of the batch must be behind all others.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let last = write(held("last"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        gate.add_permits(1);
        first.await.unwrap();
        entered.notified().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(others.iter().all(|other| !other.is_finished()), "their commit is still to come");
        assert_eq!(names(&store).await, ["first"]);
        gate.add_permits(1);
        last.await.unwrap();
        for other in others { other.await.unwrap(); }
        assert_eq!(names(&store).await.len(), 22);
        store.close().await;
    }

    async fn without_the_lease_nothing_leased_is_written(db: TestDatabase) {
        let store = db.open().await;
        assert!(matches!(store.write(LeasedAdd(add("a"))).await, Err(WriteError::Store(StoreError::LeaseLost))));
        let owner = own(&store).await;
        store.write(LeasedAdd(add("b"))).await.unwrap();
        // SC-2.5, D31: the next process of the folder takes over; the former one commits nothing, not even what it has in hand.
        let other = db.open().await;
        let Acquired::Held(token) = other.acquire_lease(owner, Authority::Folder).await.unwrap() else {
            panic!("the folder lock proves the former owner dead")
        };
        assert!(matches!(store.write(LeasedAdd(add("c"))).await, Err(WriteError::Store(StoreError::LeaseLost))));
        assert_eq!(*store.lease().borrow(), None);
        assert!(matches!(store.renew_lease().await, Err(StoreError::LeaseLost)));
        other.write(LeasedAdd(add("d"))).await.unwrap();
        assert_eq!(names(&other).await, ["b", "d"]);
        assert_eq!(other.lease_row().await.unwrap().epoch, token.epoch);
        // SC-2.9: a clean release leaves no wait for the next owner.
        other.release_lease().await.unwrap();
        assert!(matches!(store.acquire_lease(OwnerId::new(uuid::Uuid::new_v4()), Authority::Expiry).await.unwrap(), Acquired::Held(_)));
        store.close().await;
        other.close().await;
    }

    async fn a_live_owner_is_not_overtaken_before_its_lease_expires(db: TestDatabase) {
        let (one, two) = (db.open().await, db.open().await);
        own(&one).await;
        let rival = OwnerId::new(uuid::Uuid::new_v4());
        assert!(matches!(two.acquire_lease(rival, Authority::Folder).await.unwrap(), Acquired::Other { .. }), "another folder's lock");
        let Acquired::Other { expires_at } = two.acquire_lease(rival, Authority::Expiry).await.unwrap() else { panic!("overtaken") };
        assert!(expires_at > two.now().await.unwrap());
        // The owner is stopped for longer than its lease lasts (the database clock moves, the owner does nothing).
        crate::testing::move_clock(&two, Duration::from_secs(31)).await.unwrap();
        assert!(matches!(two.acquire_lease(rival, Authority::Expiry).await.unwrap(), Acquired::Held(_)));
        assert!(matches!(one.write(LeasedAdd(add("late"))).await, Err(WriteError::Store(StoreError::LeaseLost))));
        assert!(names(&two).await.is_empty());
        one.close().await;
        two.close().await;
    }

    async fn a_unit_that_waits_too_long_is_told_so_and_does_nothing(db: TestDatabase) {
        let mut settings = db.settings();
        settings.leased_budget = Duration::from_millis(100);
        let store = Store::open(settings).await.unwrap();
        own(&store).await;
        let (gate, entered) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
        let slow = LeasedAdd(Add { gate: Some(gate.clone()), entered: Some(entered.clone()), ..add("slow") });
        let slow = tokio::spawn({ let store = store.clone(); async move { store.write(slow).await } });
        entered.notified().await;
        let late = tokio::spawn({ let store = store.clone(); async move { store.write(LeasedAdd(add("late"))).await } });
        tokio::time::sleep(Duration::from_millis(200)).await;
        gate.add_permits(1);
        slow.await.unwrap().unwrap();
        assert!(matches!(late.await.unwrap(), Err(WriteError::Store(StoreError::Timeout))));
        assert_eq!(names(&store).await, ["slow"]);
        store.close().await;
    }

    async fn a_caller_that_gives_up_tears_nothing(db: TestDatabase) {
        let store = db.open().await;
        let (gate, entered) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
        let unit = Add { gate: Some(gate.clone()), entered: Some(entered.clone()), ..add("kept") };
        let caller = tokio::spawn({ let store = store.clone(); async move { store.write(unit).await } });
        entered.notified().await;
        caller.abort();
        gate.add_permits(1);
        store.write(add("next")).await.unwrap();
        store.close().await;
        let again = db.open().await;
        assert_eq!(names(&again).await, ["kept", "next"]);
        again.close().await;
    }

    async fn the_service_key_must_be_the_databases_own(db: TestDatabase) {
        db.open().await.close().await;
        let mut settings = db.settings();
        settings.keys = Arc::new(seal::KeyRing::new(seal::ServiceKey::from_bytes(&[8; 32]).unwrap()));
        let Err(error) = Store::open(settings).await else { panic!("a foreign key opened the store") };
        let needed = db.settings().keys.current_id();
        assert!(matches!(error, StoreError::WrongServiceKey { needed: n, .. } if n == needed), "{error}");
        assert!(error.to_string().contains(&needed.to_string()));
    }

    async fn a_newer_schema_is_refused_and_left_alone(db: TestDatabase) {
        let store = db.open().await;
        let installation = store.installation();
        struct Later;
        impl Unit for Later {
            const NAME: &'static str = "Later";
            const LEASED: bool = false;
            type Answer = ();
            type Refusal = &'static str;
            async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<&'static str>> {
                sqlx::query(
                    "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     SELECT 9999, 'later', success, checksum, execution_time FROM _sqlx_migrations WHERE version = 1",
                )
                .execute(&mut *tx.conn)
                .await?;
                Ok(())
            }
        }
        store.write(Later).await.unwrap();
        store.close().await;
        let Err(error) = Store::open(db.settings()).await else { panic!("a newer schema was opened") };
        assert!(matches!(error, StoreError::NewerSchema { found: 9999, .. }), "{error}");
        assert!(error.to_string().contains("newer berth"), "{error}");
        let _ = installation;
    }

    async fn the_installation_keeps_its_identity_and_its_fingerprints(db: TestDatabase) {
        let store = db.open().await;
        let (id, print) = (store.installation(), store.fingerprints().fingerprint(&[b"sk"]).unwrap());
        store.close().await;
        let store = db.open().await;
        assert_eq!((store.installation(), store.fingerprints().fingerprint(&[b"sk"]).unwrap()), (id, print));
        store.close().await;
    }
}

/// Who finds no connection for reading is told so, and writers do not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taken_readers_keep_nobody_for_long_on_sqlite() {
    let db = TestDatabase::sqlite();
    let mut settings = db.settings();
    settings.acquire = Duration::from_millis(100);
    let store = Store::open(settings).await.unwrap();
    for round in ["a", "b"] {
        let taken = crate::testing::take_readers(&store).await.unwrap();
        let told = tokio::time::timeout(Duration::from_secs(30), store.now()).await;
        let Err(StoreError::Database(error)) = told.expect("an answer") else {
            panic!("there is no connection")
        };
        assert!(matches!(*error, sqlx::Error::PoolTimedOut), "{error}");
        store.write(add(round)).await.unwrap();
        drop(taken);
        store.now().await.unwrap();
    }
    store.close().await;
}

/// SQLite keeps one writer; every commit of one process is seen by another store on the file at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_lose_nothing_on_sqlite() {
    let db = TestDatabase::sqlite();
    let (one, two) = (db.open().await, db.open().await);
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let store = if n % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move { store.write(add(&format!("{n:02}"))).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(names(&one).await.len(), 40);
    one.close().await;
    two.close().await;
}

/// A connection that is cut inside a unit: nothing was committed, and the next unit gets a new connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_replaced_on_postgres() {
    let db = TestDatabase::postgres().await;
    let store = db.open().await;
    own(&store).await;
    let (gate, entered) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let cut = LeasedAdd(Add {
        gate: Some(gate.clone()),
        entered: Some(entered.clone()),
        ..add("cut")
    });
    let cut = tokio::spawn({
        let store = store.clone();
        async move { store.write(cut).await }
    });
    entered.notified().await;
    sqlx::query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND state = 'idle in transaction'",
    )
    .fetch_all(&mut store.inner.readers.connection().await.unwrap())
    .await
    .unwrap();
    gate.add_permits(1);
    // The server is gone before COMMIT reached it: only the database can tell, so the answer must not be "committed".
    assert!(matches!(cut.await.unwrap(), Err(WriteError::Store(_))));
    store.write(LeasedAdd(add("next"))).await.unwrap();
    assert_eq!(names(&store).await, ["next"]);
    store.close().await;
}

/// A server that was started again: nobody who reads or writes afterwards is refused for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_a_former_server_fail_nobody_on_postgres() {
    let db = TestDatabase::postgres().await;
    let store = db.open().await;
    own(&store).await;
    for name in ["public", "leased"] {
        store.write(add(&format!("{name} before"))).await.unwrap();
        store
            .write(LeasedAdd(add(&format!("{name} kept"))))
            .await
            .unwrap();
        assert!(names(&store).await.contains(&format!("{name} kept")));
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let other = db.open().await;
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .fetch_all(&mut other.inner.readers.connection().await.unwrap())
        .await
        .unwrap();
        other.close().await;
        // Its own writes come first in one round, its reads in the other.
        if name == "public" {
            store.write(add("after")).await.unwrap();
            store.write(LeasedAdd(add("leased after"))).await.unwrap();
        }
        assert!(names(&store).await.contains(&format!("{name} kept")));
        store.read().model_defaults().await.unwrap();
    }
    store.close().await;
}

/// What is logged of a failure names its cause and quotes no row.
#[tokio::test]
async fn a_failure_tells_its_cause_without_values() {
    for db in [TestDatabase::sqlite(), TestDatabase::postgres().await] {
        let store = db.open().await;
        store.write(add("canary")).await.unwrap();
        let twice = store.write(add("canary")).await.unwrap_err().to_string();
        assert!(twice.starts_with("the database failed ("), "{twice}");
        assert!(
            twice.contains("projects") && !twice.contains("canary"),
            "{twice}"
        );
        store.close().await;
    }
}

/// The connection is cut while a unit finds its row busy: it did nothing, so it tries again and is not told that all is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_unit_outlives_its_connection_on_postgres() {
    struct Busy(AtomicBool);
    impl Unit for Busy {
        const NAME: &'static str = "Busy";
        const LEASED: bool = true;
        type Answer = ();
        type Refusal = &'static str;
        async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<&'static str>> {
            if self.0.swap(false, Ordering::SeqCst) {
                let cut = sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())");
                cut.execute(&mut *tx.conn).await.unwrap_err();
                return Err(UnitError::Store(StoreError::Busy));
            }
            add("late").insert(tx).await
        }
    }
    let db = TestDatabase::postgres().await;
    let store = db.open().await;
    own(&store).await;
    store.write(Busy(AtomicBool::new(true))).await.unwrap();
    assert_eq!(names(&store).await, ["late"]);
    store.close().await;
}

/// A full disk fails what does not fit, and nothing else: the store goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_fails_only_the_units_that_do_not_fit() {
    struct Limit(i64);
    impl Unit for Limit {
        const NAME: &'static str = "Limit";
        const LEASED: bool = false;
        type Answer = ();
        type Refusal = &'static str;
        async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<&'static str>> {
            let pragma = format!("PRAGMA max_page_count = {}", self.0);
            let pragma = sqlx::query(sqlx::AssertSqlSafe(pragma));
            pragma.fetch_all(&mut *tx.conn).await?;
            Ok(())
        }
    }
    let db = TestDatabase::sqlite();
    let store = db.open().await;
    // The smallest that SQLite takes is what the database has.
    store.write(Limit(1)).await.unwrap();
    let large = "x".repeat(1 << 20);
    let refused = store.write(add(&large)).await;
    assert!(
        matches!(refused, Err(WriteError::Store(StoreError::Full))),
        "{refused:?}"
    );
    store.write(add("small")).await.unwrap();
    assert_eq!(names(&store).await, ["small"]);
    // The writer has a new connection by now, which knows no limit.
    store.write(add(&large)).await.unwrap();
    store.close().await;
}

/// The log of a writer that never pauses begins anew all the same, also while somebody reads at every moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_log_stays_short_while_a_writer_never_pauses() {
    struct Fill(usize);
    impl Unit for Fill {
        const NAME: &'static str = "Fill";
        const LEASED: bool = false;
        type Answer = ();
        type Refusal = &'static str;
        fn durability(&self) -> Durability {
            Durability::Flushed
        }
        async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<&'static str>> {
            sqlx::query("INSERT INTO projects (id, name, created_at) VALUES ($1, $2, 0) ON CONFLICT (id) DO UPDATE SET name = excluded.name")
                .bind("same")
                .bind("x".repeat(self.0))
                .execute(&mut *tx.conn)
                .await?;
            Ok(())
        }
    }
    let db = TestDatabase::sqlite();
    let crate::Location::File(path) = db.location() else {
        panic!("a file")
    };
    let store = db.open().await;
    let (written, until) = (
        Arc::new(AtomicU32::new(0)),
        std::time::Instant::now() + Duration::from_secs(6),
    );
    let writers: Vec<_> = (0..4)
        .map(|n| {
            let (store, written) = (store.clone(), written.clone());
            tokio::spawn(async move {
                while std::time::Instant::now() < until {
                    store.write(Fill((1 << 20) + n)).await.unwrap();
                    written.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    // Each of them begins in the middle of the other's.
    let readers: Vec<_> = (0..2)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let half = Duration::from_millis(20);
                tokio::time::sleep(half * n).await;
                while std::time::Instant::now() < until {
                    let mut snapshot = store.inner.readers.snapshot().await.unwrap();
                    let name = sqlx::query("SELECT id FROM projects");
                    name.fetch_all(&mut *snapshot).await.unwrap();
                    tokio::time::sleep(half * 2).await;
                    snapshot.end().await.unwrap();
                }
            })
        })
        .collect();
    for task in writers.into_iter().chain(readers) {
        task.await.unwrap();
    }
    let mut log = path.into_os_string();
    log.push("-wal");
    let (log, written) = (
        std::fs::metadata(log).unwrap().len() >> 20,
        u64::from(written.load(Ordering::SeqCst)),
    );
    println!("{written} MiB were written, the log has {log} MiB");
    // Its file keeps the length that it once had: what came within one period, on top of the limit.
    assert!(
        written < 200 || log < written / 2,
        "{log} MiB of log for {written} MiB of writes"
    );
    store.close().await;
}
