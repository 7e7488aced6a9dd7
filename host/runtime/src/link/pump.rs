//! The task that owns the link's machine.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::{
    moment::Moment,
    runtime_end::{Command, Notice, Output, RuntimeEnd},
    wire::{CloseReason, Message},
};
use tokio::{
    sync::mpsc,
    time::{self, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    dial::{DialError, Dialer, Socket},
    reconnect::{Next, Reconnect},
    router::Router,
    socket::{Incoming, Open, Waiting},
};

/// What a link is made of.
pub struct LinkSettings {
    /// The machine of this daemon process.
    pub end: RuntimeEnd,
    /// Opens sockets.
    pub dialer: Dialer,
    /// Brings work to Sessions.
    pub router: Router,
    /// What the Sessions tell.
    pub commands: mpsc::UnboundedReceiver<Command>,
    /// The daemon ends.
    pub stop: CancellationToken,
    /// What becomes of a daemon that Core refuses for good.
    pub refused: Refused,
}

/// What a daemon does once Core refuses it for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It parks: whoever starts it knows nothing that could change the answer (RP-3.15).
    Parks,
    /// It ends: Core itself starts it, waits before it does so again, and many Sessions would wait for it (EC-8.20).
    Ends,
}

/// The running link.
pub struct Link {
    end: RuntimeEnd,
    dialer: Arc<Dialer>,
    router: Router,
    commands: mpsc::UnboundedReceiver<Command>,
    stop: CancellationToken,
    refused: Refused,
    began: Instant,
    /// What Core asked for in its goodbye.
    later: Option<Duration>,
}

/// How one connection ended.
enum Ended {
    Stopped,
    /// Core closed it, or it broke.
    ByPeer(Option<CloseReason>),
    /// We closed it.
    ByUs(CloseReason),
}

impl Link {
    /// Nothing is connected.
    #[must_use]
    pub fn new(settings: LinkSettings) -> Self {
        let LinkSettings {
            end,
            dialer,
            router,
            commands,
            stop,
            refused,
        } = settings;
        Self {
            end,
            dialer: Arc::new(dialer),
            router,
            commands,
            stop,
            refused,
            began: Instant::now(),
            later: None,
        }
    }

    /// Connects, again and again, until the daemon ends or Core refuses it for good. Then ends the Sessions.
    pub async fn run(mut self) {
        let mut reconnect = Reconnect::default();
        let mut next = Next::Dial(Duration::ZERO);
        while !self.stop.is_cancelled() {
            let Next::Dial(delay) = next else {
                if self.refused == Refused::Ends {
                    break;
                }
                // RP-3.15: no request any more; Runs that are under way go to their end.
                self.attend(std::future::pending::<()>()).await;
                break;
            };
            if self.attend(sleep(delay)).await.is_none() {
                break;
            }
            let dialer = Arc::clone(&self.dialer);
            next = match self
                .attend(Box::pin(async move { dialer.dial().await }))
                .await
            {
                None => break,
                Some(Ok(socket)) => self.connection(socket, &mut reconnect).await,
                Some(Err(DialError::Refused(reason))) => {
                    tracing::error!(
                        reason = reason.as_str(),
                        "Core refuses this daemon for good; nothing is asked until it is started again"
                    );
                    Next::Park
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "no connection to Core");
                    reconnect.failed(rand::random())
                }
            };
        }
        self.router.shut_down().await;
    }

    async fn connection(&mut self, socket: Socket, reconnect: &mut Reconnect) -> Next {
        let stood = Instant::now();
        self.later = None;
        let ended = self.serve(Open::new(socket)).await;
        self.end.disconnected();
        self.discard_outputs();
        self.router.disconnected();
        match ended {
            Ended::Stopped => Next::Park,
            Ended::ByUs(reason) | Ended::ByPeer(Some(reason)) => {
                tracing::warn!(
                    reason = reason.as_str(),
                    "the connection to Core was closed"
                );
                let next =
                    reconnect.closed(Some(reason), self.later, stood.elapsed(), rand::random());
                if next == Next::Park {
                    tracing::error!(
                        reason = reason.as_str(),
                        "nothing is asked of Core until this daemon is started again"
                    );
                }
                next
            }
            Ended::ByPeer(None) => {
                tracing::warn!("the connection to Core is lost");
                reconnect.closed(None, self.later, stood.elapsed(), rand::random())
            }
        }
    }

    async fn serve(&mut self, mut open: Open) -> Ended {
        self.end.connect(self.now());
        let waiting = open.waiting();
        let ended = loop {
            if let Some(reason) = self.flush(&open) {
                break Ended::ByUs(reason);
            }
            let deadline = self
                .end
                .next_timer()
                .map(|at| time::Instant::from_std(self.began + Duration::from_millis(at.0)));
            tokio::select! {
                () = self.stop.cancelled() => break Ended::Stopped,
                incoming = open.next() => match incoming {
                    Incoming::Message(message) => self.receive(&message),
                    Incoming::Closed(reason) => break Ended::ByPeer(reason),
                },
                Some(command) = next_command(&waiting, &mut self.commands) => {
                    let now = self.now();
                    self.end.command(now, command);
                }
                () = time::sleep_until(deadline.unwrap_or_else(time::Instant::now)), if deadline.is_some() => {
                    let now = self.now();
                    self.end.tick(now);
                }
            }
        };
        let reason = match &ended {
            Ended::ByUs(reason) => Some(*reason),
            Ended::Stopped | Ended::ByPeer(_) => None,
        };
        open.close(reason).await;
        ended
    }

    fn receive(&mut self, message: &Message) {
        let now = self.now();
        self.end.receive(now, message);
    }

    /// Carries out what the machine wants; a close, if it wants one.
    fn flush(&mut self, open: &Open) -> Option<CloseReason> {
        while let Some(output) = self.end.poll() {
            match output {
                Output::Send(message) => {
                    if !open.send(message) {
                        return Some(CloseReason::Overloaded);
                    }
                }
                Output::Notice(notice) => self.notice(notice),
                Output::Close(reason) => return Some(reason),
            }
        }
        None
    }

    fn notice(&mut self, notice: Notice) {
        if let Notice::Goodbye {
            retry_after_ms: Some(ms),
            ..
        } = &notice
        {
            self.later = Some(Duration::from_millis(*ms));
        }
        self.router.notice(notice);
    }

    /// Waits for something while no socket is open; what Sessions tell meanwhile is noted. None when the daemon ends.
    async fn attend<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                done = &mut wait => return Some(done),
                Some(command) = self.commands.recv() => {
                    let now = self.now();
                    self.end.command(now, command);
                    self.discard_outputs();
                }
            }
        }
    }

    /// Without a socket only notices mean something.
    fn discard_outputs(&mut self) {
        while let Some(output) = self.end.poll() {
            if let Output::Notice(notice) = output {
                self.notice(notice);
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// The next thing to tell Core, once there is room for what follows from it. Cancel safe.
async fn next_command(
    waiting: &Waiting,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Option<Command> {
    waiting.room().await;
    commands.recv().await
}
