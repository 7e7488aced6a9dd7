//! Bytes inside a request.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use crate::digest::Digest;
use crate::invalid::{Invalid, Path};
use crate::json::Json;

/// Bytes that a request carried. Never printed; in a retry identity their digest stands for them.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    bytes: Vec<u8>,
    digest: Digest,
}

impl Content {
    /// Takes the bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        let digest = Digest::of(&bytes);
        Self { bytes, digest }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads standard Base64 of at most `limit` decoded bytes.
    ///
    /// # Errors
    /// E400-05, or 400 with the path of the member.
    pub(super) fn parse(json: Json<'_>, path: &Path, limit: usize) -> Result<Self, Invalid> {
        let text = json.to_text(path)?;
        if text.len() / 4 * 3 > limit + 3 {
            return Err(too_long(path, limit));
        }
        let bytes = STANDARD.decode(text).map_err(|_| {
            Invalid::other(path.echo(), format!("'{path}' must be standard Base64."))
        })?;
        match bytes.len() <= limit {
            true => Ok(Self::new(bytes)),
            false => Err(too_long(path, limit)),
        }
    }
}

/// E400-44.
fn too_long(path: &Path, limit: usize) -> Invalid {
    let limit = limit / (1024 * 1024);
    let message = format!("{path} exceeds the {limit} MiB decoded limit");
    Invalid::other(path.echo(), message)
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.bytes.len())
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.digest.serialize(serializer)
    }
}
