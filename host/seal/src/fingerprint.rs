//! Keyed digests of secrets: two secrets can be compared later without either being stored (KEY-007, W-IDEM-7).

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::error::SealError;

/// Makes fingerprints under a key that is never rotated (KEY-005).
pub struct Fingerprinter {
    key: Zeroizing<Vec<u8>>,
}

impl Fingerprinter {
    /// Takes the fingerprint key.
    ///
    /// # Errors
    /// [`SealError::KeyLength`] unless it has 32 bytes.
    pub fn from_bytes(key: &[u8]) -> Result<Self, SealError> {
        if key.len() != 32 {
            return Err(SealError::KeyLength { length: key.len() });
        }
        Ok(Self {
            key: Zeroizing::new(key.to_vec()),
        })
    }

    /// Lower-case hex of HMAC-SHA-256 over the length-prefixed parts.
    ///
    /// # Errors
    /// None in practice: HMAC takes a key of any length.
    pub fn fingerprint(&self, parts: &[&[u8]]) -> Result<String, SealError> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).map_err(|_| SealError::Damaged)?;
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        Ok(hex::encode(mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprinter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_secrets_agree_and_parts_do_not_run_together() {
        let one = Fingerprinter::from_bytes(&[1; 32]).unwrap();
        let two = Fingerprinter::from_bytes(&[2; 32]).unwrap();
        assert_eq!(
            one.fingerprint(&[b"ab", b"c"]).unwrap(),
            one.fingerprint(&[b"ab", b"c"]).unwrap()
        );
        assert_ne!(
            one.fingerprint(&[b"ab", b"c"]).unwrap(),
            one.fingerprint(&[b"a", b"bc"]).unwrap()
        );
        assert_ne!(
            one.fingerprint(&[b"ab"]).unwrap(),
            two.fingerprint(&[b"ab"]).unwrap()
        );
    }
}
