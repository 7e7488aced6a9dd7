//! The task that stands between one supervisor and the holders of its tree.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::child::{Ask, Ended, Exit, Phase};
use super::control::{self, Command, Report};
use super::reaper::Reaper;

/// How long a supervisor may take to end after its scope is empty, before it is killed.
const SUPERVISOR_LEAVES: Duration = Duration::from_secs(5);

/// How long after a stop's grace a supervisor may take to end its tree, before it is killed and the tree is ended without it.
/// Usually milliseconds; but a kernel without Landlock scopes lets the tree stop its own supervisor.
const SUPERVISOR_OBEYS: Duration = Duration::from_secs(10);

/// One supervisor and what is known of its tree.
pub(super) struct Governor {
    pub(super) supervisor: tokio::process::Child,
    pub(super) reports: OwnedReadHalf,
    pub(super) control: OwnedWriteHalf,
    pub(super) commands: mpsc::UnboundedReceiver<Ask>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) exited: CancellationToken,
    pub(super) outputs: [CancellationToken; 2],
    pub(super) stale: Arc<Notify>,
    pub(super) drain: Duration,
    pub(super) reaper: Arc<Reaper>,
}

impl Governor {
    /// Runs until the tree has ended and its supervisor was waited for.
    pub(super) async fn run(self) {
        let Self {
            mut supervisor,
            reports,
            mut control,
            mut commands,
            phase,
            exited,
            outputs,
            stale,
            drain,
            reaper,
        } = self;
        let pid = supervisor.id();
        let mut reports = spawn_reader(reports);
        let mut exit = None;
        let mut stopping = false;
        let mut killed = false;
        let mut lingered = false;
        let mut scope_empty = false;
        let mut held = true;
        let mut obeys_until = None;
        let mut counts = VecDeque::new();
        // Both outputs ended and the scope had another drain time to end by itself: a background process that
        // closed its output keeps nobody waiting (F06).
        let leftover = async {
            exited.cancelled().await;
            outputs[0].cancelled().await;
            outputs[1].cancelled().await;
            sleep(drain).await;
        };
        tokio::pin!(leftover);
        loop {
            let kill_rest = tokio::select! {
                report = reports.recv() => match report {
                    Some(Report::Exited { code, signal }) => {
                        let how = signal.map_or(Exit::Code(code.unwrap_or_default()), Exit::Signal);
                        exit = Some(how);
                        phase.send_replace(Phase::Leaderless(how));
                        exited.cancel();
                        false
                    }
                    Some(Report::Empty) => {
                        scope_empty = true;
                        break;
                    }
                    Some(Report::Others { living }) => {
                        if let Some(asked) = counts.pop_front() {
                            // Whoever does not wait any more needs no answer.
                            let _ = oneshot::Sender::send(asked, living);
                        }
                        false
                    }
                    Some(Report::Started { .. } | Report::Refused { .. }) => false,
                    None => break,
                },
                ask = commands.recv(), if held => {
                    // None: no holder is left, so nobody will read or stop it any more.
                    held = ask.is_some();
                    let command = match ask.unwrap_or(Ask::Stop(Duration::ZERO)) {
                        Ask::Stop(grace) => {
                            stopping = true;
                            obeys_until = sooner(obeys_until, grace);
                            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
                            Command::Stop { grace_ms }
                        }
                        Ask::Count(asked) => {
                            counts.push_back(asked);
                            Command::Count
                        }
                    };
                    // A supervisor that is gone is seen as the end of its reports.
                    let _ = control::send_async(&mut control, &command).await;
                    false
                }
                // At most one of them, once: the second is over when it has fired.
                () = stale.notified(), if exit.is_some() && !killed => true,
                () = &mut leftover, if exit.is_some() && !killed => true,
                () = expired(obeys_until) => {
                    tracing::warn!("a supervisor does not obey and is killed");
                    let _ = supervisor.kill().await;
                    break;
                }
            };
            if kill_rest {
                killed = true;
                lingered = !stopping;
                obeys_until = sooner(obeys_until, Duration::ZERO);
                let _ = control::send_async(&mut control, &Command::Stop { grace_ms: 0 }).await;
            }
        }
        drop(control);
        exited.cancel();
        if tokio::time::timeout(SUPERVISOR_LEAVES, supervisor.wait())
            .await
            .is_err()
        {
            let _ = supervisor.kill().await;
        }
        if let Some(pid) = pid {
            reaper.forget(pid);
        }
        if !scope_empty {
            // The supervisor was killed: its program has a parent-death signal, and the rest is ours to end.
            scope_empty = reaper.sweep().await;
        }
        phase.send_replace(Phase::Ended(Ended {
            exit,
            scope_empty,
            lingered,
        }));
    }
}

/// A second stop may only shorten the time of the first.
fn sooner(until: Option<Instant>, grace: Duration) -> Option<Instant> {
    let asked = Instant::now().checked_add(grace.saturating_add(SUPERVISOR_OBEYS));
    match (until, asked) {
        (Some(until), Some(asked)) => Some(until.min(asked)),
        (until, asked) => until.or(asked),
    }
}

/// Never, if there is no such time.
async fn expired(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Reads reports in a task of their own, because a half-read frame cannot be put back.
fn spawn_reader(mut from: OwnedReadHalf) -> mpsc::Receiver<Report> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Ok(report) = control::receive_async(&mut from).await {
            if sender.send(report).await.is_err() {
                return;
            }
        }
    });
    receiver
}
