//! Why sealing or opening failed. No variant carries key material or content.

use crate::key::KeyId;

/// A failure to seal or to open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// A service key has a length other than 32 bytes.
    #[error("a service key has exactly 32 bytes, this one has {length}")]
    KeyLength {
        /// The length that was given.
        length: usize,
    },
    /// The value was sealed under a service key that this installation does not have.
    #[error("this value was sealed under service key {needed}, but the loaded key is {loaded}")]
    WrongKey {
        /// The key that the value names.
        needed: KeyId,
        /// The current key of this installation.
        loaded: KeyId,
    },
    /// The value was altered, cut, or belongs to another purpose or owner (KEY-002).
    #[error("a sealed value is damaged or does not belong to this purpose and owner")]
    Damaged,
    /// A streamed body is longer than the format can number (256 TiB).
    #[error("a body is too long to seal")]
    TooLong,
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    NoRandomness,
}
