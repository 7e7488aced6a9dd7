//! Detached signatures of plugin files: Ed25519 (RFC 8032) over the bytes of the file, 64 bytes beside it under the same name
//! with `.sig` behind, as `openssl pkeyutl -sign -rawin` writes them; checked against the keys that the operator trusts.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ring::signature::{ED25519, UnparsedPublicKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use super::Refusal;

const FILE: &str = "trust.toml";
const SIGNATURE_BYTES: usize = 64;
const KEY_BYTES: usize = 32;
/// What stands before the key in a public key of Ed25519 (RFC 8410).
const HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// The keys of one plugin folder, by the names that the operator gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trust {
    /// Name to public key, in hexadecimal.
    #[serde(default)]
    keys: BTreeMap<String, String>,
}

/// Why a key is not taken, or the trusted ones cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file.
    #[error("{0} cannot be used: {1}")]
    File(PathBuf, #[source] std::io::Error),
    /// Its text.
    #[error("{0} is damaged ({1}); mend it, or remove it and add the keys again")]
    Damaged(PathBuf, String),
    /// The name.
    #[error("`{0}` is no name of a key; use 1 to 64 of a-z, 0-9 and -")]
    Name(String),
    /// The name is in use for another key.
    #[error(
        "another key is trusted as `{0}`; `berth plugin trust remove {0}` first, or choose another name"
    )]
    Taken(String),
    /// No key.
    #[error(
        "it is no public key of Ed25519 in PEM form, as `openssl pkey -in KEY -pubout` writes it"
    )]
    NoKey,
}

impl Trust {
    /// Where the keys of a folder are.
    #[must_use]
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Those of a folder; none if it has no such file.
    ///
    /// # Errors
    /// The file is there and cannot be read: nothing is trusted by guess.
    pub fn read(folder: &Path) -> Result<Self, TrustError> {
        let path = Self::file(folder);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(TrustError::File(path, error)),
        };
        let damaged = |why: String| TrustError::Damaged(path.clone(), why);
        let trust: Self = toml::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        for (name, key) in &trust.keys {
            if !hex::decode(key).is_ok_and(|key| key.len() == KEY_BYTES) {
                return Err(damaged(format!("`{name}` is no key")));
            }
        }
        Ok(trust)
    }

    /// Writes them whole, or leaves the old ones.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), TrustError> {
        let path = Self::file(folder);
        let text = toml::to_string(self)
            .map_err(|error| TrustError::Damaged(path.clone(), error.to_string()))?;
        super::folder::publish(&path, text.as_bytes())
            .map_err(|error| TrustError::File(path, error))
    }

    /// Trusts a public key in PEM form under a name.
    ///
    /// # Errors
    /// It is none, or the name is no name or that of another key.
    pub fn add(&mut self, name: &str, pem: &[u8]) -> Result<(), TrustError> {
        let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=64).contains(&name.len()) || !name.bytes().all(valid) {
            return Err(TrustError::Name(name.to_owned()));
        }
        let found = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| TrustError::NoKey)?;
        let key = found.as_ref().strip_prefix(&HEAD);
        let key = key.filter(|key| key.len() == KEY_BYTES);
        let key = hex::encode(key.ok_or(TrustError::NoKey)?);
        match self.keys.insert(name.to_owned(), key.clone()) {
            Some(before) if before != key => {
                self.keys.insert(name.to_owned(), before);
                Err(TrustError::Taken(name.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Trusts it no more; false if there was none of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        self.keys.remove(name).is_some()
    }

    /// Names and keys, in hexadecimal.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys
            .iter()
            .map(|(name, key)| (name.as_str(), key.as_str()))
    }

    /// Whose signature this is.
    fn signer(&self, bytes: &[u8], signature: &[u8]) -> Option<String> {
        let verifies = |key: &str| {
            hex::decode(key).is_ok_and(|key| {
                let key = UnparsedPublicKey::new(&ED25519, key);
                key.verify(bytes, signature).is_ok()
            })
        };
        let found = self.keys.iter().find(|(_, key)| verifies(key));
        found.map(|(name, _)| name.clone())
    }

    /// Judges what lies beside a file. A signature is only looked at where somebody is trusted; one that nobody trusted made
    /// is refused then, also where none is needed. The answer is the name of the signer.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(super) fn judge(
        &self,
        (path, bytes, embedded): (&Path, &[u8], bool),
        required: bool,
    ) -> Result<Option<String>, Refusal> {
        let beside = beside(path);
        if !required && (self.keys.is_empty() || !beside.is_file()) {
            return Ok(None);
        }
        let signature = match std::fs::read(&beside) {
            Ok(signature) => signature,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Refusal::Unsigned(beside));
            }
            Err(error) => return Err(Refusal::Unreadable(error)),
        };
        if signature.len() != SIGNATURE_BYTES {
            return Err(Refusal::NoSignature(beside, signature.len()));
        }
        // What is beside the file is not signed with it.
        if !embedded {
            return Err(Refusal::ManifestUnsigned);
        }
        match self.signer(bytes, &signature) {
            Some(name) => Ok(Some(name)),
            None => Err(Refusal::UntrustedSignature(beside)),
        }
    }
}

/// Where the signature of a file is.
#[must_use]
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    fn pair(seed: u8) -> (Ed25519KeyPair, String) {
        use base64::Engine as _;

        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let der = [&HEAD[..], pair.public_key().as_ref()].concat();
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        (
            pair,
            format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"),
        )
    }

    #[test]
    fn a_signature_is_that_of_a_trusted_key_over_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.wasm");
        let (author, pem) = pair(1);
        let (stranger, _) = pair(2);
        let bytes = b"every byte of the plugin".as_slice();
        let mut trust = Trust::default();
        let judge = |trust: &Trust, bytes: &[u8], required| {
            let judged = trust.judge((&path, bytes, true), required);
            judged.map_err(|refusal| refusal.to_string())
        };
        // Unsigned.
        assert_eq!(judge(&trust, bytes, false), Ok(None));
        trust.add("author", pem.as_bytes()).unwrap();
        assert_eq!(judge(&trust, bytes, false), Ok(None));
        let said = judge(&trust, bytes, true).unwrap_err();
        assert!(said.contains("mine.wasm.sig"), "{said}");
        // Valid.
        let signature = author.sign(bytes);
        std::fs::write(beside(&path), signature.as_ref()).unwrap();
        for required in [false, true] {
            assert_eq!(
                judge(&trust, bytes, required),
                Ok(Some("author".to_owned()))
            );
        }
        // A changed byte of the file or of the signature.
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            let said = judge(&trust, &changed, false).unwrap_err();
            assert!(said.contains("berth plugin trust add"), "{said}");
        }
        for at in 0..SIGNATURE_BYTES {
            let mut changed = signature.as_ref().to_vec();
            changed[at] ^= 1;
            std::fs::write(beside(&path), changed).unwrap();
            judge(&trust, bytes, false).unwrap_err();
        }
        // A key that nobody trusts, a signature cut short, a manifest that was not signed.
        std::fs::write(beside(&path), stranger.sign(bytes).as_ref()).unwrap();
        judge(&trust, bytes, false).unwrap_err();
        std::fs::write(beside(&path), &signature.as_ref()[1..]).unwrap();
        assert!(judge(&trust, bytes, true).unwrap_err().contains("63"));
        std::fs::write(beside(&path), signature.as_ref()).unwrap();
        trust.judge((&path, bytes, false), true).unwrap_err();
        // Nobody is trusted any more.
        assert!(trust.remove("author") && !trust.remove("author"));
        assert_eq!(judge(&trust, bytes, false), Ok(None));
        judge(&trust, bytes, true).unwrap_err();
    }

    #[test]
    fn keys_are_kept_by_name_and_a_damaged_file_trusts_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let mut trust = Trust::read(folder.path()).unwrap();
        let (one, two) = (pair(1).1, pair(2).1);
        trust.add("one", one.as_bytes()).unwrap();
        trust.add("one", one.as_bytes()).unwrap();
        assert!(matches!(
            trust.add("one", two.as_bytes()),
            Err(TrustError::Taken(_))
        ));
        for name in ["", "Two", "a/b", &"n".repeat(65)] {
            assert!(matches!(
                trust.add(name, two.as_bytes()),
                Err(TrustError::Name(_))
            ));
        }
        let private = one.replace("PUBLIC", "PRIVATE");
        for text in ["", "key", &private, &one[..60]] {
            assert!(matches!(
                trust.add("three", text.as_bytes()),
                Err(TrustError::NoKey)
            ));
        }
        trust.write(folder.path()).unwrap();
        assert_eq!(Trust::read(folder.path()).unwrap(), trust);
        assert_eq!(
            trust.keys().map(|(name, _)| name).collect::<Vec<_>>(),
            ["one"]
        );
        for text in ["keys = [", "[keys]\none = \"00\"\n", "other = 1\n"] {
            std::fs::write(Trust::file(folder.path()), text).unwrap();
            assert!(matches!(
                Trust::read(folder.path()),
                Err(TrustError::Damaged(..))
            ));
        }
    }
}
