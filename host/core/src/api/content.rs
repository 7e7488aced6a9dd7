//! What Files, Skills and Artifacts share: their failures, and stored bytes as an answer.

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use blobs::BlobReader;
use domain::Refusal;
use domain::blob::BlobRef;
use futures_util::stream;
use store::WriteError;

use super::call::{Call, Reply};
use super::error::{ApiError, ContentError};
use super::idempotency::Failed;

/// E404-02.
pub(crate) fn missing(param: Option<&'static str>) -> ApiError {
    ContentError::Missing(param).into()
}

/// A write of Files or Skills was refused or failed; `param` names what may be missing.
pub(crate) fn write_failed(error: WriteError<Refusal>, param: Option<&'static str>) -> ApiError {
    match error {
        WriteError::Refused(Refusal::NotFound) => missing(param),
        other => super::failure::write_failed(other),
    }
}

/// As [`write_failed`], for a creation.
pub(crate) fn creation_failed(failed: Failed, param: Option<&'static str>) -> ApiError {
    match failed.error {
        WriteError::Refused(Refusal::NotFound) => missing(param),
        _ => failed.into(),
    }
}

/// Removes bytes that a creation has stored for nothing: nobody refers to them where it was refused or answered with an earlier
/// resource (`unused`), and no other resource has their name. After an unknown end only the sweep can tell.
pub(crate) async fn discard_unused<T>(
    call: &Call,
    made: &Result<T, Failed>,
    bytes: &BlobRef,
    unused: impl FnOnce(&T) -> bool,
) {
    let unused = match made {
        Ok(made) => unused(made),
        Err(failed) => matches!(failed.error, WriteError::Refused(_)),
    };
    if unused && let Err(error) = call.core.blobs.delete_older(bytes.name(), i64::MAX).await {
        tracing::warn!(%error, "bytes of a refused creation stay until the sweep");
    }
}

/// Stored bytes, streamed. A blob that turns out damaged breaks the connection off: its length says that something is
/// missing.
pub(crate) fn reply(
    reader: BlobReader,
    size: u64,
    content_type: &'static str,
    filename: Option<&str>,
) -> Reply {
    let bytes = stream::try_unfold(reader, |mut reader| async move {
        let next = reader.next().await.inspect_err(|error| {
            tracing::error!(%error, "stored bytes could not be read to their end");
        })?;
        Ok::<_, blobs::BlobError>(next.map(|bytes| (bytes, reader)))
    });
    let mut response = Response::new(Body::from_stream(bytes));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    if let Some(value) = filename.and_then(|name| HeaderValue::from_str(&attachment(name)).ok()) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    Reply(response)
}

/// RFC 6266: a plain name for everybody, the real one for who reads `filename*`.
fn attachment(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|char| match char {
            ' '..='~' if !matches!(char, '"' | '\\' | '%') => char,
            _ => '_',
        })
        .collect();
    if plain == name {
        return format!("attachment; filename=\"{plain}\"");
    }
    let encoded = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_attachments_are_plain_or_encoded() {
        // ART-022
        assert_eq!(
            attachment("report 1.md"),
            r#"attachment; filename="report 1.md""#
        );
        assert_eq!(
            attachment("a\"b\n\u{e9}"),
            r#"attachment; filename="a_b__"; filename*=UTF-8''a%22b%0A%C3%A9"#
        );
    }
}
