//! From the harness's write to the client's read, while many Sessions stream at once: half of them on machines of their own, half on the
//! engine host.

use crate::effort::Effort;
use crate::harness::{Harness, delays, timeline};
use crate::report::Line;
use crate::sample::Samples;
use crate::server::{Options, Programs, Server};
use anyhow::{Context, Result};
use serde_json::json;
use tokio::task::JoinSet;

/// Milliseconds at the median and at the 99th percentile.
const AT_MOST: [(usize, &str, f64); 2] = [
    (50, "harness byte to client byte, 20 Sessions, p50", 3.0),
    (99, "harness byte to client byte, 20 Sessions, p99", 10.0),
];
/// Milliseconds between two deltas of one Session: 40 words a second, as fast as a quick model.
const EVERY_MS: u64 = 25;

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: u16::try_from(effort.streams)?,
        fsync_delay: None,
    };
    let server = Server::start(programs, options).await?;
    let message = timeline(&json!([{"ticks": {"count": effort.ticks, "every_ms": EVERY_MS}}]));
    let mut sessions = Vec::new();
    for index in 0..effort.streams {
        let placement = if index % 2 == 0 {
            "openai_hosted"
        } else {
            "none"
        };
        sessions.push((placement, server.warm(placement).await?));
    }
    let mut running = JoinSet::new();
    for (_, session) in &sessions {
        let mut events = server.follow(session).await?;
        let mut connection = server.connect().await?;
        server.say(&mut connection, session, &message).await?;
        running.spawn(async move {
            let mut samples = Samples::default();
            loop {
                let event = events.until(&["output_text.delta", "session.idle"]).await?;
                match event.data["delta"].as_str() {
                    Some(text) => delays(text, event.arrived, &mut samples),
                    None => return anyhow::Ok(samples),
                }
            }
        });
    }
    let mut ours = Samples::default();
    while let Some(ended) = running.join_next().await {
        ours.join(ended??);
    }
    for (placement, session) in &sessions {
        if *placement == "openai_hosted" {
            server.delete(session).await?;
        }
    }
    server.stop().await?;
    let bare = tokio::task::block_in_place(|| bare(programs, effort, &message))?;
    let expected = effort.streams * effort.ticks as usize;
    anyhow::ensure!(
        ours.count() == expected,
        "{} deltas, not {expected}",
        ours.count()
    );
    let line = |(percent, row, at_most)| {
        let pipe = ("a bare pipe", bare.percentile(percent));
        Line::cost(row, ours.percentile(percent), "ms", Some(pipe), at_most)
    };
    Ok(AT_MOST.map(line).into())
}

/// The same harnesses, read through their pipes.
fn bare(programs: &Programs, effort: Effort, message: &str) -> Result<Samples> {
    std::thread::scope(|scope| {
        let reading: Vec<_> = (0..effort.streams)
            .map(|_| {
                scope.spawn(|| {
                    let mut samples = Samples::default();
                    Harness::start(&programs.scripted)?.turn(message, &mut samples)?;
                    anyhow::Ok(samples)
                })
            })
            .collect();
        let mut all = Samples::default();
        for reader in reading {
            all.join(reader.join().ok().context("a reader panicked")??);
        }
        Ok(all)
    })
}
