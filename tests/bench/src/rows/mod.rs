//! One file for each row of the table.

mod create;
mod delta;
mod idle;
mod list;
mod machine;
mod missing;
mod plugin;
mod read;
mod turn;
mod upload;

use crate::effort::Effort;
use crate::report::Line;
use crate::server::Programs;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Connections of a load.
const CONNECTIONS: usize = 16;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// Reading one resource.
    Read,
    /// Reading a page of a long history.
    List,
    /// An id of somebody else.
    Missing,
    /// Creating Sessions, on a slow disk and on this one.
    Create,
    /// A Turn on a warm Executor.
    Turn,
    /// From the harness's byte to the client's.
    Delta,
    /// From a creation to a connected machine.
    Machine,
    /// A large upload.
    Upload,
    /// An idle Core: memory, start, size.
    Idle,
    /// A plugin over each transport.
    Plugin,
}

impl Row {
    /// All, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::List,
        Self::Missing,
        Self::Create,
        Self::Turn,
        Self::Delta,
        Self::Machine,
        Self::Upload,
        Self::Idle,
        Self::Plugin,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Missing => "missing",
            Self::Create => "create",
            Self::Turn => "turn",
            Self::Delta => "delta",
            Self::Machine => "machine",
            Self::Upload => "upload",
            Self::Idle => "idle",
            Self::Plugin => "plugin",
        }
    }

    /// Measures it.
    ///
    /// # Errors
    /// Something that takes part does not work.
    pub async fn measure(self, programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
        match self {
            Self::Read => read::measure(programs, effort).await,
            Self::List => list::measure(programs, effort).await,
            Self::Missing => missing::measure(programs, effort).await,
            Self::Create => create::measure(programs, effort).await,
            Self::Turn => turn::measure(programs, effort).await,
            Self::Delta => delta::measure(programs, effort).await,
            Self::Machine => machine::measure(programs, effort).await,
            Self::Upload => upload::measure(programs, effort).await,
            Self::Idle => idle::measure(programs, effort).await,
            Self::Plugin => plugin::measure(programs, effort).await,
        }
        .with_context(|| format!("row `{}`", self.name()))
    }
}

/// How often a second `work` is done when each of its workers begins again as soon as it is done; each does it at least once.
async fn rate<W, F>(workers: Vec<W>, span: Duration, work: F) -> Result<(f64, Vec<W>)>
where
    W: Send + 'static,
    F: AsyncWork<W>,
{
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for mut worker in workers {
        let work = work.clone();
        running.spawn(async move {
            let mut done = 0_u32;
            while done == 0 || begun.elapsed() < span {
                work.once(&mut worker).await?;
                done += 1;
            }
            anyhow::Ok((done, worker))
        });
    }
    let (mut total, mut workers) = (0, Vec::new());
    while let Some(ended) = running.join_next().await {
        let (done, worker) = ended??;
        total += done;
        workers.push(worker);
    }
    Ok((f64::from(total) / begun.elapsed().as_secs_f64(), workers))
}

/// One request or unit of a load.
trait AsyncWork<W>: Clone + Send + Sync + 'static {
    /// Does it once.
    fn once(&self, worker: &mut W) -> impl Future<Output = Result<()>> + Send;
}
