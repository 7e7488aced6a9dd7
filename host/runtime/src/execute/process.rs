//! The pipes of one process: a task that reads and cuts, a task that writes with a deadline (RP-12.2).

use std::{sync::Arc, time::Duration};

use domain::Secret;
use futures_util::future::join_all;
use plugin_host::contract::{
    harness_io::{BadLine, Chunk, Input, Line},
    harness_launch::Framing,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::framing::{Cut, Cutter};
use crate::place::{End, Life, Process};

/// One native write (RP-12.2).
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of one read; also what a single batch of lines is cut from.
const READ: usize = 64 * 1024;
/// Batches that wait for the Executor. Small: what is not taken must press back on the program (RP-11.11).
const BATCHES: usize = 2;
/// How long a process may live on after it has closed its output.
const SILENT_LIFE: Duration = Duration::from_secs(2);
/// For what a cancel has ended to leave: a killed process goes within milliseconds.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// TERM to KILL when the adapter or the host ends a process (TRN-010).
pub(super) const STOP_GRACE: Duration = Duration::from_secs(3);

/// What a process did, in order.
#[derive(Debug)]
pub(super) enum Output {
    /// It printed.
    Said(Vec<Input>),
    /// It is gone, after everything that it printed.
    Ended(u32, End),
}

/// What became of a write.
#[derive(Debug)]
pub(super) enum Written {
    /// The pipe took the last byte of a write that carried these ids.
    Whole(Vec<String>),
    /// The pipe took no more for 10 s, or is broken.
    Stuck(u32),
}

struct Write {
    bytes: Secret,
    carries: Vec<String>,
}

/// A process that an Executor started.
pub(super) struct Running {
    /// None once its input is closed.
    writes: Option<mpsc::UnboundedSender<Write>>,
    life: Arc<dyn Life>,
}

/// The two streams of facts that the processes of one Executor feed.
#[derive(Clone)]
pub(super) struct Feeds {
    pub(super) output: mpsc::Sender<Output>,
    pub(super) written: mpsc::UnboundedSender<Written>,
    pub(super) surveyed: mpsc::UnboundedSender<bool>,
}

/// Where [`Feeds`] end.
pub(super) struct Facts {
    pub(super) output: mpsc::Receiver<Output>,
    pub(super) written: mpsc::UnboundedReceiver<Written>,
    pub(super) surveyed: mpsc::UnboundedReceiver<bool>,
}

pub(super) fn feeds() -> (Feeds, Facts) {
    let (output, outputs) = mpsc::channel(BATCHES);
    let (written, writtens) = mpsc::unbounded_channel();
    let (surveyed, surveys) = mpsc::unbounded_channel();
    (
        Feeds {
            output,
            written,
            surveyed,
        },
        Facts {
            output: outputs,
            written: writtens,
            surveyed: surveys,
        },
    )
}

impl Running {
    /// Puts the pipes of a started process to work.
    pub(super) fn attach(number: u32, process: Process, framing: &Framing, feeds: &Feeds) -> Self {
        let Process {
            input,
            output,
            life,
        } = process;
        let (writes, jobs) = mpsc::unbounded_channel();
        tokio::spawn(write(number, input, jobs, feeds.written.clone()));
        tokio::spawn(read(
            number,
            output,
            Cutting::new(framing),
            Arc::clone(&life),
            feeds.output.clone(),
        ));
        Self {
            writes: Some(writes),
            life,
        }
    }

    /// Queues a write. False when the input is closed.
    pub(super) fn write(&self, bytes: Secret, carries: Vec<String>) -> bool {
        self.writes
            .as_ref()
            .is_some_and(|w| w.send(Write { bytes, carries }).is_ok())
    }

    /// Closes the input after what is queued.
    pub(super) fn close_input(&mut self) {
        self.writes = None;
    }

    /// Ends the tree.
    pub(super) fn stop(&self, grace: Duration) {
        self.life.stop(grace);
    }
}

/// Looks, for a moment, whether the harness is alone in the trees of these processes, and tells.
pub(super) fn survey<'a>(running: impl Iterator<Item = &'a Running>, feeds: &Feeds) {
    let lives: Vec<_> = running.map(|running| Arc::clone(&running.life)).collect();
    let told = feeds.surveyed.clone();
    tokio::spawn(async move {
        let until = Instant::now() + LEAVES_WITHIN;
        let alone = loop {
            let looks = lives.iter().map(|life| life.is_alone());
            let alone = timeout(LEAVES_WITHIN, join_all(looks)).await;
            // Without a process there is no harness that could be kept.
            let alone =
                alone.is_ok_and(|looks| !looks.is_empty() && looks.into_iter().all(|alone| alone));
            if alone || Instant::now() >= until {
                break alone;
            }
            sleep(LOOK_AGAIN).await;
        };
        // The Executor is gone only when nobody needs to know.
        let _ = told.send(alone);
    });
}

impl Drop for Running {
    fn drop(&mut self) {
        // An Executor that goes away takes its processes along; after a regular end this does nothing.
        self.life.stop(Duration::ZERO);
    }
}

enum Cutting {
    Lines(Cutter),
    Raw,
}

impl Cutting {
    fn new(framing: &Framing) -> Self {
        match framing {
            Framing::Lines(limit) => Self::Lines(Cutter::new(*limit)),
            Framing::Raw => Self::Raw,
        }
    }

    fn cut(&mut self, process: u32, bytes: &[u8]) -> Vec<Input> {
        match self {
            Self::Raw => vec![Input::Chunk(Chunk {
                process,
                data: bytes.to_vec(),
            })],
            Self::Lines(cutter) => {
                let mut cuts = Vec::new();
                cutter.push(bytes, &mut cuts);
                inputs(process, cuts)
            }
        }
    }

    fn finish(&mut self, process: u32) -> Vec<Input> {
        match self {
            Self::Raw => Vec::new(),
            Self::Lines(cutter) => {
                let mut cuts = Vec::new();
                cutter.finish(&mut cuts);
                inputs(process, cuts)
            }
        }
    }
}

fn inputs(process: u32, cuts: Vec<Cut>) -> Vec<Input> {
    let input = |cut| match cut {
        Cut::Line(text) => Input::Line(Line { process, text }),
        Cut::Defect(defect) => Input::BadLine(BadLine { process, defect }),
    };
    cuts.into_iter().map(input).collect()
}

async fn read(
    number: u32,
    mut output: Box<dyn AsyncRead + Send + Unpin>,
    mut cutting: Cutting,
    life: Arc<dyn Life>,
    feed: mpsc::Sender<Output>,
) {
    let mut buffer = vec![0; READ];
    loop {
        let said = match output.read(&mut buffer).await {
            Ok(n) if n > 0 => cutting.cut(number, &buffer[..n]),
            // A broken pipe is an end like any other: the exit tells what it was.
            Ok(_) | Err(_) => break,
        };
        if !said.is_empty() && feed.send(Output::Said(said)).await.is_err() {
            return;
        }
    }
    let rest = cutting.finish(number);
    if !rest.is_empty() && feed.send(Output::Said(rest)).await.is_err() {
        return;
    }
    drop(output);
    let mut end = life.end();
    let end = match timeout(SILENT_LIFE, &mut end).await {
        Ok(end) => end,
        Err(_) => {
            // It can say nothing any more, so it can only be ended (F03).
            life.stop(STOP_GRACE);
            end.await
        }
    };
    // The Executor is gone only when nobody needs to know.
    let _ = feed.send(Output::Ended(number, end)).await;
}

async fn write(
    number: u32,
    mut input: Box<dyn AsyncWrite + Send + Unpin>,
    mut jobs: mpsc::UnboundedReceiver<Write>,
    feed: mpsc::UnboundedSender<Written>,
) {
    while let Some(job) = jobs.recv().await {
        let whole = async {
            input.write_all(job.bytes.expose()).await?;
            input.flush().await
        };
        let written = match timeout(WRITE_WITHIN, whole).await {
            Ok(Ok(())) => Written::Whole(job.carries),
            Ok(Err(_)) | Err(_) => Written::Stuck(number),
        };
        let stuck = matches!(written, Written::Stuck(_));
        if feed.send(written).is_err() || stuck {
            return;
        }
    }
}
