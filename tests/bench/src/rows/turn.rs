//! A whole Turn on a warm Executor, from the request to the idle Session, without what the harness itself takes.

use crate::effort::Effort;
use crate::harness::{Harness, timeline};
use crate::report::Line;
use crate::sample::Samples;
use crate::server::{Options, Programs, Server};
use anyhow::Result;
use serde_json::json;
use std::time::Instant;

/// Milliseconds that Berth may add to a Turn.
const AT_MOST: f64 = 30.0;

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: 4,
        fsync_delay: None,
    };
    let server = Server::start(programs, options).await?;
    let session = server.warm("openai_hosted").await?;
    let mut events = server.follow(&session).await?;
    let mut connection = server.connect().await?;
    let message = timeline(&json!([{"say": "one two three"}]));
    let mut bare = Harness::start(&programs.scripted)?;
    let (mut whole, mut own) = (Samples::default(), Samples::default());
    for _ in 0..effort.turns {
        let begun = Instant::now();
        server.say(&mut connection, &session, &message).await?;
        events.until(&["turn.completed"]).await?;
        events.until(&["session.idle"]).await?;
        whole.add_time(begun.elapsed());
        own.add_time(tokio::task::block_in_place(|| {
            bare.turn(&message, &mut Samples::default())
        })?);
    }
    server.delete(&session).await?;
    server.stop().await?;
    let own = own.median();
    Ok(vec![Line::cost(
        "a Turn on a warm Executor, p50, without the harness's own time",
        whole.median() - own,
        "ms",
        Some(("the harness's own time", own)),
        AT_MOST,
    )])
}
