//! `Idempotency-Key` (`wire.md` 10) on every creation.

use axum::http::HeaderMap;
use domain::Refusal;
use domain::invalid::Invalid;
use serde::Serialize;
use store::WriteError;
use store::retries::{Creation, Keyed, RetryKey};

use super::call::Call;
use super::error::ApiError;

/// Longest key, in bytes (W-IDEM-1).
const MAX_KEY: usize = 128;

/// The key of a request: none if the header is absent or empty.
///
/// # Errors
/// E400-20 for a key that is too long, only whitespace, repeated, or no text.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() || value.len() > MAX_KEY {
        return Err(Invalid::request());
    }
    let text = value.to_str().map_err(|_| Invalid::request())?;
    match text {
        "" => Ok(None),
        text if text.trim().is_empty() => Err(Invalid::request()),
        text => Ok(Some(text.to_owned())),
    }
}

/// The key of a creation with the identity of its request: what it says, and its secrets, which enter as part of a keyed
/// fingerprint only (W-IDEM-7).
///
/// # Errors
/// Those of [`key`].
pub(crate) fn retry(
    call: &Call,
    said: &impl Serialize,
    secrets: &[&[u8]],
) -> Result<Option<RetryKey>, ApiError> {
    let Some(key) = key(&call.parts.headers)? else {
        return Ok(None);
    };
    let broke = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "a request has no identity");
        ApiError::Internal {
            effect_unknown: false,
        }
    };
    let said = serde_json::to_vec(said).map_err(|error| broke(&error))?;
    let mut parts: Vec<&[u8]> = vec![b"creation", &said];
    parts.extend_from_slice(secrets);
    let fingerprints = call.core.store.fingerprints();
    let digest = fingerprints
        .fingerprint(&parts)
        .map_err(|error| broke(&error))?;
    let digest = digest.parse().map_err(|error| broke(&error))?;
    Ok(Some(RetryKey { key, digest }))
}

/// Makes a resource, under its key if it has one. The caller turns a refusal into its words.
pub(crate) async fn write<U: Creation>(
    call: &Call,
    unit: U,
    retry: Option<RetryKey>,
) -> Result<U::Answer, Failed> {
    let keyed = retry.is_some();
    let written = call.core.store.write(Keyed { unit, retry }).await;
    written.map_err(|error| Failed { error, keyed })
}

/// A creation was refused or failed.
pub(crate) struct Failed {
    /// Why.
    pub error: WriteError<Refusal>,
    /// It has a key.
    pub keyed: bool,
}

impl From<Failed> for ApiError {
    fn from(failed: Failed) -> Self {
        super::failure::creation_failed(failed.error, failed.keyed)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn keys() {
        // W-IDEM-1
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("idempotency-key", HeaderValue::from_str(value).unwrap());
            }
            key(&headers)
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[""]), Ok(None));
        let longest = "x".repeat(128);
        assert_eq!(read(&[&longest]), Ok(Some(longest.clone())));
        for bad in [&[&*"x".repeat(129)][..], &["\t"], &["a", "a"]] {
            assert_eq!(read(bad), Err(Invalid::request()));
        }
    }
}
