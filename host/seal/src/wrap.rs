//! Data keys and their wrapping: `version, key id, nonce, wrapped key`.

use aes_gcm::{
    Aes256Gcm, KeyInit, Nonce,
    aead::{Aead, Key, Payload},
};
use zeroize::Zeroizing;

use crate::{
    binding::Binding,
    error::SealError,
    key::{KEY_LEN, KeyId, KeyRing, random},
};

const VERSION: u8 = 1;
pub(crate) const NONCE_LEN: usize = 12;
pub(crate) const TAG_LEN: usize = 16;
const ID_END: usize = 1 + 8;
const NONCE_END: usize = ID_END + NONCE_LEN;

/// Length of a wrapped data key: the only part of a sealed value that a rotation rewrites.
pub const WRAPPED_LEN: usize = NONCE_END + KEY_LEN + TAG_LEN;

/// A key for one value.
pub(crate) struct DataKey(Zeroizing<[u8; KEY_LEN]>);

impl DataKey {
    pub(crate) fn generate() -> Result<Self, SealError> {
        Ok(Self(random()?))
    }

    pub(crate) fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(&Key::<Aes256Gcm>::from(*self.0))
    }

    /// Wraps this key under the current service key.
    pub(crate) fn wrap(
        &self,
        ring: &KeyRing,
        binding: &Binding<'_>,
    ) -> Result<[u8; WRAPPED_LEN], SealError> {
        let service = ring.current();
        let nonce = random::<NONCE_LEN>()?;
        let sealed = service
            .cipher()
            .encrypt(
                &Nonce::from(*nonce),
                Payload {
                    msg: self.0.as_slice(),
                    aad: &binding.associated_data(),
                },
            )
            .map_err(|_| SealError::Damaged)?;
        let mut out = [0; WRAPPED_LEN];
        out[0] = VERSION;
        out[1..ID_END].copy_from_slice(&service.id().0);
        out[ID_END..NONCE_END].copy_from_slice(nonce.as_slice());
        out[NONCE_END..].copy_from_slice(&sealed);
        Ok(out)
    }

    /// Opens a wrapped key with whichever key of the ring it names.
    pub(crate) fn unwrap(
        ring: &KeyRing,
        binding: &Binding<'_>,
        wrapped: &[u8],
    ) -> Result<Self, SealError> {
        let id = wrapped_key_id(wrapped)?;
        let nonce: [u8; NONCE_LEN] = wrapped[ID_END..NONCE_END]
            .try_into()
            .map_err(|_| SealError::Damaged)?;
        let payload = Payload {
            msg: &wrapped[NONCE_END..],
            aad: &binding.associated_data(),
        };
        let opened = ring
            .find(id)?
            .cipher()
            .decrypt(&Nonce::from(nonce), payload)
            .map_err(|_| SealError::Damaged)?;
        let opened = Zeroizing::new(opened);
        let bytes: [u8; KEY_LEN] = opened
            .as_slice()
            .try_into()
            .map_err(|_| SealError::Damaged)?;
        Ok(Self(Zeroizing::new(bytes)))
    }
}

/// Which service key a wrapped key needs.
pub(crate) fn wrapped_key_id(wrapped: &[u8]) -> Result<KeyId, SealError> {
    if wrapped.len() != WRAPPED_LEN || wrapped[0] != VERSION {
        return Err(SealError::Damaged);
    }
    wrapped[1..ID_END]
        .try_into()
        .map(KeyId)
        .map_err(|_| SealError::Damaged)
}
