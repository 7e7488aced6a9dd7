//! Rotation of the service key: a blob gets another wrapping of its data key, its content stays as it is (KEY-005).

use domain::blob::BlobRef;
use futures_util::StreamExt;
use object_store::GetRange;
use seal::{Binding, Purpose, WRAPPED_LEN};

use crate::{
    BlobError, Blobs, Digest, purpose,
    read::fetch,
    write::{PART_LEN, Staged},
};

/// A blob and what it is sealed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owned {
    /// Named by its content alone.
    Shared(Digest),
    /// Somebody's.
    By(BlobRef),
}

/// What a rotation found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrap {
    /// Its data key was wrapped by a former key, and is now by the current one.
    Moved,
    /// It was wrapped by the current key already.
    Current,
    /// There is no such blob.
    Missing,
}

impl Owned {
    /// The blob's name.
    pub fn name(&self) -> Digest {
        match self {
            Self::Shared(digest) => *digest,
            Self::By(stored) => stored.name(),
        }
    }
}

impl Blobs {
    /// Re-wraps the data key of a blob. The object is replaced whole or not at all, because a store has no smaller write that
    /// survives a crash; its content is copied as it is, in parts.
    ///
    /// # Errors
    /// [`BlobError::Seal`] if its data key does not open, [`BlobError::Store`].
    pub async fn rewrap(&self, owned: &Owned) -> Result<Rewrap, BlobError> {
        let name = owned.name();
        // Somebody may replace it by the same content meanwhile: then look again.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.try_rewrap(name, owned).await {
                Err(BlobError::Missing(_)) => return Ok(Rewrap::Missing),
                Err(BlobError::Store(object_store::Error::Precondition { .. })) if attempts < 5 => {
                }
                other => return other,
            }
        }
    }

    async fn try_rewrap(&self, name: Digest, owned: &Owned) -> Result<Rewrap, BlobError> {
        let trailer = fetch(self, name, GetRange::Suffix(WRAPPED_LEN as u64), None).await?;
        let (tag, total) = (trailer.meta.e_tag.clone(), trailer.meta.size);
        let wrapped = trailer.bytes().await?;
        if !self.ring.is_former(&wrapped)? {
            return Ok(Rewrap::Current);
        }
        let ids = match owned {
            Owned::Shared(digest) => vec![digest.to_string()],
            Owned::By(stored) => stored.scope().ids(),
        };
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let purpose = match owned {
            Owned::Shared(_) => Purpose::Blob,
            Owned::By(stored) => purpose(stored.owner),
        };
        let fresh = self
            .ring
            .rewrap_key(&Binding::new(purpose, &ids), &wrapped)?;
        let end = total.saturating_sub(WRAPPED_LEN as u64);
        let body = fetch(self, name, GetRange::Bounded(0..end), tag).await?;
        let mut body = body.into_stream();
        let mut staged = Staged::start(self).await?;
        let mut part = Vec::new();
        while let Some(piece) = body.next().await {
            part.extend_from_slice(&piece?);
            if part.len() >= PART_LEN {
                staged.send(&mut part).await?;
            }
        }
        part.extend_from_slice(&fresh);
        staged.send(&mut part).await?;
        staged.publish(self, name).await?;
        Ok(Rewrap::Moved)
    }

    /// Whether a blob needs another key than the current one. A missing one needs none.
    ///
    /// # Errors
    /// [`BlobError::Seal`] if it is no sealed body, [`BlobError::Store`].
    pub async fn is_former(&self, name: Digest) -> Result<bool, BlobError> {
        match fetch(self, name, GetRange::Suffix(WRAPPED_LEN as u64), None).await {
            Ok(trailer) => Ok(self.ring.is_former(&trailer.bytes().await?)?),
            Err(BlobError::Missing(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
