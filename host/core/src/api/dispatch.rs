//! The order of checks in front of every handler (`wire.md` 3), and the headers of every answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode};
use domain::RequestId;
use futures_util::FutureExt;
use hyper::body::Body as _;
use sync_wrapper::SyncWrapper;
use tracing::Instrument;

use super::call::{Call, Caller, Reply};
use super::error::{AdminError, ApiError, ContentError};
use super::gate::{self, JsonBody};
use super::query::{self, Page};
use super::route::{BodyRule, Known, Space, Table};
use super::{admin, auth, rows};
use crate::http::accept::{Answer, known};
use crate::http::canonical::canonical;
use crate::state::Core;

/// The API over one Core.
pub(crate) struct Api {
    core: Arc<Core>,
    table: Table,
}

impl Api {
    /// Compiles the route table.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            table: rows::table(),
        }
    }

    async fn admit(&self, parts: Parts, body: Body, request: RequestId) -> Result<Reply, ApiError> {
        let path = match canonical(parts.uri.path()) {
            Ok(path) => path,
            Err(_) => return Ok(undecodable()),
        };
        let row = self.table.find(&path);
        let space = row.as_ref().map_or_else(|| space_of(&path), Known::space);
        if space == (Space::Public { beta: true }) && !auth::has_beta(&parts.headers) {
            return Err(ApiError::Beta);
        }
        let caller = auth::authenticate(&self.core, space, &parts.headers).await?;
        if caller != Caller::Unchecked {
            known(&parts.extensions);
        }
        let route = row.ok_or(match space {
            Space::Admin => AdminError::NotFound.into(),
            Space::Public { .. } | Space::Machine | Space::Open => ApiError::UnknownRoute,
        })?;
        let row = route.row(&parts.method).map_err(ApiError::Method)?;
        let page = match row.list.as_ref().filter(|_| !row.late_query) {
            Some(rule) => {
                query::parse(parts.uri.query().unwrap_or_default(), rule).map_err(|error| {
                    match space {
                        Space::Admin => AdminError::Request.into(),
                        Space::Public { .. } | Space::Machine | Space::Open => {
                            ApiError::Query(error)
                        }
                    }
                })?
            }
            None => Page::default(),
        };
        let (body, raw) = match row.body {
            BodyRule::Json(limit) => {
                let body = gate::read(&parts.headers, body, limit).await?;
                (body, Body::empty())
            }
            BodyRule::Own => (JsonBody::default(), body),
            BodyRule::Refused if !body.is_end_stream() => return Err(ContentError::Body.into()),
            BodyRule::Refused | BodyRule::Ignored => (JsonBody::default(), Body::empty()),
        };
        let core = self.core.clone();
        let params = route.into_params();
        let handler = row.handler;
        let of_project = row.list.is_some()
            && space == Space::Admin
            && params.iter().any(|(name, _)| name == "project_id");
        let call = Call {
            core,
            caller,
            parts,
            params,
            page,
            body,
            raw: SyncWrapper::new(raw),
            request,
        };
        if of_project {
            // An application always has a Project; an administrator may have misspelt one, which is not an empty list.
            admin::projects::existing(&call, call.id("project_id")).await?;
        }
        handler(call).await
    }
}

impl Answer for Api {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let started = Instant::now();
        let id = RequestId::new(uuid::Uuid::new_v4());
        let (parts, body) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        let span = tracing::info_span!("request", request_id = %id, method = %parts.method);
        // Boxed: the futures of all handlers are behind it, and it lives on every connection's task.
        let answer = Box::pin(answered(self.admit(parts, body, id)).instrument(span)).await;
        let mut response = match answer {
            Ok(Reply(response)) => response,
            Err(error) => error.into_response(),
        };
        if is_head {
            response = without_body(response);
        }
        stamp(&mut response, id, started);
        tracing::debug!(request_id = %id, status = response.status().as_u16(), "answered");
        response
    }
}

/// The answer of a handler. One that panics is a fault of ours: the client gets an answer all the same, and whoever shares its
/// connection is not cut off.
async fn answered(
    handler: impl Future<Output = Result<Reply, ApiError>>,
) -> Result<Reply, ApiError> {
    let answer = AssertUnwindSafe(handler).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        tracing::error!("a handler failed in an unforeseen way");
        Err(ApiError::Internal {
            effect_unknown: true,
        })
    })
}

/// Which credential a path asks for, known or not (W-PATH-6, OPS-002).
pub(super) fn space_of(path: &str) -> Space {
    let below = |prefix: &str| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if below("/core/v1") {
        Space::Admin
    } else if below("/api/v1") {
        Space::Machine
    } else if below("/v1") {
        Space::Public {
            beta: below("/v1/agents") || below("/v1/vaults"),
        }
    } else {
        Space::Open
    }
}

/// W-HDR-2.
fn stamp(response: &mut Response<Body>, id: RequestId, started: Instant) {
    let is_json = response
        .headers()
        .get(axum::http::header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    let headers = response.headers_mut();
    if is_json {
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
    }
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(HeaderName::from_static("x-request-id"), value);
    }
    headers.insert(
        HeaderName::from_static("openai-version"),
        HeaderValue::from_static("2020-10-01"),
    );
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    headers.insert(
        HeaderName::from_static("openai-processing-ms"),
        HeaderValue::from(millis),
    );
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
}

/// The same headers and no body (W-PATH-7).
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts
            .headers
            .entry(CONTENT_LENGTH)
            .or_insert(HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

/// W-PATH-10.
fn undecodable() -> Reply {
    let mut response = Response::new(Body::from("Bad Request"));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(axum::http::header::CONTENT_TYPE, plain);
    Reply(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_handler_that_panics_is_answered() {
        let answer = answered(async { panic!("a fault") }).await;
        assert!(matches!(
            answer,
            Err(ApiError::Internal {
                effect_unknown: true
            })
        ));
    }
}
