//! From the creation of a Session until its machine's daemon is connected, on the provider `local`.

use crate::effort::Effort;
use crate::harness::timeline;
use crate::report::Line;
use crate::sample::Samples;
use crate::server::{Options, Programs, Server};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::process::Stdio;
use std::time::Instant;

/// Milliseconds.
const AT_MOST: f64 = 150.0;

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: 4,
        fsync_delay: None,
    };
    let server = Server::start(programs, options).await?;
    let message = timeline(&json!([]));
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..effort.machines {
        let begun = Instant::now();
        let mut events = server.create("openai_hosted", &message).await?;
        let created = events.until(&["session.created"]).await?;
        events.until(&["environment.connected"]).await?;
        ours.add_time(begun.elapsed());
        events.until(&["session.idle"]).await?;
        let session = created.data["session"]["id"].as_str().context("no id")?;
        server.delete(session).await?;
        bare.add_time(start(programs).await?);
    }
    server.stop().await?;
    Ok(vec![Line::cost(
        "create to connected daemon on `local`, p50",
        ours.median(),
        "ms",
        Some(("one bare start of the program", bare.median())),
        AT_MOST,
    )])
}

/// The program's start and end, with nothing done in between.
async fn start(programs: &Programs) -> Result<std::time::Duration> {
    let begun = Instant::now();
    let status = tokio::process::Command::new(&programs.berth)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .await?;
    ensure!(status.success(), "`berth --version` ended with {status}");
    Ok(begun.elapsed())
}
