//! The promises of the blob store, on a real folder.
#![allow(clippy::unwrap_used)]

use std::{path::Path, sync::Arc};

use berth_blobs::{BlobError, Blobs, Digest};
use domain::blob::{BlobOwner, BlobRef, BlobScope};
use domain::{FileId, ProjectId};
use seal::{KeyRing, ServiceKey};

fn ring(byte: u8) -> Arc<KeyRing> {
    Arc::new(KeyRing::new(ServiceKey::from_bytes(&[byte; 32]).unwrap()))
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path))
        } else {
            out.push(path)
        }
    }
    out
}

#[tokio::test]
async fn bytes_come_back_and_lie_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::on_disk(folder.path(), ring(1)).unwrap();
    for length in [0_usize, 1, 65_536, 65_537, 7_000_000] {
        let content: Vec<u8> = (0..length).map(|i| (i % 253) as u8).collect();
        let mut writer = blobs.put(length as u64).await.unwrap();
        for piece in content.chunks(50_000) {
            writer.write(piece).await.unwrap();
        }
        let stored = writer.finish().await.unwrap();
        assert_eq!(stored.size, length as u64);
        assert_eq!(
            blobs
                .get(stored.digest)
                .await
                .unwrap()
                .read_all()
                .await
                .unwrap(),
            content
        );
    }
    blobs.put_bytes(b"canary canary canary").await.unwrap();
    for file in files(folder.path()) {
        let raw = std::fs::read(file).unwrap();
        assert!(!raw.windows(6).any(|w| w == b"canary"));
    }
}

#[tokio::test]
async fn equal_content_is_one_blob() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::on_disk(folder.path(), ring(1)).unwrap();
    let one = blobs.put_bytes(b"same").await.unwrap();
    assert_eq!(one, blobs.put_bytes(b"same").await.unwrap());
    assert_eq!(files(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_limit_or_a_drop_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::on_disk(folder.path(), ring(1)).unwrap();
    let mut writer = blobs.put(10).await.unwrap();
    writer.write(b"0123456789").await.unwrap();
    assert!(matches!(
        writer.write(b"x").await,
        Err(BlobError::TooLong { limit: 10 })
    ));
    drop(writer);
    assert!(blobs.older(i64::MAX).await.unwrap().is_empty());
    // A process that died mid-upload: the next start removes what it left.
    std::fs::write(folder.path().join("staging").join("left#1"), b"x").unwrap();
    Blobs::on_disk(folder.path(), ring(1)).unwrap();
    assert!(files(folder.path()).is_empty());
}

#[tokio::test]
async fn another_key_a_renamed_or_a_cut_blob_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::on_disk(folder.path(), ring(1)).unwrap();
    let stored = blobs.put_bytes(&[5; 200_000]).await.unwrap();
    let other = Blobs::on_disk(folder.path(), ring(2)).unwrap();
    assert!(matches!(
        other.get(stored.digest).await,
        Err(BlobError::Seal(seal::SealError::WrongKey { .. }))
    ));

    let path = files(folder.path()).remove(0);
    let raw = std::fs::read(&path).unwrap();
    let renamed = Digest::from_bytes([0; 32]);
    let target = folder.path().join("content/00").join(renamed.to_string());
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::write(&target, &raw).unwrap();
    assert!(matches!(
        blobs.get(renamed).await,
        Err(BlobError::Seal(seal::SealError::Damaged))
    ));

    let mut cut = raw.clone();
    cut.drain(70_000..140_000);
    std::fs::write(&path, cut).unwrap();
    assert!(
        blobs
            .get(stored.digest)
            .await
            .unwrap()
            .read_all()
            .await
            .is_err()
    );
}

#[tokio::test]
async fn the_sweep_spares_what_was_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::on_disk(folder.path(), ring(1)).unwrap();
    let stored = blobs.put_bytes(b"kept").await.unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let path = files(folder.path()).remove(0);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(old)
        .unwrap();
    let cut = old
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64
        + 1000;
    assert_eq!(blobs.older(cut).await.unwrap(), [stored.digest]);
    blobs.put_bytes(b"kept").await.unwrap();
    assert!(!blobs.delete_older(stored.digest, cut).await.unwrap());
    assert!(blobs.delete_older(stored.digest, i64::MAX).await.unwrap());
    assert!(matches!(
        blobs.get(stored.digest).await,
        Err(BlobError::Missing(_))
    ));
    assert!(blobs.delete_older(stored.digest, 0).await.unwrap());
}

#[tokio::test]
async fn bytes_of_two_owners_are_apart_and_do_not_open_for_each_other() {
    // KEY-002, KEY-006: equal bytes are no common blob, and a moved or forged reference opens nothing.
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::on_disk(folder.path(), ring(1)).unwrap();
    let scope = |project, file| BlobScope {
        project: ProjectId::new(uuid::Uuid::from_u128(project)),
        owner: BlobOwner::File {
            id: FileId::new(uuid::Uuid::from_u128(file)),
        },
    };
    let one = blobs.put_bytes_for(scope(1, 1), b"same").await.unwrap();
    let two = blobs.put_bytes_for(scope(2, 1), b"same").await.unwrap();
    assert_eq!((one.digest, one.size), (two.digest, two.size));
    assert_eq!(files(folder.path()).len(), 2);
    for stored in [one, two] {
        let read = blobs.get_for(&stored).await.unwrap().read_all().await;
        assert_eq!(read.unwrap(), b"same");
    }
    let forged = BlobRef {
        project: ProjectId::new(uuid::Uuid::from_u128(3)),
        ..one
    };
    assert!(matches!(
        blobs.get_for(&forged).await,
        Err(BlobError::Missing(_))
    ));
    // One owner's object laid in the place of another's.
    let place = |stored: &BlobRef| {
        let name = stored.name().to_string();
        folder.path().join("content").join(&name[..2]).join(name)
    };
    std::fs::copy(place(&one), place(&two)).unwrap();
    assert!(matches!(blobs.get_for(&two).await, Err(BlobError::Seal(_))));
}
