//! Streaming put: seal, count, hash, upload to a staging name, then publish under the digest.

use domain::blob::{BlobRef, BlobScope};
use object_store::{MultipartUpload, ObjectStoreExt, path::Path as ObjectPath};
use seal::{Binding, Purpose, StreamSealer};
use sha2::{Digest as _, Sha256};

use crate::{BlobError, Blobs, Digest, content_path, purpose, staging_path};

/// Object stores want parts of at least 5 MiB; a disk takes any, and memory stays bounded by one part.
pub(crate) const PART_LEN: usize = 6 * 1024 * 1024;

/// A blob that is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its name.
    pub digest: Digest,
    /// Plaintext bytes.
    pub size: u64,
}

/// One blob being written. Dropping it leaves nothing behind.
pub struct BlobWriter {
    blobs: Blobs,
    limit: u64,
    size: u64,
    hash: Sha256,
    sealer: StreamSealer,
    part: Vec<u8>,
    staged: Staged,
}

/// The upload and its name; both are removed if the writer is dropped before it publishes.
pub(crate) struct Staged {
    path: ObjectPath,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl BlobWriter {
    pub(crate) async fn start(blobs: Blobs, limit: u64) -> Result<Self, BlobError> {
        let staged = Staged::start(&blobs).await?;
        let (sealer, nonce) = StreamSealer::new()?;
        Ok(Self {
            blobs,
            limit,
            size: 0,
            hash: Sha256::new(),
            sealer,
            part: nonce.to_vec(),
            staged,
        })
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`BlobError::TooLong`] as soon as the limit is passed, before the excess is stored; [`BlobError::Store`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let size = self.size.saturating_add(bytes.len() as u64);
        if size > self.limit {
            return Err(BlobError::TooLong { limit: self.limit });
        }
        self.size = size;
        self.hash.update(bytes);
        self.part.extend(self.sealer.push(bytes)?);
        if self.part.len() >= PART_LEN {
            self.staged.send(&mut self.part).await?;
        }
        Ok(())
    }

    /// Publishes the blob; it is durable when this returns. Equal content is one blob.
    ///
    /// # Errors
    /// [`BlobError::Seal`], [`BlobError::Store`].
    pub async fn finish(self) -> Result<StoredBlob, BlobError> {
        let (digest, size) = (self.digest(), self.size);
        let name = digest.to_string();
        let owner = [name.as_str()];
        self.publish(digest, &Binding::new(Purpose::Blob, &owner))
            .await?;
        Ok(StoredBlob { digest, size })
    }

    /// Publishes the bytes of one owner: sealed to it and apart from everybody else's, equal or not. Durable when this
    /// returns; storing them again for the same owner is harmless.
    ///
    /// # Errors
    /// [`BlobError::Seal`], [`BlobError::Store`].
    pub async fn finish_for(self, scope: BlobScope) -> Result<BlobRef, BlobError> {
        let stored = scope.stored(self.digest(), self.size);
        let ids = scope.ids();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.publish(stored.name(), &Binding::new(purpose(scope.owner), &ids))
            .await?;
        Ok(stored)
    }

    fn digest(&self) -> Digest {
        Digest::from_bytes(self.hash.clone().finalize().into())
    }

    async fn publish(mut self, name: Digest, binding: &Binding<'_>) -> Result<(), BlobError> {
        self.part
            .extend(self.sealer.finish(&self.blobs.ring, binding)?);
        self.staged.send(&mut self.part).await?;
        self.staged.publish(&self.blobs, name).await
    }
}

impl Staged {
    pub(crate) async fn start(blobs: &Blobs) -> Result<Self, BlobError> {
        let path = staging_path();
        let upload = blobs.store.put_multipart(&path).await?;
        Ok(Self {
            path,
            upload: Some(upload),
        })
    }

    pub(crate) async fn send(&mut self, part: &mut Vec<u8>) -> Result<(), BlobError> {
        if let Some(upload) = &mut self.upload {
            upload.put_part(std::mem::take(part).into()).await?;
        }
        Ok(())
    }

    /// Ends the upload and gives it its name. Replacing equal content is harmless and renews its modification time, which the
    /// sweep respects.
    pub(crate) async fn publish(mut self, blobs: &Blobs, name: Digest) -> Result<(), BlobError> {
        if let Some(mut upload) = self.upload.take() {
            upload.complete().await?;
        }
        let _order = blobs.stripe(name).lock().await;
        blobs.store.rename(&self.path, &content_path(name)).await?;
        Ok(())
    }
}
