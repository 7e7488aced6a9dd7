//! One request through the relay.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header},
};
use net::{Client, LoopbackHttp};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    mask::Mask,
    routes::{Open, Routes},
    strangers::Visitor,
    usage::Tap,
};

/// Largest request body: a whole context with pictures.
const BODY_LIMIT: u64 = 64 * 1024 * 1024;

pub(super) type Body = UnsyncBoxBody<Bytes, reqwest::Error>;

/// Answers requests of harnesses.
#[derive(Debug)]
pub(super) struct Forwarder {
    pub(super) routes: Routes,
    pub(super) client: Client,
    /// For upstreams that may be on this machine.
    pub(super) loopback_client: Client,
}

/// What the relay itself answers; everything else comes from the provider.
enum Refusal {
    Unauthorized,
    NotFound,
    TooLarge,
    Busy,
    /// The token has too many connections.
    Crowded,
    Unreachable,
    Redirect,
}

impl Forwarder {
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        visitor: &Visitor,
    ) -> Result<Response<Body>, Infallible> {
        Ok(self
            .forward(request, visitor)
            .await
            .unwrap_or_else(Refusal::response))
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        visitor: &Visitor,
    ) -> Result<Response<Body>, Refusal> {
        let open = token(request.headers())
            .and_then(|t| self.routes.find(t))
            .ok_or(Refusal::Unauthorized)?;
        if !visitor.known(&open) {
            return Err(Refusal::Crowded);
        }
        let route = &open.route;
        let path = route
            .protocol
            .upstream_path(request.method(), request.uri().path())
            .ok_or(Refusal::NotFound)?;
        let length = content_length(request.headers());
        if length.is_some_and(|l| l > BODY_LIMIT) {
            return Err(Refusal::TooLarge);
        }
        let slot = Arc::clone(&open.slots)
            .try_acquire_owned()
            .map_err(|_| Refusal::Busy)?;

        let mut url = route.upstream.join(path);
        url.set_query(request.uri().query());
        let method = request.method().clone();
        let mut headers = end_to_end(request.headers());
        for name in [
            header::HOST,
            header::AUTHORIZATION,
            header::COOKIE,
            header::ACCEPT_ENCODING,
            header::EXPECT,
        ] {
            headers.remove(name);
        }
        headers.remove("x-api-key");
        let (name, value) = route
            .protocol
            .key_header(route.key.expose())
            .ok_or(Refusal::Unreachable)?;
        headers.insert(name, value);

        let client = match route.loopback {
            LoopbackHttp::Refused => &self.client,
            LoopbackHttp::Allowed => &self.loopback_client,
        };
        let sent = client
            .request(method, url)
            .map_err(|error| unreachable(&open, &error))?
            .headers(headers)
            .body(reqwest::Body::wrap_stream(bounded(request.into_body())))
            .send()
            .await
            .map_err(|error| unreachable(&open, &error.without_url()))?;
        if sent.status().is_redirection() {
            // Followed by a harness it would carry the conversation to a place that nobody configured.
            return Err(Refusal::Redirect);
        }
        Ok(passed_on(sent, open, slot))
    }
}

fn unreachable(open: &Open, error: &dyn std::error::Error) -> Refusal {
    let cause = error.source().map(ToString::to_string);
    tracing::warn!(upstream = %open.route.upstream, %error, cause, "the model provider could not be reached");
    Refusal::Unreachable
}

/// The token from the header of either kind of protocol.
fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|v| {
        let (scheme, token) = v.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    bearer.or_else(|| headers.get("x-api-key").map(|v| v.as_bytes()))
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// The headers without those of one hop (RFC 9110, 7.6.1) and those that `Connection` names.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    const HOP: [&str; 9] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let mut kept = headers.clone();
    let named = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok());
    for name in named
        .flat_map(|v| v.split(','))
        .filter_map(|n| n.trim().parse::<HeaderName>().ok())
    {
        kept.remove(name);
    }
    HOP.into_iter().for_each(|name| {
        kept.remove(name);
    });
    kept
}

/// The request's bytes up to the limit; beyond it the upload fails, which the provider sees as a broken request.
fn bounded(body: Incoming) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    let mut left = BODY_LIMIT;
    BodyDataStream::new(body)
        .map_err(std::io::Error::other)
        .map(move |piece| {
            let piece = piece?;
            left = left
                .checked_sub(piece.len() as u64)
                .ok_or_else(|| std::io::Error::other("request too large"))?;
            Ok(piece)
        })
}

/// The provider's answer, byte by byte as it comes.
fn passed_on(
    answer: reqwest::Response,
    open: Arc<Open>,
    slot: OwnedSemaphorePermit,
) -> Response<Body> {
    let mut headers = end_to_end(answer.headers());
    headers.remove(header::SET_COOKIE);
    let mask = Mask::new(&open.route.key);
    let telling: Vec<HeaderName> = headers
        .iter()
        .filter(|(_, value)| mask.is_in(value.as_bytes()))
        .map(|(name, _)| name.clone())
        .collect();
    for name in telling {
        headers.remove(name);
    }
    let tap = Tap::new(headers.get(header::CONTENT_TYPE).map(|v| v.as_bytes()));
    let status = answer.status();
    let stream = Watched {
        inner: Box::pin(answer.bytes_stream()),
        tap: Some(tap),
        mask,
        open,
        _slot: slot,
    };
    let mut response = Response::new(StreamBody::new(stream.map_ok(Frame::data)).boxed_unsync());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

struct Watched<S> {
    inner: Pin<Box<S>>,
    tap: Option<Tap>,
    mask: Mask,
    open: Arc<Open>,
    _slot: OwnedSemaphorePermit,
}

impl<S: Stream<Item = reqwest::Result<Bytes>>> Stream for Watched<S> {
    type Item = reqwest::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let bytes = match ready!(self.inner.as_mut().poll_next(cx)) {
                Some(Ok(bytes)) => bytes,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(self.mask.finish().map(Ok)),
            };
            if let Some(tap) = &mut self.tap {
                tap.see(&bytes);
            }
            let bytes = self.mask.pass(bytes);
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        if let Some(tap) = self.tap.take() {
            tap.finish(&self.open.tally);
        }
    }
}

impl Refusal {
    fn response(self) -> Response<Body> {
        // A connection that may not be here does not stay.
        let ends = matches!(self, Self::Unauthorized | Self::Crowded);
        let (status, code, message) = match self {
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "invalid_token",
                "This relay token is not valid.",
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "not_found",
                "The model relay does not serve this request.",
            ),
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_large",
                "The request is too large.",
            ),
            Self::Busy | Self::Crowded => (
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                "Too many requests at once.",
            ),
            Self::Unreachable => (
                StatusCode::BAD_GATEWAY,
                "connection_failed",
                "The model provider could not be reached.",
            ),
            Self::Redirect => (
                StatusCode::BAD_GATEWAY,
                "redirect_refused",
                "The model provider answered a redirect.",
            ),
        };
        let body =
            serde_json::json!({"error": {"type": "relay_error", "code": code, "message": message}});
        let bytes = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
        let mut response = Response::new(bytes.boxed_unsync());
        *response.status_mut() = status;
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if ends {
            response
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
