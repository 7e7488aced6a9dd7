//! Sealing: every secret and every stored file is encrypted before it reaches a row or a disk.
//!
//! Each sealed value has a data key of its own (AES-256-GCM), which is wrapped by the installation's
//! service key. Rotating the service key therefore re-wraps [`WRAPPED_LEN`] bytes per value and rewrites
//! no content. The wrapping is authenticated with a [`Binding`]: the purpose of the value and its owner.
//! A value that is moved to another row, or read for another purpose, does not open (KEY-001, KEY-002,
//! KEY-006). Key files, their mode and their place are the caller's business; this crate takes bytes.
//!
//! - [`key`]: service keys and the ring of keys that may still open old values.
//! - [`value`]: small values in memory (rows).
//! - [`stream`]: large bodies in 64 KiB chunks, so that memory stays flat and truncation is seen.
//! - [`fingerprint`]: keyed digests of secrets that must be compared without being stored (KEY-007).

#![forbid(unsafe_code)]

pub mod binding;
pub mod error;
pub mod fingerprint;
pub mod key;
pub mod stream;
pub mod value;
mod wrap;

pub use binding::{Binding, Purpose};
pub use error::SealError;
pub use fingerprint::Fingerprinter;
pub use key::{KeyId, KeyRing, ServiceKey};
pub use stream::{CHUNK_LEN, STREAM_NONCE_LEN, StreamOpener, StreamSealer};
pub use wrap::WRAPPED_LEN;

/// Bytes that are wiped when dropped: what opening a sealed value returns.
pub type Opened = zeroize::Zeroizing<Vec<u8>>;
