//! An id of another Project against one that never was: the time of the answer tells nobody which it is (W-AUTH-4).

use super::read::connections;
use super::{AsyncWork, rate};
use crate::ceiling::Pairs;
use crate::effort::Effort;
use crate::http::Connection;
use crate::report::Line;
use crate::server::{Options, Programs, Server};
use anyhow::Result;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use std::sync::Arc;

/// Of the rate of a missing id; what is left to 1 is noise.
const OF_MISSING: f64 = 0.9;

#[derive(Clone)]
struct Refused(Arc<str>);

impl AsyncWork<Connection> for Refused {
    async fn once(&self, on: &mut Connection) -> Result<()> {
        on.refused(Method::GET, &self.0, Bytes::new(), StatusCode::NOT_FOUND)
            .await
    }
}

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: 4,
        fsync_delay: None,
    };
    let server = Server::start(programs, options).await?;
    let session = server.warm("none").await?;
    let foreign = Refused(format!("/v1/agents/sessions/{session}").into());
    let missing = Refused(format!("/v1/agents/sessions/{}", uuid::Uuid::new_v4()).into());
    let mut strangers = connections(server.address(), &server.stranger().await?).await?;
    let mut pairs = Pairs::default();
    for _ in 0..effort.rounds {
        let (of_foreign, of_missing);
        (of_foreign, strangers) = rate(strangers, effort.span, foreign.clone()).await?;
        (of_missing, strangers) = rate(strangers, effort.span, missing.clone()).await?;
        pairs.add(of_foreign, of_missing);
    }
    drop(strangers);
    server.stop().await?;
    let (figure, ceiling, ratio) = pairs.medians();
    let against = ("404 of a missing id", ceiling);
    let row = "404 of a foreign id";
    Ok(vec![Line::rate(row, figure, against, ratio, OF_MISSING)])
}
