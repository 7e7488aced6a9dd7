//! Service keys: 32 bytes each, named by a digest so that a value can say which one it needs.

use std::fmt;

use aes_gcm::{Aes256Gcm, KeyInit, aead::Key};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::error::SealError;

/// Length of a service key and of a data key.
pub const KEY_LEN: usize = 32;

/// The public name of a service key: eight bytes of a digest of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// One installation key. Not printable; wiped when dropped.
pub struct ServiceKey {
    id: KeyId,
    bytes: Zeroizing<[u8; KEY_LEN]>,
}

impl ServiceKey {
    /// Takes the bytes of a key file.
    ///
    /// # Errors
    /// [`SealError::KeyLength`] unless there are exactly 32 of them (KEY-004).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealError> {
        let bytes: [u8; KEY_LEN] = bytes.try_into().map_err(|_| SealError::KeyLength {
            length: bytes.len(),
        })?;
        let bytes = Zeroizing::new(bytes);
        let digest = Sha256::new()
            .chain_update(b"berth.service-key-id.1")
            .chain_update(*bytes)
            .finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&digest[..8]);
        Ok(Self {
            id: KeyId(id),
            bytes,
        })
    }

    /// A new random key, for the first start of an installation.
    ///
    /// # Errors
    /// [`SealError::NoRandomness`].
    pub fn generate() -> Result<Self, SealError> {
        Self::from_bytes(random::<KEY_LEN>()?.as_slice())
    }

    /// The name of this key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The bytes, for writing the key file of a new installation and nothing else.
    pub fn expose(&self) -> &[u8; KEY_LEN] {
        &self.bytes
    }

    pub(crate) fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(&Key::<Aes256Gcm>::from(*self.bytes))
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceKey({})", self.id)
    }
}

/// The current key, which seals, and former ones, which only open until everything is re-wrapped.
#[derive(Debug)]
pub struct KeyRing {
    current: ServiceKey,
    former: Vec<ServiceKey>,
}

impl KeyRing {
    /// A ring of one key.
    pub fn new(current: ServiceKey) -> Self {
        Self {
            current,
            former: Vec::new(),
        }
    }

    /// A ring during a rotation.
    pub fn with_former(current: ServiceKey, former: Vec<ServiceKey>) -> Self {
        Self { current, former }
    }

    /// The name of the key that seals.
    pub fn current_id(&self) -> KeyId {
        self.current.id
    }

    pub(crate) fn current(&self) -> &ServiceKey {
        &self.current
    }

    pub(crate) fn find(&self, id: KeyId) -> Result<&ServiceKey, SealError> {
        std::iter::once(&self.current)
            .chain(&self.former)
            .find(|key| key.id == id)
            .ok_or(SealError::WrongKey {
                needed: id,
                loaded: self.current.id,
            })
    }
}

pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SealError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|_| SealError::NoRandomness)?;
    Ok(bytes)
}
