//! A running tree and how it ended.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::{Input, Output};

/// How the leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// How a tree ended. The third fact of RP-16.2, the end of output, is the end of [`Output`] and its [`Output::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The leader's end; none when the supervisor was lost before it told.
    pub exit: Option<Exit>,
    /// No process of the scope is left.
    pub scope_empty: bool,
    /// The leader ended by itself and left processes behind that had to be killed (RP-16.6, F06).
    pub lingered: bool,
}

impl Ended {
    /// The exit is known, nothing is left, and nothing had to be killed that nobody asked to stop. Otherwise what the
    /// tree did is not certain (RP-16.6).
    pub fn clean(&self) -> bool {
        self.exit.is_some() && self.scope_empty && !self.lingered
    }

    /// Ended by itself with code 0, clean.
    pub fn success(&self) -> bool {
        self.clean() && self.exit == Some(Exit::Code(0))
    }
}

/// Where a tree stands; the governing task tells every holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// The leader ended, others may live.
    Leaderless(Exit),
    Ended(Ended),
}

/// A tree of processes. Dropping it kills the tree (and so does the death of this process).
///
/// Take [`Child::stdout`] and [`Child::stderr`] and read both to their end, or drop them: an unread pipe blocks the
/// program, and after the leader's exit it delays [`Child::wait`].
pub struct Child {
    /// Standard input; drop it to close it.
    pub stdin: Option<Input>,
    /// Standard output.
    pub stdout: Option<Output>,
    /// Standard error.
    pub stderr: Option<Output>,
    pub(super) pid: u32,
    pub(super) stopper: Stopper,
}

impl Child {
    /// Process id of the leader, for logs; it authorizes nothing (RP-16.4).
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A second handle that can stop and await the tree. The tree lives until the last handle is gone.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// TERM to the whole scope, KILL after the grace, and how it ended (RP-16.3). Zero kills at once.
    pub async fn stop(&self, grace: Duration) -> Ended {
        self.stopper.stop(grace).await
    }

    /// Waits for the end of the tree: the leader's exit and an empty scope. May be called again.
    pub async fn wait(&mut self) -> Ended {
        self.stopper.wait().await
    }

    /// Waits for the leader's exit only; none when the supervisor was lost.
    pub async fn exited(&mut self) -> Option<Exit> {
        self.stopper.exited().await
    }
}

/// What a holder asks of the governing task.
#[derive(Debug)]
pub(super) enum Ask {
    /// End the scope with this grace.
    Stop(Duration),
    /// Count who lives beside the leader.
    Count(oneshot::Sender<u32>),
}

/// A handle on a tree without its pipes.
#[derive(Clone)]
pub struct Stopper {
    pub(super) commands: mpsc::UnboundedSender<Ask>,
    pub(super) phase: watch::Receiver<Phase>,
}

impl Stopper {
    /// See [`Child::stop`].
    pub async fn stop(&self, grace: Duration) -> Ended {
        self.request_stop(grace);
        self.wait().await
    }

    /// Asks for the stop and does not wait for it.
    pub fn request_stop(&self, grace: Duration) {
        // The governing task is gone only when the tree has ended.
        let _ = self.commands.send(Ask::Stop(grace));
    }

    /// How many processes of the scope live beside its leader; none when that cannot be told, because the tree ended or its
    /// supervisor does not answer.
    pub async fn others(&self) -> Option<u32> {
        let (asked, told) = oneshot::channel();
        self.commands.send(Ask::Count(asked)).ok()?;
        told.await.ok()
    }

    /// See [`Child::wait`].
    pub async fn wait(&self) -> Ended {
        let mut phase = self.phase.clone();
        let ended = phase
            .wait_for(|phase| matches!(phase, Phase::Ended(_)))
            .await;
        match ended.as_deref() {
            Ok(Phase::Ended(ended)) => *ended,
            // The runtime shut down under the governing task: its socket closed, so the supervisor kills the tree.
            _ => Ended {
                exit: None,
                scope_empty: false,
                lingered: false,
            },
        }
    }

    /// See [`Child::exited`].
    pub async fn exited(&self) -> Option<Exit> {
        let mut phase = self.phase.clone();
        let exited = phase.wait_for(|phase| *phase != Phase::Running).await;
        match exited.as_deref() {
            Ok(Phase::Leaderless(exit)) => Some(*exit),
            Ok(Phase::Ended(ended)) => ended.exit,
            _ => None,
        }
    }
}
