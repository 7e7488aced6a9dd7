//! Uploads: the parts of a form as they come, under hard limits. No part is ever held whole here.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use futures_util::{Stream, StreamExt};
use multer::{Constraints, Field, Multipart, SizeLimit};
use tokio::time::Instant;

use super::error::{ApiError, ContentError};

/// A transfer must end within this time (SRC-005).
const TRANSFER: Duration = Duration::from_secs(300);
/// A transfer that makes no progress for so long is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest scalar part, in bytes.
const SCALAR: usize = 1024;
/// A client that is refused in the middle of its upload would meet a closed connection instead of the answer. So much of the
/// rest is read and dropped, for so long.
const DRAIN_BYTES: u64 = 64 * 1024 * 1024;
const DRAIN: Duration = Duration::from_secs(5);

/// A form that is being received.
pub(crate) struct Upload {
    parts: Multipart<'static>,
    rest: Rest,
    deadline: Instant,
}

/// One part of it.
pub(crate) struct Part {
    field: Field<'static>,
    deadline: Instant,
}

/// The body, shared by the parser and by whoever drops what the parser did not take.
#[derive(Clone)]
struct Rest(Arc<Mutex<BodyDataStream>>);

impl Stream for Rest {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body.poll_next_unpin(cx)
    }
}

impl Upload {
    /// Begins to receive a form of at most `limit` bytes.
    ///
    /// # Errors
    /// 400 if the request is no form or is encoded (SRC-006), 413 if it announces more than the limit.
    pub(crate) fn open(headers: &HeaderMap, body: Body, limit: u64) -> Result<Self, ApiError> {
        if headers.contains_key(CONTENT_ENCODING) {
            let message = "Encoded uploads are not supported: send no Content-Encoding.";
            return Err(ContentError::upload(None, message).into());
        }
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let boundary = kind.and_then(|kind| multer::parse_boundary(kind).ok());
        let boundary = boundary.ok_or_else(|| {
            ContentError::upload(None, "The body must be a multipart/form-data form.")
        })?;
        let announced = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let rest = Rest(Arc::new(Mutex::new(body.into_data_stream())));
        let sizes = SizeLimit::new().whole_stream(limit);
        let constraints = Constraints::new().size_limit(sizes);
        if announced.is_some_and(|length| length > limit) {
            return Err(ContentError::TooLarge.into());
        }
        Ok(Self {
            parts: Multipart::with_constraints(rest.clone(), boundary, constraints),
            rest,
            deadline: Instant::now() + TRANSFER,
        })
    }

    /// The next part. The one before must have been dropped.
    ///
    /// # Errors
    /// 400 for a malformed form, a part that is transfer-encoded or has no name; 413; 400 if nothing comes in time.
    pub(crate) async fn next(&mut self) -> Result<Option<Part>, ApiError> {
        let deadline = self.deadline;
        let field = in_time(deadline, self.parts.next_field()).await?;
        let Some(field) = field.map_err(|error| broken(&error))? else {
            return Ok(None);
        };
        if field.headers().contains_key("content-transfer-encoding")
            || field.headers().contains_key(CONTENT_ENCODING)
        {
            let message = "Encoded parts are not supported: send no Content-Transfer-Encoding.";
            return Err(ContentError::upload(None, message).into());
        }
        Ok(Some(Part { field, deadline }))
    }

    /// Before an answer that refuses the upload: reads on for a bounded while, so that the client is there to hear it.
    pub(crate) async fn drain(self) {
        let Self {
            parts, mut rest, ..
        } = self;
        drop(parts);
        let mut dropped = 0;
        let read = async {
            while let Some(Ok(bytes)) = rest.next().await {
                dropped += bytes.len() as u64;
                if dropped > DRAIN_BYTES {
                    return;
                }
            }
        };
        // Running out of time is as good as the end.
        let _ = tokio::time::timeout(DRAIN, read).await;
    }
}

impl Part {
    /// Name of the part; empty if it has none.
    pub(crate) fn name(&self) -> &str {
        self.field.name().unwrap_or_default()
    }

    /// The filename that came with it, if it is UTF-8.
    pub(crate) fn filename(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// As [`Upload::next`].
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        let chunk = in_time(self.deadline, self.field.chunk()).await?;
        chunk.map_err(|error| broken(&error))
    }

    /// The whole of a short text part.
    ///
    /// # Errors
    /// 400 if it is long or no UTF-8, and as [`Upload::next`].
    pub(crate) async fn text(mut self, name: &'static str) -> Result<String, ApiError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if bytes.len() + chunk.len() > SCALAR {
                let message = format!("'{name}' is too long.");
                return Err(ContentError::upload(Some(name), message).into());
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| {
            let message = format!("'{name}' must be UTF-8 text.");
            ContentError::upload(Some(name), message).into()
        })
    }
}

async fn in_time<T>(deadline: Instant, next: impl Future<Output = T>) -> Result<T, ApiError> {
    let until = deadline.min(Instant::now() + SILENCE);
    let answer = tokio::time::timeout_at(until, next).await;
    answer.map_err(|_| ContentError::Stalled.into())
}

fn broken(error: &multer::Error) -> ApiError {
    match error {
        multer::Error::StreamSizeExceeded { .. } | multer::Error::FieldSizeExceeded { .. } => {
            ContentError::TooLarge.into()
        }
        _ => {
            let message = "The body is not a well-formed multipart/form-data form.";
            ContentError::upload(None, message).into()
        }
    }
}
