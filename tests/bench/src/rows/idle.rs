//! What a Core costs that does nothing: memory, its start, the size of the program.

use crate::effort::Effort;
use crate::report::Line;
use crate::sample::Samples;
use crate::server::{Options, Programs, Server};
use anyhow::Result;

/// Megabytes resident.
const RESIDENT: f64 = 30.0;
/// Milliseconds until requests are accepted.
const READY: f64 = 200.0;
/// Megabytes of the program.
const SIZE: f64 = 60.0;

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: 4,
        fsync_delay: None,
    };
    let (mut first, mut later) = (Samples::default(), Samples::default());
    let mut resident = Samples::default();
    for _ in 0..effort.starts {
        let server = Server::start(programs, options).await?;
        first.add_time(server.ready_after);
        let server = server.restart().await?;
        later.add_time(server.ready_after);
        tokio::time::sleep(effort.settle).await;
        resident.add(server.resident_mb()?);
        server.stop().await?;
    }
    let size = std::fs::metadata(&programs.berth)?.len();
    let cost = |row, figure, unit, at_most| Line::cost(row, figure, unit, None, at_most);
    Ok(vec![
        cost(
            "idle `berth serve`, resident",
            resident.median(),
            "MB",
            RESIDENT,
        ),
        cost("ready, first start, p50", first.median(), "ms", READY),
        cost("ready, later start, p50", later.median(), "ms", READY),
        cost("the program", size as f64 / 1e6, "MB", SIZE),
    ])
}
