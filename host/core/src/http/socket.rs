//! A client's socket with a limit for stuck writes, which hyper does not tell of (S-LS-4). It ends with HTTP: whoever takes
//! over an upgraded connection bounds its frames itself (RP-4.8).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_io_timeout::TimeoutStream;

/// Limits each write of HTTP until `upgraded` is set, and nothing after.
pub(super) struct Socket<S> {
    inner: Pin<Box<TimeoutStream<S>>>,
    upgraded: Arc<AtomicBool>,
}

impl<S: AsyncRead + AsyncWrite> Socket<S> {
    pub(super) fn new(socket: S, write: Duration, upgraded: Arc<AtomicBool>) -> Self {
        let mut inner = TimeoutStream::new(socket);
        inner.set_write_timeout(Some(write));
        Self {
            inner: Box::pin(inner),
            upgraded,
        }
    }

    fn writer(&mut self) -> Pin<&mut TimeoutStream<S>> {
        if self.upgraded.load(Ordering::Relaxed) && self.inner.write_timeout().is_some() {
            self.inner.as_mut().set_write_timeout_pinned(None);
        }
        self.inner.as_mut()
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
