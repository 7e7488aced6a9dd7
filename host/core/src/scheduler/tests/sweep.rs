//! What the sweeps remove, and what they spare.

use std::time::{Duration, SystemTime};

use blobs::Blobs;
use store::testing::{TestDatabase, move_clock};

use crate::scheduler::sweep::sweep_blobs;

/// SC-11.2: the age of a blob is of the clock that dated it, whatever the database's clock says.
#[tokio::test]
async fn a_blob_on_its_way_into_a_row_survives_a_database_that_is_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let database = TestDatabase::sqlite();
    let store = database.open().await;
    let blobs = Blobs::on_disk(folder.path(), store.keys().clone()).unwrap();
    let (fresh, old) = (
        blobs.put_bytes(b"fresh").await.unwrap().digest,
        blobs.put_bytes(b"old").await.unwrap().digest,
    );
    let name = old.to_string();
    let path = folder.path().join("content").join(&name[..2]).join(&name);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(2 * 3600))
        .unwrap();
    move_clock(&store, Duration::from_secs(2 * 3600))
        .await
        .unwrap();
    sweep_blobs(&store, &blobs).await.unwrap();
    assert!(blobs.get(fresh).await.is_ok());
    assert!(blobs.get(old).await.is_err(), "nothing refers to it");
    let left = std::fs::read_dir(folder.path().join("staging")).unwrap();
    assert_eq!(left.count(), 0, "the clock leaves nothing behind");
    store.close().await;
}
