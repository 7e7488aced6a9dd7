//! Small values: sealed and opened in memory, stored as one column.

use aes_gcm::{
    Nonce,
    aead::{Aead, Payload},
};

use crate::{
    Opened,
    binding::Binding,
    error::SealError,
    key::{KeyRing, random},
    wrap::{DataKey, NONCE_LEN, TAG_LEN, WRAPPED_LEN, wrapped_key_id},
};

impl KeyRing {
    /// Seals `plain` for `binding`: a wrapped data key, a nonce, the ciphertext.
    ///
    /// # Errors
    /// [`SealError::NoRandomness`].
    pub fn seal(&self, binding: &Binding<'_>, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let key = DataKey::generate()?;
        let nonce = random::<NONCE_LEN>()?;
        let aad = binding.associated_data();
        let sealed = key
            .cipher()
            .encrypt(
                &Nonce::from(*nonce),
                Payload {
                    msg: plain,
                    aad: &aad,
                },
            )
            .map_err(|_| SealError::TooLong)?;
        let mut out = Vec::with_capacity(WRAPPED_LEN + NONCE_LEN + sealed.len());
        out.extend_from_slice(&key.wrap(self, binding)?);
        out.extend_from_slice(nonce.as_slice());
        out.extend_from_slice(&sealed);
        Ok(out)
    }

    /// Opens a sealed value.
    ///
    /// # Errors
    /// [`SealError::WrongKey`] if no key of the ring sealed it, [`SealError::Damaged`] if it was altered or
    /// belongs to another purpose or owner.
    pub fn open(&self, binding: &Binding<'_>, sealed: &[u8]) -> Result<Opened, SealError> {
        let (wrapped, rest) = split(sealed)?;
        let key = DataKey::unwrap(self, binding, wrapped)?;
        let nonce: [u8; NONCE_LEN] = rest[..NONCE_LEN]
            .try_into()
            .map_err(|_| SealError::Damaged)?;
        let payload = Payload {
            msg: &rest[NONCE_LEN..],
            aad: &binding.associated_data(),
        };
        let plain = key
            .cipher()
            .decrypt(&Nonce::from(nonce), payload)
            .map_err(|_| SealError::Damaged)?;
        Ok(Opened::new(plain))
    }

    /// Re-wraps the data key of a sealed value under the current key; the content stays as it is (KEY-005).
    ///
    /// # Errors
    /// As [`KeyRing::open`].
    pub fn rewrap(&self, binding: &Binding<'_>, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (wrapped, rest) = split(sealed)?;
        let mut out = self.rewrap_key(binding, wrapped)?.to_vec();
        out.extend_from_slice(rest);
        Ok(out)
    }

    /// The same for a wrapped data key alone: the end of a sealed body.
    ///
    /// # Errors
    /// As [`KeyRing::open`].
    pub fn rewrap_key(
        &self,
        binding: &Binding<'_>,
        wrapped: &[u8],
    ) -> Result<[u8; WRAPPED_LEN], SealError> {
        DataKey::unwrap(self, binding, wrapped)?.wrap(self, binding)
    }

    /// Whether a wrapped data key, or a sealed value, needs another key than the current one.
    ///
    /// # Errors
    /// [`SealError::Damaged`] if it is neither.
    pub fn is_former(&self, sealed: &[u8]) -> Result<bool, SealError> {
        let wrapped = sealed.get(..WRAPPED_LEN).ok_or(SealError::Damaged)?;
        Ok(wrapped_key_id(wrapped)? != self.current_id())
    }
}

fn split(sealed: &[u8]) -> Result<(&[u8], &[u8]), SealError> {
    if sealed.len() < WRAPPED_LEN + NONCE_LEN + TAG_LEN {
        return Err(SealError::Damaged);
    }
    Ok(sealed.split_at(WRAPPED_LEN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, key::ServiceKey};

    fn ring(byte: u8) -> KeyRing {
        KeyRing::new(ServiceKey::from_bytes(&[byte; 32]).unwrap())
    }

    const OWNER: &[&str] = &["project", "agent"];
    const BINDING: Binding<'static> = Binding::new(Purpose::AgentProvider, OWNER);

    #[test]
    fn opens_what_it_sealed_and_hides_it() {
        let sealed = ring(1).seal(&BINDING, b"sk-secret").unwrap();
        assert_eq!(
            ring(1).open(&BINDING, &sealed).unwrap().as_slice(),
            b"sk-secret"
        );
        assert!(!sealed.windows(9).any(|w| w == b"sk-secret"));
        assert_ne!(sealed, ring(1).seal(&BINDING, b"sk-secret").unwrap());
    }

    // KEY-002, KEY-006
    #[test]
    fn refuses_another_purpose_another_owner_and_every_altered_byte() {
        let sealed = ring(1).seal(&BINDING, b"sk-secret").unwrap();
        let other_purpose = Binding::new(Purpose::SessionProvider, OWNER);
        let other_owner = Binding::new(Purpose::AgentProvider, &["projectagent"]);
        for binding in [other_purpose, other_owner] {
            assert_eq!(
                ring(1).open(&binding, &sealed).unwrap_err(),
                SealError::Damaged
            );
        }
        for index in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[index] ^= 1;
            assert!(ring(1).open(&BINDING, &altered).is_err(), "byte {index}");
            assert!(
                ring(1).open(&BINDING, &sealed[..index]).is_err(),
                "length {index}"
            );
        }
    }

    #[test]
    fn a_wrong_key_is_named_in_the_error() {
        let sealed = ring(1).seal(&BINDING, b"x").unwrap();
        let error = ring(2).open(&BINDING, &sealed).unwrap_err();
        assert_eq!(
            error,
            SealError::WrongKey {
                needed: ring(1).current_id(),
                loaded: ring(2).current_id()
            }
        );
        assert!(
            error
                .to_string()
                .contains(&ring(1).current_id().to_string())
        );
    }

    // KEY-005
    #[test]
    fn rotation_rewraps_the_key_and_not_the_content() {
        let sealed = ring(1).seal(&BINDING, b"sk-secret").unwrap();
        let key = |byte| ServiceKey::from_bytes(&[byte; 32]).unwrap();
        let rotating = KeyRing::with_former(key(2), vec![key(1)]);
        let moved = rotating.rewrap(&BINDING, &sealed).unwrap();
        assert_eq!(moved[WRAPPED_LEN..], sealed[WRAPPED_LEN..]);
        assert_eq!(
            ring(2).open(&BINDING, &moved).unwrap().as_slice(),
            b"sk-secret"
        );
        assert!(ring(1).open(&BINDING, &moved).is_err());
        assert!(rotating.is_former(&sealed).unwrap() && !rotating.is_former(&moved).unwrap());
    }

    // KEY-004
    #[test]
    fn a_key_of_another_length_is_refused() {
        assert_eq!(
            ServiceKey::from_bytes(&[1; 31]).unwrap_err(),
            SealError::KeyLength { length: 31 }
        );
        assert!(!format!("{:?}", ServiceKey::from_bytes(&[65; 32]).unwrap()).contains("65"));
    }
}
