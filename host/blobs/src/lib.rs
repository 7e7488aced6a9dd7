//! Bytes of files: Artifacts, uploads, bundles. Content-addressed (SHA-256 of the plaintext, together with the owner where
//! there is one), sealed, on disk or in an object store; the database holds only digests and sizes.
//!
//! A blob is written before the row that names it (the commit publishes it), so a crash in between leaves an
//! unreferenced blob, never a row without bytes. [`Blobs::delete_older`] is how the sweep removes those: it
//! spares a blob that was written again meanwhile, because every put renews the object's modification time.

#![forbid(unsafe_code)]

pub mod error;
pub mod read;
pub mod rewrap;
pub mod write;

use std::{path::Path, sync::Arc};

use domain::blob::{BlobOwner, BlobRef, BlobScope};
use futures_util::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, local::LocalFileSystem, path::Path as ObjectPath};
use seal::{Binding, KeyRing, Purpose};

pub use domain::Digest;
pub use error::BlobError;
pub use read::BlobReader;
pub use rewrap::{Owned, Rewrap};
pub use write::{BlobWriter, StoredBlob};

const CONTENT: &str = "content";
const STAGING: &str = "staging";

/// Locks that order a put of a digest against its deletion; collisions only cost waiting.
const STRIPES: usize = 64;

/// The blob store of one installation. Cheap to clone.
#[derive(Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    ring: Arc<KeyRing>,
    stripes: Arc<Vec<tokio::sync::Mutex<()>>>,
}

impl Blobs {
    /// Opens (and creates) a folder. Every put is on disk, folder entry included, before it returns.
    ///
    /// Left-overs of interrupted uploads are removed.
    ///
    /// # Errors
    /// [`BlobError::Folder`] if the folder cannot be made or read.
    pub fn on_disk(folder: &Path, ring: Arc<KeyRing>) -> Result<Self, BlobError> {
        let failed = |source| BlobError::Folder {
            path: folder.display().to_string(),
            source,
        };
        let staging = folder.join(STAGING);
        match std::fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        for inner in [&staging, &folder.join(CONTENT)] {
            private_folder(inner).map_err(failed)?;
        }
        let store = LocalFileSystem::new_with_prefix(folder)?.with_fsync(true);
        Ok(Self::over(Arc::new(store), ring))
    }

    /// Uses any object store.
    pub fn over(store: Arc<dyn ObjectStore>, ring: Arc<KeyRing>) -> Self {
        let stripes = (0..STRIPES).map(|_| tokio::sync::Mutex::new(())).collect();
        Self {
            store,
            ring,
            stripes: Arc::new(stripes),
        }
    }

    /// Starts a blob of at most `limit` bytes.
    ///
    /// # Errors
    /// [`BlobError::Store`].
    pub async fn put(&self, limit: u64) -> Result<BlobWriter, BlobError> {
        BlobWriter::start(self.clone(), limit).await
    }

    /// Stores bytes that are already in memory.
    ///
    /// # Errors
    /// [`BlobError::Store`].
    pub async fn put_bytes(&self, bytes: &[u8]) -> Result<StoredBlob, BlobError> {
        let mut writer = self.put(bytes.len() as u64).await?;
        writer.write(bytes).await?;
        writer.finish().await
    }

    /// Opens a blob for reading.
    ///
    /// # Errors
    /// [`BlobError::Missing`] if there is none, [`BlobError::Seal`] if it cannot be opened.
    pub async fn get(&self, digest: Digest) -> Result<BlobReader, BlobError> {
        let name = digest.to_string();
        let owner = [name.as_str()];
        BlobReader::open(self, digest, &Binding::new(Purpose::Blob, &owner)).await
    }

    /// Stores bytes of one owner that are already in memory.
    ///
    /// # Errors
    /// [`BlobError::Store`].
    pub async fn put_bytes_for(
        &self,
        scope: BlobScope,
        bytes: &[u8],
    ) -> Result<BlobRef, BlobError> {
        let mut writer = self.put(bytes.len() as u64).await?;
        writer.write(bytes).await?;
        writer.finish_for(scope).await
    }

    /// Opens the bytes of one owner for reading.
    ///
    /// # Errors
    /// As [`Blobs::get`].
    pub async fn get_for(&self, stored: &BlobRef) -> Result<BlobReader, BlobError> {
        let ids = stored.scope().ids();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let binding = Binding::new(purpose(stored.owner), &ids);
        BlobReader::open(self, stored.name(), &binding).await
    }

    /// Deletes a blob unless it was written after `before_ms` (Unix milliseconds of the object store's clock).
    /// Returns whether it is gone. Deleting a missing blob is no error.
    ///
    /// # Errors
    /// [`BlobError::Store`].
    pub async fn delete_older(&self, digest: Digest, before_ms: i64) -> Result<bool, BlobError> {
        let _order = self.stripe(digest).lock().await;
        let path = content_path(digest);
        match self.store.head(&path).await {
            Ok(meta) if meta.last_modified.timestamp_millis() >= before_ms => Ok(false),
            Ok(_) => match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(true),
                Err(error) => Err(error.into()),
            },
            Err(object_store::Error::NotFound { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The clock that dates blobs, in Unix milliseconds: the object store's own, which may differ from every other.
    ///
    /// # Errors
    /// [`BlobError::Store`].
    pub async fn now(&self) -> Result<i64, BlobError> {
        let probe = staging_path();
        self.store.put(&probe, Vec::new().into()).await?;
        let meta = self.store.head(&probe).await;
        self.store.delete(&probe).await?;
        Ok(meta?.last_modified.timestamp_millis())
    }

    /// The digests of all blobs last written before `before_ms`; the sweep compares them with the database.
    ///
    /// # Errors
    /// [`BlobError::Store`].
    pub async fn older(&self, before_ms: i64) -> Result<Vec<Digest>, BlobError> {
        let found: Vec<_> = self
            .store
            .list(Some(&ObjectPath::from(CONTENT)))
            .try_collect()
            .await?;
        Ok(found
            .into_iter()
            .filter(|meta| meta.last_modified.timestamp_millis() < before_ms)
            .filter_map(|meta| meta.location.filename().and_then(|name| name.parse().ok()))
            .collect())
    }

    pub(crate) fn stripe(&self, digest: Digest) -> &tokio::sync::Mutex<()> {
        &self.stripes[usize::from(digest.as_bytes()[0]) % STRIPES]
    }
}

/// What the bytes of an owner are, for their seal (KEY-006).
pub(crate) fn purpose(owner: BlobOwner) -> Purpose {
    match owner {
        BlobOwner::File { .. } => Purpose::File,
        BlobOwner::SkillVersion { .. } => Purpose::SkillBundle,
        BlobOwner::Inline { .. } => Purpose::EnvironmentFiles,
    }
}

pub(crate) fn content_path(digest: Digest) -> ObjectPath {
    let name = digest.to_string();
    ObjectPath::from(format!("{CONTENT}/{}/{name}", &name[..2]))
}

pub(crate) fn staging_path() -> ObjectPath {
    ObjectPath::from(format!("{STAGING}/{}", uuid::Uuid::new_v4()))
}

/// Sealed or not, what is stored is nobody else's business: the folder above may let other accounts pass (LOC-006).
fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
