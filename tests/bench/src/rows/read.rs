//! Reading one Session against handlers that do less.

use super::{AsyncWork, CONNECTIONS, rate};
use crate::ceiling::{Handlers, Pairs};
use crate::effort::Effort;
use crate::http::Connection;
use crate::report::Line;
use crate::server::{Options, Programs, Server};
use anyhow::Result;
use bytes::Bytes;
use hyper::Method;
use std::net::SocketAddr;
use std::sync::Arc;

/// Of the handler with the key check and one indexed read.
const OF_ONE_READ: f64 = 0.8;
/// Of the handler with nothing in it.
const OF_EMPTY: f64 = 0.15;

#[derive(Clone)]
pub(super) struct Get(pub(super) Arc<str>);

impl AsyncWork<Connection> for Get {
    async fn once(&self, on: &mut Connection) -> Result<()> {
        on.ask(Method::GET, &self.0, Bytes::new()).await?;
        Ok(())
    }
}

pub(super) async fn connections(address: SocketAddr, key: &str) -> Result<Vec<Connection>> {
    let mut open = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        open.push(Connection::open(address, key).await?);
    }
    Ok(open)
}

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: 4,
        fsync_delay: None,
    };
    let server = Server::start(programs, options).await?;
    let session = server.warm("none").await?;
    let handlers = Handlers::start(&programs.bench, &server.data().join("berth.db")).await?;
    let path = Get(format!("/v1/agents/sessions/{session}").into());
    let empty = Get("/empty".into());
    let mut ours = connections(server.address(), server.key()).await?;
    let mut theirs = connections(handlers.address, server.key()).await?;
    let (mut of_one_read, mut of_empty) = (Pairs::default(), Pairs::default());
    for _ in 0..effort.rounds {
        let (figure, one_read, nothing);
        (figure, ours) = rate(ours, effort.span, path.clone()).await?;
        (one_read, theirs) = rate(theirs, effort.span, path.clone()).await?;
        (nothing, theirs) = rate(theirs, effort.span, empty.clone()).await?;
        of_one_read.add(figure, one_read);
        of_empty.add(figure, nothing);
    }
    drop((ours, theirs));
    handlers.stop().await?;
    server.stop().await?;
    let (figure, ceiling, ratio) = of_one_read.medians();
    let row = "read a Session";
    let first = ("key check + one indexed read", ceiling);
    let first = Line::rate(row, figure, first, ratio, OF_ONE_READ);
    let (figure, ceiling, ratio) = of_empty.medians();
    let second = ("empty axum handler", ceiling);
    Ok(vec![
        first,
        Line::rate(row, figure, second, ratio, OF_EMPTY),
    ])
}
