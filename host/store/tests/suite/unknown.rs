//! Commits whose outcome is unknown: the connection is cut inside `COMMIT` (D27, ENV-217).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use berth_store::{
    Store, StoreError, WriteError,
    provider_state::{PutProviderState, StateKey},
    testing::{TestDatabase, violations},
    units::create::Created,
};
use domain::session::Placement;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::fixture::{Fixture, creation, message, own};

/// A proxy in front of the database that, once armed, passes the next `COMMIT` on and cuts the line before its answer.
async fn proxy(upstream: String, armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, armed) = (TcpStream::connect(&upstream).await.unwrap(), armed.clone());
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let answers =
                    tokio::spawn(
                        async move { tokio::io::copy(&mut from_server, &mut to_client).await },
                    );
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                    let commit = buffer[..length]
                        .windows(7)
                        .any(|window| window == b"COMMIT\0");
                    let cut = commit && armed.swap(false, Ordering::SeqCst);
                    if cut {
                        answers.abort();
                    }
                    if to_server.write_all(&buffer[..length]).await.is_err() || cut {
                        break;
                    }
                }
                if !answers.is_finished() {
                    answers.abort();
                }
                // The server finishes what it has received.
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_commit_is_unknown_and_its_key_tells() {
    let db = TestDatabase::postgres().await;
    let direct = Fixture::new(&db).await;
    let armed = Arc::new(AtomicBool::new(false));
    let mut settings = db.settings();
    settings.location = db.through(proxy(db.server(), armed.clone()).await);
    let store = Store::open(settings).await.unwrap();

    // A public unit: the commit was made, its answer was lost. The key finds it again, once.
    let create = creation(
        direct.project,
        Placement::None,
        vec![message("hi")],
        Some("key"),
    );
    armed.store(true, Ordering::SeqCst);
    let lost = store.write(create.clone()).await;
    assert!(
        matches!(&lost, Err(WriteError::Store(error)) if error.is_unknown()),
        "{lost:?}"
    );
    assert!(!armed.load(Ordering::SeqCst), "the line was not cut");
    let mut again = creation(
        direct.project,
        Placement::None,
        vec![message("hi")],
        Some("key"),
    );
    again.key = create.key.clone();
    let session = create.new.id;
    assert!(
        matches!(store.write(again).await, Ok(Created::Before { session: same }) if same == session)
    );

    // A leased unit: unknown as well, and the writer goes on over a new connection.
    own(&store).await;
    let key = StateKey {
        provider: "local".to_owned(),
        allocation: None,
        key: "k".to_owned(),
    };
    let put = |value: &str| PutProviderState {
        key: key.clone(),
        value: Some(value.to_owned().into()),
    };
    armed.store(true, Ordering::SeqCst);
    let lost = store.write(put("one")).await;
    assert!(
        matches!(&lost, Err(WriteError::Store(StoreError::CommitUnknown(_)))),
        "{lost:?}"
    );
    store.write(put("two")).await.unwrap();
    assert_eq!(
        direct
            .store
            .read()
            .provider_state(&key)
            .await
            .unwrap()
            .unwrap()
            .as_str(),
        Some("two")
    );
    assert!(violations(&direct.store, true).await.unwrap().is_empty());
    store.close().await;
    direct.store.close().await;
}
