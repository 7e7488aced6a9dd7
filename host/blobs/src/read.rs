//! Streaming get: trailer first (it holds the data key), then the chunks.

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use object_store::{GetOptions, GetRange, GetResult, ObjectStore};
use seal::{Binding, STREAM_NONCE_LEN, StreamOpener, WRAPPED_LEN};

use crate::{BlobError, Blobs, Digest, content_path};

/// One blob being read. Each piece is authentic; the end is authentic only when `next` returned `None`.
pub struct BlobReader {
    opener: Option<StreamOpener>,
    body: BoxStream<'static, object_store::Result<Bytes>>,
}

impl BlobReader {
    /// Opens what is stored under a name and was sealed for `binding`.
    pub(crate) async fn open(
        blobs: &Blobs,
        name: Digest,
        binding: &Binding<'_>,
    ) -> Result<Self, BlobError> {
        // A put of equal content may replace the object between the two requests: then read the new one.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Self::attempt(blobs, name, binding).await {
                Err(BlobError::Store(object_store::Error::Precondition { .. })) if attempts < 5 => {
                }
                other => return other,
            }
        }
    }

    async fn attempt(
        blobs: &Blobs,
        name: Digest,
        binding: &Binding<'_>,
    ) -> Result<Self, BlobError> {
        let trailer = fetch(blobs, name, GetRange::Suffix(WRAPPED_LEN as u64), None).await?;
        let (tag, total) = (trailer.meta.e_tag.clone(), trailer.meta.size);
        let wrapped = trailer.bytes().await?;
        let body_end = total
            .checked_sub(WRAPPED_LEN as u64)
            .filter(|end| *end > STREAM_NONCE_LEN as u64);
        let body_end = body_end.ok_or(seal::SealError::Damaged)?;
        let result = fetch(blobs, name, GetRange::Bounded(0..body_end), tag).await?;
        let mut body = result.into_stream();
        let mut head = Vec::new();
        while head.len() < STREAM_NONCE_LEN {
            match body.next().await {
                Some(piece) => head.extend_from_slice(&piece?),
                None => return Err(seal::SealError::Damaged.into()),
            }
        }
        let rest = head.split_off(STREAM_NONCE_LEN);
        let nonce: [u8; STREAM_NONCE_LEN] = head
            .as_slice()
            .try_into()
            .map_err(|_| seal::SealError::Damaged)?;
        let opener = StreamOpener::new(&blobs.ring, binding, nonce, &wrapped)?;
        let body = futures_util::stream::once(async move { Ok(Bytes::from(rest)) })
            .chain(body)
            .boxed();
        Ok(Self {
            opener: Some(opener),
            body,
        })
    }

    /// The next plaintext bytes, or `None` at the verified end.
    ///
    /// # Errors
    /// [`BlobError::Seal`] if the object was altered or cut, [`BlobError::Store`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        while let Some(opener) = &mut self.opener {
            let plain = match self.body.next().await {
                Some(piece) => opener.push(&piece?)?,
                None => match self.opener.take() {
                    Some(opener) => opener.finish()?,
                    None => break,
                },
            };
            if !plain.is_empty() {
                return Ok(Some(Bytes::copy_from_slice(&plain)));
            }
        }
        Ok(None)
    }

    /// Reads to the end.
    ///
    /// # Errors
    /// As [`BlobReader::next`].
    pub async fn read_all(mut self) -> Result<Vec<u8>, BlobError> {
        let mut out = Vec::new();
        while let Some(piece) = self.next().await? {
            out.extend_from_slice(&piece);
        }
        Ok(out)
    }
}

pub(crate) async fn fetch(
    blobs: &Blobs,
    name: Digest,
    range: GetRange,
    if_match: Option<String>,
) -> Result<GetResult, BlobError> {
    let options = GetOptions {
        range: Some(range),
        if_match,
        ..GetOptions::default()
    };
    blobs
        .store
        .get_opts(&content_path(name), options)
        .await
        .map_err(|error| match error {
            object_store::Error::NotFound { .. } => BlobError::Missing(name),
            other => other.into(),
        })
}
