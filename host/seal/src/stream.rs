//! Large bodies: 64 KiB chunks under the STREAM construction, so that a cut, repeated or swapped chunk is seen.
//!
//! A sealed body is `nonce (7) · chunk… · last chunk · wrapped data key`. The wrapped key stands at the end,
//! because a content-addressed owner (the digest) is known only after the last byte.

use aead_stream::{DecryptorBE32, EncryptorBE32, Nonce, StreamBE32};
use aes_gcm::Aes256Gcm;

use crate::{
    Opened,
    binding::Binding,
    error::SealError,
    key::{KeyRing, random},
    wrap::{DataKey, TAG_LEN},
};

/// Plaintext bytes of every chunk but the last.
pub const CHUNK_LEN: usize = 64 * 1024;
/// Bytes that precede the first chunk.
pub const STREAM_NONCE_LEN: usize = 7;
/// Sealed bytes of every chunk but the last.
pub const SEALED_CHUNK_LEN: usize = CHUNK_LEN + TAG_LEN;

/// Seals one body. Feed it any pieces; it emits whole chunks.
pub struct StreamSealer {
    key: DataKey,
    encryptor: EncryptorBE32<Aes256Gcm>,
    pending: zeroize::Zeroizing<Vec<u8>>,
    chunks: u32,
}

impl StreamSealer {
    /// Starts a body. The returned bytes come first in the sealed form.
    ///
    /// # Errors
    /// [`SealError::NoRandomness`].
    pub fn new() -> Result<(Self, [u8; STREAM_NONCE_LEN]), SealError> {
        let key = DataKey::generate()?;
        let nonce = *random::<STREAM_NONCE_LEN>()?;
        let encryptor = EncryptorBE32::from_aead(
            key.cipher(),
            &Nonce::<Aes256Gcm, StreamBE32<Aes256Gcm>>::from(nonce),
        );
        Ok((
            Self {
                key,
                encryptor,
                pending: zeroize::Zeroizing::new(Vec::new()),
                chunks: 0,
            },
            nonce,
        ))
    }

    /// Takes the next plaintext bytes and returns the sealed chunks that they complete.
    ///
    /// # Errors
    /// [`SealError::TooLong`].
    pub fn push(&mut self, mut plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut out = Vec::new();
        // A full buffer is kept until more arrives: only then is it known not to be the last chunk.
        while !plain.is_empty() {
            if self.pending.len() == CHUNK_LEN {
                self.chunks = self
                    .chunks
                    .checked_add(1)
                    .filter(|n| *n < u32::MAX)
                    .ok_or(SealError::TooLong)?;
                out.extend(
                    self.encryptor
                        .encrypt_next(self.pending.as_slice())
                        .map_err(|_| SealError::TooLong)?,
                );
                self.pending.clear();
            }
            let take = plain.len().min(CHUNK_LEN - self.pending.len());
            self.pending.extend_from_slice(&plain[..take]);
            plain = &plain[take..];
        }
        Ok(out)
    }

    /// Ends the body: the last chunk and the data key, wrapped for `binding`.
    ///
    /// # Errors
    /// [`SealError::TooLong`], [`SealError::NoRandomness`].
    pub fn finish(self, ring: &KeyRing, binding: &Binding<'_>) -> Result<Vec<u8>, SealError> {
        let mut out = self
            .encryptor
            .encrypt_last(self.pending.as_slice())
            .map_err(|_| SealError::TooLong)?;
        out.extend_from_slice(&self.key.wrap(ring, binding)?);
        Ok(out)
    }
}

/// Opens one body, given its trailer first.
pub struct StreamOpener {
    decryptor: DecryptorBE32<Aes256Gcm>,
    pending: Vec<u8>,
}

impl StreamOpener {
    /// Starts with the nonce (the first [`STREAM_NONCE_LEN`] bytes) and the wrapped key (the last [`WRAPPED_LEN`]).
    ///
    /// # Errors
    /// As [`KeyRing::open`].
    pub fn new(
        ring: &KeyRing,
        binding: &Binding<'_>,
        nonce: [u8; STREAM_NONCE_LEN],
        wrapped: &[u8],
    ) -> Result<Self, SealError> {
        let key = DataKey::unwrap(ring, binding, wrapped)?;
        let nonce = Nonce::<Aes256Gcm, StreamBE32<Aes256Gcm>>::from(nonce);
        Ok(Self {
            decryptor: DecryptorBE32::from_aead(key.cipher(), &nonce),
            pending: Vec::new(),
        })
    }

    /// Takes the next sealed bytes (between nonce and trailer) and returns the plaintext that they complete.
    ///
    /// # Errors
    /// [`SealError::Damaged`].
    pub fn push(&mut self, sealed: &[u8]) -> Result<Opened, SealError> {
        self.pending.extend_from_slice(sealed);
        let mut out = Opened::new(Vec::new());
        let mut from = 0;
        while self.pending.len() - from > SEALED_CHUNK_LEN {
            let chunk = &self.pending[from..from + SEALED_CHUNK_LEN];
            out.extend(
                self.decryptor
                    .decrypt_next(chunk)
                    .map_err(|_| SealError::Damaged)?,
            );
            from += SEALED_CHUNK_LEN;
        }
        self.pending.drain(..from);
        Ok(out)
    }

    /// Ends the body.
    ///
    /// # Errors
    /// [`SealError::Damaged`] if bytes are missing.
    pub fn finish(self) -> Result<Opened, SealError> {
        self.decryptor
            .decrypt_last(self.pending.as_slice())
            .map(Opened::new)
            .map_err(|_| SealError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, ServiceKey, WRAPPED_LEN};

    const BINDING: Binding<'static> = Binding::new(Purpose::Blob, &["digest"]);

    fn ring() -> KeyRing {
        KeyRing::new(ServiceKey::from_bytes(&[9; 32]).unwrap())
    }

    fn seal(plain: &[u8], piece: usize) -> Vec<u8> {
        let (mut sealer, nonce) = StreamSealer::new().unwrap();
        let mut out = nonce.to_vec();
        for part in plain.chunks(piece) {
            out.extend(sealer.push(part).unwrap());
        }
        out.extend(sealer.finish(&ring(), &BINDING).unwrap());
        out
    }

    fn open(sealed: &[u8], piece: usize) -> Result<Vec<u8>, SealError> {
        let body = sealed.len() - WRAPPED_LEN;
        let nonce = sealed[..STREAM_NONCE_LEN].try_into().unwrap();
        let mut opener = StreamOpener::new(&ring(), &BINDING, nonce, &sealed[body..])?;
        let mut out = Vec::new();
        for part in sealed[STREAM_NONCE_LEN..body].chunks(piece) {
            out.extend_from_slice(&opener.push(part)?);
        }
        out.extend_from_slice(&opener.finish()?);
        Ok(out)
    }

    #[test]
    fn every_length_around_a_chunk_comes_back() {
        for length in [
            0,
            1,
            CHUNK_LEN - 1,
            CHUNK_LEN,
            CHUNK_LEN + 1,
            2 * CHUNK_LEN,
            2 * CHUNK_LEN + 17,
        ] {
            let plain: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            for piece in [1000, CHUNK_LEN, 3 * CHUNK_LEN] {
                assert_eq!(
                    open(&seal(&plain, piece), piece).unwrap(),
                    plain,
                    "{length} in {piece}"
                );
            }
        }
    }

    #[test]
    fn a_missing_or_swapped_chunk_is_seen() {
        let plain = vec![7; 3 * CHUNK_LEN];
        let sealed = seal(&plain, CHUNK_LEN);
        let mut cut = sealed.clone();
        cut.drain(STREAM_NONCE_LEN + 2 * SEALED_CHUNK_LEN..sealed.len() - WRAPPED_LEN);
        assert_eq!(open(&cut, 4096).unwrap_err(), SealError::Damaged);
        let mut swapped = sealed.clone();
        let (a, b) = (STREAM_NONCE_LEN, STREAM_NONCE_LEN + SEALED_CHUNK_LEN);
        swapped[a..b].copy_from_slice(&sealed[b..b + SEALED_CHUNK_LEN]);
        assert_eq!(open(&swapped, 4096).unwrap_err(), SealError::Damaged);
    }
}
