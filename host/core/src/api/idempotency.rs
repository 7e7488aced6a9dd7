//! `Idempotency-Key` (`wire.md` 10).

use axum::http::HeaderMap;
use domain::invalid::Invalid;

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
