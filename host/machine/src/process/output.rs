//! The reading end of a program's output, with the bounded drain of RP-16.6.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// What the governing task and one output tell each other.
pub(super) struct Link {
    /// Cancelled by the task when the leader has exited.
    pub(super) exited: CancellationToken,
    /// Cancelled by the output when it ended, was cut or was dropped.
    pub(super) done: CancellationToken,
    /// Woken by the output when a read after the leader's exit brought nothing for the drain time.
    pub(super) stale: Arc<Notify>,
    /// The drain time.
    pub(super) drain: Duration,
}

/// Standard output or standard error of a program.
///
/// After the leader's exit a read waits for at most the drain time of the order; the time between two reads does not
/// count. A read that brought nothing makes the supervisor kill what is left of the scope; if the pipe is still held
/// after another drain time, somebody outside of the scope has it: the output ends and is [`Output::cut`].
pub struct Output {
    pipe: Receiver,
    link: Link,
    exited: Pin<Box<WaitForCancellationFutureOwned>>,
    leaderless: bool,
    timer: Option<Pin<Box<Sleep>>>,
    warned: bool,
    cut: bool,
}

impl Output {
    pub(super) fn new(pipe: Receiver, link: Link) -> Self {
        let exited = Box::pin(link.exited.clone().cancelled_owned());
        Self {
            pipe,
            link,
            exited,
            leaderless: false,
            timer: None,
            warned: false,
            cut: false,
        }
    }

    /// Whether the end was given up and not seen; then what the program wrote is not certain.
    pub fn cut(&self) -> bool {
        self.cut
    }
}

impl AsyncRead for Output {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.cut {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut this.pipe).poll_read(cx, buffer) {
            this.timer = None;
            this.warned = false;
            if read.is_err() || buffer.filled().len() == before {
                this.link.done.cancel();
            }
            return Poll::Ready(read);
        }
        if !this.leaderless {
            if this.exited.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.leaderless = true;
        }
        loop {
            let timer = this
                .timer
                .get_or_insert_with(|| Box::pin(sleep(this.link.drain)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.timer = None;
            if this.warned {
                this.cut = true;
                this.link.done.cancel();
                return Poll::Ready(Ok(()));
            }
            this.warned = true;
            this.link.stale.notify_one();
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.link.done.cancel();
    }
}
